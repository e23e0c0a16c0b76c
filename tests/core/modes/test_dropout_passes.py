from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from core.model.networks import Dropout
from core.model.predictor import fingerprint
from core.modes.dropout_passes import DropoutPasses, dropout_passes
from tests.helpers.by_hand import plain


def passes(*given, **options) -> DropoutPasses:
    return next(one for one in dropout_passes(*given, **options) if isinstance(one, DropoutPasses))


def test_what_is_kept_is_scaled_by_one_over_one_minus_p():
    """A network whose logits are ten of its own dropped pixels."""
    output = nn.Linear(784, 10, bias=False)
    with torch.no_grad():
        output.weight.copy_(torch.eye(10, 784))
    model = nn.Sequential(OrderedDict(flatten=nn.Flatten(), dropout=Dropout(0.2), output=output)).eval()
    found = passes(model, np.ones((1, 1, 28, 28), np.float32), p=0.25, passes=2000)
    assert found.in_eval.tolist() == [1.0] * 10
    kept = found.logits > 0
    assert found.logits[kept] == pytest.approx(1 / 0.75)
    assert found.unscaled[kept] == pytest.approx(1)
    assert np.array_equal(kept, found.unscaled > 0)
    # 20,000 draws of a share 0.75: five standard errors are 0.015.
    assert kept.mean() == pytest.approx(0.75, abs=0.015)
    assert found.logits.mean() == pytest.approx(1, abs=0.02)
    assert found.unscaled.mean() == pytest.approx(0.75, abs=0.015)
    assert model.dropout.p == 0.2


def test_the_mean_of_many_passes_approaches_eval_mode(lab):
    model, digits, _ = lab
    before = fingerprint(model)
    image = plain(digits.images[:1])
    found = passes(model, image.numpy(), p=0.5, passes=1000)
    with torch.no_grad():
        expected = model(image)[0].numpy()
    assert found.in_eval == pytest.approx(expected, abs=1e-4)
    error = found.logits.std(0) / np.sqrt(1000)
    assert np.abs(found.logits.mean(0) - expected) == pytest.approx(0, abs=5 * error.max())
    bias = model.output.bias.numpy()
    assert found.unscaled == pytest.approx((found.logits - bias) * 0.5 + bias, abs=1e-3)
    digit = int(expected.argmax())
    so_far = found.mean_so_far(digit)
    assert so_far[9] == pytest.approx(found.logits[:10, digit].mean(), abs=1e-4)
    assert found.probabilities().sum(1) == pytest.approx(np.ones(1000), abs=1e-5)
    assert fingerprint(model) == before


def test_without_dropping_every_pass_is_eval_mode_and_a_seed_repeats(lab):
    model, digits, _ = lab
    image = plain(digits.images[:1]).numpy()
    still = passes(model, image, p=0.0, passes=3)
    assert still.logits == pytest.approx(np.tile(still.in_eval, (3, 1)), abs=1e-5)
    assert np.array_equal(
        passes(model, image, p=0.5, passes=130, seed=4).logits, passes(model, image, p=0.5, passes=130, seed=4).logits
    )
