import copy

import pytest
import torch
from torch import nn

from core.model.predictor import fingerprint
from core.modes.copies import some_digits
from core.modes.eval_or_no_grad import two_by_two
from core.status import Progress
from tests.helpers.by_hand import plain


def quadrants(model, digits):
    found = [given for given in two_by_two(model, digits) if not isinstance(given, Progress)][-1]
    return {(one.train_mode, one.gradients): one for one in found}


def test_eval_and_no_grad_switch_different_things(lab):
    model, digits, _ = lab
    digits, before = some_digits(digits, 100), fingerprint(model)
    found = quadrants(model, digits)
    assert len(found) == 4
    for (train_mode, gradients), one in found.items():
        assert (one.statistics_moved > 0) == train_mode
        assert (one.largest_difference > 0.01) == train_mode
        assert (one.saved_bytes > 0) == gradients
        assert one.seconds > 0
    plainly = copy.deepcopy(model).train()
    with torch.no_grad():
        plainly(plain(digits.images))
        moved = max(
            float((getattr(plainly, name).__getattr__(what) - getattr(model, name).__getattr__(what)).abs().max())
            for name in ("norm1", "norm2", "norm3")
            for what in ("running_mean", "running_var")
        )
        right = float((model(plain(digits.images)).argmax(1) == torch.from_numpy(digits.labels)).float().mean())
    assert found[True, False].statistics_moved == pytest.approx(moved, rel=0.02)
    assert found[False, True].accuracy == pytest.approx(right)
    assert fingerprint(model) == before


def test_the_memory_kept_for_backward_is_counted_in_bytes(lab):
    """ReLU and the second linear layer both need ReLU's result: 100 x 32 floats, once. The images are not the graph's."""
    digits = some_digits(lab[1], 100)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    found = quadrants(model, digits)
    assert found[False, True].saved_bytes == 100 * 32 * 4
    assert found[False, True].statistics_moved == 0
    assert found[True, True].largest_difference == 0
