import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from core.config.train_config import TrainConfig
from core.data.sources import Digits
from core.model.networks import Dropout, build_model
from core.model.predictor import fingerprint
from core.modes.batch_size import batch_sizes, layers_with_one
from core.modes.company import beside_mates
from core.modes.copies import batches_of, some_digits
from core.modes.distribution_shift import Shift, shift_scores, shifted
from core.modes.one_switch import one_switch
from core.status import Progress
from tests.helpers.by_hand import by_hand, plain


def result(steps):
    """What an experiment gives last; all before it grew towards it."""
    return [given for given in steps if not isinstance(given, Progress)][-1]


def accuracy_by_hand(model, digits, batches) -> float:
    right = 0
    for batch in batches:
        right += int((by_hand(model, plain(digits.images[batch])).argmax(1).numpy() == digits.labels[batch]).sum())
    return right / len(digits)


@pytest.mark.parametrize("order", ["shuffled", "by_class", "stored"])
def test_the_switch_is_what_plain_pytorch_gives(lab, without_dropout, order):
    model, digits, _ = lab
    before = fingerprint(model)
    found = result(one_switch(model, digits, size=16, order=order))
    with torch.no_grad():
        logits = model(plain(digits.images))
    labels = torch.from_numpy(digits.labels)
    assert found.eval.accuracy == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
    assert found.eval.loss == pytest.approx(float(F.cross_entropy(logits, labels)), abs=1e-4)
    batches = batches_of(order, digits.labels, 16)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(digits)))
    assert found.batchnorm.accuracy == pytest.approx(accuracy_by_hand(without_dropout, digits, batches), abs=0.003)
    first = batches[0]
    expected = by_hand(without_dropout, plain(digits.images[first])).numpy()
    assert found.batchnorm.logits[first] == pytest.approx(expected, abs=2e-3)
    changed = (found.eval.logits.argmax(1) != found.train.logits.argmax(1)).nonzero()[0]
    assert np.array_equal(found.changed, changed)
    assert fingerprint(model) == before


def test_each_kind_of_layer_is_switched_alone(lab):
    model, digits, _ = lab
    found = result(one_switch(model, digits, size=4, order="by_class"))
    # Sorted by class BatchNorm ruins the answers, Dropout does not mind who shares the batch.
    assert found.batchnorm.accuracy < 0.7 < found.dropout.accuracy
    assert found.eval.accuracy > 0.85
    assert np.abs(found.dropout.logits - found.eval.logits).max() > 0.1
    assert len(found.changed) > 100


def test_a_model_without_such_layers_answers_the_same(digits):
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
    found = result(one_switch(model, digits, size=8, order="shuffled"))
    assert np.array_equal(found.eval.logits, found.train.logits)
    assert not len(found.changed)


@pytest.fixture(scope="module")
def digits():
    from core.data.sources import load_sample

    return some_digits(load_sample()[1], 100)


def test_batch_sizes_give_one_score_each_and_eval_first(lab, without_dropout):
    model, digits, _ = lab
    digits = some_digits(digits, 200)
    found = result(batch_sizes(model, digits, sizes=(2, 8, 64)))
    assert [one.size for one in found.scores] == [64, 8, 2]
    large, middle, small = found.scores
    assert small.batchnorm < middle.batchnorm < large.batchnorm < found.eval + 0.02
    for one in found.scores:
        expected = accuracy_by_hand(without_dropout, digits, batches_of("shuffled", digits.labels, one.size))
        assert one.batchnorm == pytest.approx(expected, abs=0.006)
        assert not one.reason


def test_one_map_is_enough_for_batchnorm2d(digits):
    model = build_model(TrainConfig(model="fast_cnn")).eval()
    (found,) = result(batch_sizes(model, digits, sizes=(1,))).scores
    expected = accuracy_by_hand(model, digits, batches_of("shuffled", digits.labels, 1))
    assert found.batchnorm == pytest.approx(expected, abs=0.011)


