"""The table of layers, held against what networks really do."""

import dataclasses

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from core.config.models import MODELS, ModelSpec
from core.model.layers import layer_rows
from core.model.networks import BUILDERS, build_model, parameter_count
from core.model.source import network_source
from tests.helpers.trainings import SAMPLE


@pytest.fixture
def network(monkeypatch):
    """Make `made()` the network of a configuration."""

    def put(made):
        monkeypatch.setitem(MODELS, "made", ModelSpec("Made", "for a test"))
        monkeypatch.setitem(BUILDERS, "made", lambda config: made())
        return dataclasses.replace(SAMPLE, model="made")

    return put


@pytest.mark.parametrize("name", list(MODELS))
def test_shapes_parameters_and_memory_are_those_of_a_forward(name):
    config = dataclasses.replace(SAMPLE, model=name, dropout=0.2)
    model, outputs = build_model(config).eval(), {}
    for layer_name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, output, of=layer_name: outputs.update({of: output}))
    model(torch.randn(1, 1, 28, 28))
    rows = layer_rows(config)
    assert [row.name for row in rows] == [layer_name for layer_name, _ in model.named_children()]
    assert {row.name: row.shape for row in rows} == {of: tuple(output.shape[1:]) for of, output in outputs.items()}
    assert {row.name: row.output_bytes for row in rows} == {of: output.nbytes for of, output in outputs.items()}
    assert sum(row.parameters for row in rows) == parameter_count(config)


kernels = st.tuples(st.integers(1, 5), st.integers(1, 2), st.integers(1, 2))


@given(st.lists(kernels, min_size=1, max_size=3))
def test_a_number_depends_on_the_square_that_is_told(layers):
    def made():
        chain = [nn.Conv2d(1, 1, kernel, stride=stride, dilation=wide, bias=False) for kernel, stride, wide in layers]
        return nn.Sequential(*chain, nn.Flatten())

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "made", ModelSpec("Made", "for a test"))
        patch.setitem(BUILDERS, "made", lambda config: made())
        try:
            rows = layer_rows(dataclasses.replace(SAMPLE, model="made"))
        except RuntimeError:
            assume(False)  # a kernel larger than its map
    model = made()
    for weight in model.parameters():
        nn.init.constant_(weight, 1.0)
    image = torch.zeros(1, 1, 28, 28, requires_grad=True)
    model(image)[0, 0].backward()  # the first number sees from the first pixel on
    assert image.grad is not None
    touched = image.grad[0, 0].nonzero()
    assert int(touched.max()) + 1 == rows[len(layers) - 1].sees


def test_arithmetic_counts_a_multiplication_and_an_addition(network):
    made = lambda: nn.Sequential(nn.Conv2d(1, 3, 5, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 24 * 24, 10))  # noqa: E731
    assert [row.flops for row in layer_rows(network(made))] == [2 * 3 * 24 * 24 * 25, 0, 0, 2 * 3 * 24 * 24 * 10]


def test_what_is_not_known_is_not_told(network):
    class Shuffled(nn.Module):
        def forward(self, x):
            return x.flip(2)

    config = network(lambda: nn.Sequential(nn.Conv2d(1, 2, 3), Shuffled(), nn.Flatten(), nn.Linear(2 * 26 * 26, 10)))
    assert [row.sees for row in layer_rows(config)] == [3, None, None, None]


@pytest.mark.parametrize("name", list(MODELS))
def test_the_class_answers_as_the_network_does(name):
    config = dataclasses.replace(SAMPLE, model=name, dropout=0.2, batchnorm_momentum=0.3)
    source, model = network_source(config), build_model(config).eval()
    assert source.startswith("class ")
    assert "def __init__(self):" in source
    assert "def forward(self, x):" in source
    scope = {"torch": torch, "nn": nn, "Dropout": nn.Dropout}
    exec(source, scope)
    written = scope["model"].eval()
    written.load_state_dict(model.state_dict())
    images = torch.randn(3, 1, 28, 28)
    assert torch.equal(written(images), model(images))
    for own, layer in zip(model.children(), written.children(), strict=True):
        assert own.extra_repr() == layer.extra_repr()


def _tied():
    chain = nn.Sequential()
    chain.add_module("flatten", nn.Flatten())
    chain.add_module("one", nn.Linear(784, 784))
    chain.add_module("two", nn.Linear(784, 784))
    chain.two.weight = chain.one.weight
    chain.add_module("output", nn.Linear(784, 10))
    return chain


def _frozen():
    chain = nn.Sequential()
    chain.add_module("flatten", nn.Flatten())
    chain.add_module("output", nn.Linear(784, 10).requires_grad_(False))
    return chain


def _twice():
    chain, layer = nn.Sequential(), nn.Linear(784, 784)
    for name, one in (("flatten", nn.Flatten()), ("one", layer), ("two", layer), ("output", nn.Linear(784, 10))):
        chain.add_module(name, one)
    return chain


@pytest.mark.parametrize("made", [_tied, _frozen, _twice])
def test_what_a_class_could_not_say_is_shown_as_its_builder(made, monkeypatch):
    monkeypatch.setitem(MODELS, "made", ModelSpec("Made", "for a test"))
    monkeypatch.setitem(BUILDERS, "made", {"_tied": tied, "_frozen": frozen, "_twice": twice}[made.__name__])
    source = network_source(dataclasses.replace(SAMPLE, model="made", seed=hash(made.__name__) % 1000))
    assert not source.startswith("class ")
    assert f"def {made.__name__}" in source


def tied(config):
    """Two layers of one weight."""
    return _tied()


def frozen(config):
    """Weights that are not trained."""
    return _frozen()


def twice(config):
    """A layer that stands twice."""
    return _twice()
