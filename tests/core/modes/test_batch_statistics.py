import copy

import numpy as np
import pytest
import torch
from torch import nn

from core.model.predictor import fingerprint
from core.modes.copies import batches_of
from core.modes.inside_layer import inside_layer
from core.modes.norm_layers import norm_layers, statistics_problems
from core.modes.poisoning import poisoning
from core.status import Progress
from tests.helpers.by_hand import by_hand, plain


@pytest.mark.parametrize(("layer", "channel"), [("norm1", 0), ("norm2", 31), ("norm3", 7)])
def test_inside_a_layer_by_hand(lab, layer, channel):
    model, digits, _ = lab
    before = fingerprint(model)
    images = plain(digits.images[:40])
    found = inside_layer(model, images.numpy(), layer, channel)
    x = by_hand(model, images, until=layer).double().transpose(0, 1).flatten(1).numpy()  # a row a channel
    n = x.shape[1]
    mean = x.sum(1) / n
    variance = ((x - mean[:, None]) ** 2).sum(1) / n
    assert found.values == n
    assert found.batch_mean == pytest.approx(mean, abs=1e-3)
    assert found.batch_variance == pytest.approx(variance, rel=1e-2)
    norm = dict(model.named_children())[layer]
    assert found.running_mean == pytest.approx(norm.running_mean.numpy())
    assert found.running_variance == pytest.approx(norm.running_var.numpy())
    assert found.before.sum() == found.after_eval.sum() == found.after_train.sum() == n
    gamma, beta = float(norm.weight[channel]), float(norm.bias[channel])
    values = x[channel]
    expected = (values - float(norm.running_mean[channel])) / np.sqrt(
        float(norm.running_var[channel]) + norm.eps
    ) * gamma + beta
    counts = np.histogram(expected, found.after_edges)[0]
    assert np.abs(counts - found.after_eval).sum() <= max(2, 0.01 * n)  # a value on an edge counts twice
    # After train mode's formula the mean is beta and the standard deviation |gamma|, whatever came in.
    centres = (found.after_edges[:-1] + found.after_edges[1:]) / 2
    average = (centres * found.after_train).sum() / n
    assert average == pytest.approx(beta, abs=found.after_edges[1] - found.after_edges[0])
    assert fingerprint(model) == before


def test_an_unknown_layer_or_channel_is_refused(lab):
    model, digits, _ = lab
    with pytest.raises(KeyError):
        inside_layer(model, plain(digits.images[:2]).numpy(), "norm9", 0)
    with pytest.raises(IndexError):
        inside_layer(model, plain(digits.images[:2]).numpy(), "norm1", 99)


def scores(steps):
    return [given for given in steps if not isinstance(given, Progress)][-1]


def test_blank_images_move_the_running_statistics_by_the_known_formula(lab):
    model, digits, clean = lab
    before = fingerprint(model)
    found = scores(poisoning(model, digits, clean, "blank", forwards=34, recalibration=5, size=32))
    conv, norm = model.conv1, model.norm1
    with torch.no_grad():
        x = conv(plain(np.zeros((32, 1, 28, 28), np.uint8))).double()
    n = x.numel() // x.shape[1]
    mean = x.sum((0, 2, 3)) / n
    unbiased = ((x - mean[:, None, None]) ** 2).sum((0, 2, 3)) / (n - 1)
    running_mean, running_variance = norm.running_mean.double(), norm.running_var.double()
    poisoned = {one.forwards: one for one in found if one.phase == "poison"}
    assert list(poisoned) == [0, 1, 2, 3, 5, 8, 13, 21, 34]
    for step in range(35):
        if step in poisoned:
            assert poisoned[step].running_mean == pytest.approx(float(running_mean.mean()), abs=1e-4)
            assert poisoned[step].running_variance == pytest.approx(float(running_variance.mean()), rel=1e-3)
        running_mean = 0.9 * running_mean + 0.1 * mean
        running_variance = 0.9 * running_variance + 0.1 * unbiased
    assert poisoned[34].accuracy < poisoned[0].accuracy - 0.05
    assert fingerprint(model) == before

    # After the reset: a plain average over the clean batches.
    again = [one for one in found if one.phase == "recalibrate"]
    assert (again[0].running_mean, again[0].running_variance) == (0, 1)
    means, variances = [], []
    for batch in batches_of("shuffled", clean.labels, 32)[:5]:
        with torch.no_grad():
            x = conv(plain(clean.images[batch])).double()
        means.append(x.mean((0, 2, 3)))
        variances.append(x.transpose(0, 1).flatten(1).var(1, correction=1))
    assert again[-1].forwards == 5
    assert again[-1].running_mean == pytest.approx(float(torch.stack(means).mean()), abs=1e-3)
    assert again[-1].running_variance == pytest.approx(float(torch.stack(variances).mean()), rel=1e-2)
    assert again[-1].accuracy > poisoned[0].accuracy - 0.05


@pytest.mark.parametrize("poison", ["one_class", "noise", "inf"])
def test_every_poison_is_healed(lab, poison):
    model, digits, clean = lab
    found = scores(poisoning(model, digits, clean, poison, forwards=30, recalibration=20, label=1))
    healthy, poisoned, healed = found[0], [one for one in found if one.phase == "poison"][-1], found[-1]
    assert poisoned.accuracy < healthy.accuracy - 0.04
    assert (poisoned.unanswered == len(digits)) == (poison == "inf")
    assert healed.accuracy > healthy.accuracy - 0.05
    assert healed.unanswered == 0


def test_broken_statistics_are_named(lab):
    model = copy.deepcopy(lab[0])
    assert statistics_problems(model) == []
    model.norm2.running_mean[3] = torch.nan
    model.norm3.running_var[:2] = -1
    found = statistics_problems(model)
    assert found == [
        "norm2.running_mean is NaN or infinite in channel 3.",
        "norm3.running_var is below 0 in channels 0, 1: eval mode takes its square root, which gives NaN.",
    ]
    keeps_none = nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False))
    assert "keeps no running_mean" in statistics_problems(keeps_none)[0]
    assert list(norm_layers(model)) == ["norm1", "norm2", "norm3"]