def test_a_batch_of_one_has_its_reason(lab, digits):
    found = result(batch_sizes(lab[0], digits, sizes=(1, 2))).scores
    assert found[0].train is not None
    assert found[1].train is None
    assert "Expected more than 1 value per channel" in found[1].reason


def test_one_image_layer_by_layer(lab):
    model, digits, _ = lab
    lines = layers_with_one(model, plain(digits.images[:1]).numpy())
    # PyTorch raises at the BatchNorm1d: what comes after it was not reached.
    assert [line.name for line in lines[:-1]] == [name for name, _ in model.named_children()][:10]
    values = {line.name: line.values for line in lines}
    assert (values["norm1"], values["norm2"], values["norm3"], values["conv1"]) == (14 * 14, 7 * 7, 1, None)
    assert "Expected more than 1 value per channel" in lines[-1].words
    assert lines[-1].kind == "BatchNorm1d"


def test_company_changes_one_images_answer_and_many(lab, without_dropout):
    model, digits, _ = lab
    image, others = digits.take(np.array([3])), some_digits(digits, 60)
    own = digits.images[:2, 0]
    rows = {row.mates: row for row in result(beside_mates(model, others, image, size=8, other=1, drawings=own))}
    assert list(rows) == ["eval", "mixed", "own_class", "one_class", "outlier", "blank", "drawings"]
    with torch.no_grad():
        expected = model(plain(image.images))[0].softmax(0).numpy()
    assert rows["eval"].probabilities == pytest.approx(expected, abs=1e-4)
    for kind, company in (("blank", np.zeros((7, 1, 28, 28), np.uint8)), ("drawings", own[[0, 1, 0, 1, 0, 1, 0]][:, None])):
        batch = plain(np.concatenate([image.images, company]))
        assert rows[kind].probabilities == pytest.approx(by_hand(without_dropout, batch)[0].softmax(0).numpy(), abs=2e-3)
    assert rows["own_class"].accuracy < rows["mixed"].accuracy
    assert rows["outlier"].accuracy < rows["mixed"].accuracy
    assert "drawings" not in {
        row.mates for row in result(beside_mates(model, others, image, size=8, other=1, drawings=own[:0]))
    }


def test_images_are_shifted_as_said(digits):
    images = digits.images[:5]
    assert np.array_equal(shifted(images, Shift()), images)
    assert shifted(images, Shift(brightness=0.5)) == pytest.approx(images * 0.5, abs=0.51)
    assert shifted(images, Shift(brightness=2)).max() == 255
    mean = images.mean((1, 2, 3), keepdims=True)
    assert shifted(images, Shift(contrast=0.5)) == pytest.approx(0.5 * images + 0.5 * mean, abs=1.01)
    noise = shifted(np.full((4, 1, 28, 28), 128, np.uint8), Shift(noise=0.1)).astype(float)
    assert noise.std() == pytest.approx(25.5, rel=0.05)
    assert np.array_equal(shifted(images, Shift(noise=0.1), 5), shifted(images, Shift(noise=0.1), 5))


def test_shift_scores_are_plain_accuracies(lab, without_dropout):
    model, digits, _ = lab
    plans = [Shift(), Shift(brightness=0.2)]
    found = result(shift_scores(model, digits, plans, size=32))
    assert [one.shift for one in found] == plans
    dark = Digits((digits.images / 255 * 0.2 * 255).round().astype(np.uint8), digits.labels)
    with torch.no_grad():
        in_eval = float((model(plain(dark.images)).argmax(1).numpy() == dark.labels).mean())
    assert found[1].eval == pytest.approx(in_eval, abs=0.01)
    expected = accuracy_by_hand(without_dropout, dark, batches_of("shuffled", dark.labels, 32))
    assert found[1].train == pytest.approx(expected, abs=0.01)
    assert found[1].eval < found[0].eval - 0.1  # darker images suffer in eval mode
    assert found[1].train > found[0].train - 0.1  # and hardly in train mode
    assert found[1].train_sorted < found[1].train - 0.2  # which hangs on the company


def test_dropout_keeps_its_share(lab):
    assert [module.p for module in lab[0].modules() if isinstance(module, Dropout)] == [0.5]
