import copy
import dataclasses

import pytest
import torch
from torch import nn

from core.config.models import MODELS
from core.model.networks import BUILDERS, Dropout, build_model, parameter_count, reseed_dropout
from tests.helpers.trainings import SAMPLE


def config_for(name: str, **changes):
    return dataclasses.replace(SAMPLE, model=name, **changes)


def test_every_model_of_the_form_can_be_built():
    assert list(BUILDERS) == list(MODELS)


@pytest.mark.parametrize("name", list(MODELS))
def test_models_map_images_to_ten_logits(name):
    config = config_for(name, dropout=0.3)
    model = build_model(config)
    for count in (2, 5):
        assert model(torch.randn(count, 1, 28, 28)).shape == (count, 10)
    assert parameter_count(config) == sum(parameter.numel() for parameter in model.parameters())
    assert all(value.isfinite().all() for value in model.state_dict().values())


def test_simple_cnn_is_the_tutorials_network():
    # 3x3 convolutions 1 -> 32 -> 64 and one linear layer from 64 maps of 7x7.
    assert parameter_count(config_for("simple_cnn")) == (9 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 49 * 10 + 10)


@pytest.mark.parametrize("name", list(MODELS))
def test_first_weights_follow_from_the_seed_alone(name):
    torch.manual_seed(1)
    first = build_model(config_for(name)).state_dict()
    torch.manual_seed(2)
    again = build_model(config_for(name)).state_dict()
    other = build_model(config_for(name, seed=1)).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_first_weights_have_pytorchs_default_spread():
    ours = build_model(config_for("simple_cnn")).get_submodule("conv2").weight
    theirs = nn.Conv2d(32, 64, 3).weight
    assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.05)
    assert ours.abs().max().item() == pytest.approx((1 / (32 * 9)) ** 0.5, rel=0.01)


def test_dropout_keeps_the_mean_and_drops_its_share():
    layer = Dropout(0.3)
    layer.reseed(7)
    passed = layer(torch.ones(200, 500))
    assert (passed == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert passed.unique().tolist() == pytest.approx([0, 1 / 0.7])
    layer.eval()
    assert torch.equal(layer(torch.ones(3, 3)), torch.ones(3, 3))


def test_dropout_masks_follow_the_step_and_nothing_else():
    model = build_model(config_for("mlp", dropout=0.5))
    images = torch.randn(8, 1, 28, 28)

    def answer(step: int, *, draws: int = 0):
        reseed_dropout(model, 3, step)
        torch.rand(draws)
        return model(images)

    assert torch.equal(answer(5), answer(5, draws=100))
    assert not torch.equal(answer(5), answer(6))


def test_a_copy_in_the_middle_of_a_stream_goes_on_alike():
    layer = Dropout(0.5)
    layer.reseed(1)
    layer(torch.ones(10))
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(torch.ones(50)), layer(torch.ones(50)))
    twin(torch.ones(50))  # and takes nothing from the original
    third = copy.deepcopy(layer)
    assert torch.equal(third(torch.ones(50)), layer(torch.ones(50)))
