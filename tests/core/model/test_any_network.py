"""A network that somebody adds: a residual block, LayerNorm, PReLU, nested modules and no Dropout go through everything."""

import ast
import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from core.config.models import MODELS, ModelSpec
from core.config.train_config import TrainConfig
from core.data.sources import load_splits
from core.errors import ConfigError
from core.events import RunStarted
from core.events import Tested as WasTested
from core.execution.fork import fork
from core.execution.kept_states import newest_state
from core.model.networks import BUILDERS, build_model
from core.model.predictor import load_predictor
from core.model.source import has_own_classes, network_source
from core.runs.reader import RunReader
from core.status import RunStatus
from core.training.state import new_state
from core.transfer.script.run_script import run_script
from core.transfer.weights_in import read_weights
from core.transfer.weights_out import WeightFormat, formats_of, loading_lines, packed
from tests.helpers.trainings import SMALL, followed, losses
from tests.helpers.waits import wait_for_status

WIDTH = 8


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.PReLU(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def odd_net(config: TrainConfig) -> nn.Module:
    """Nested, residual, normalised over features."""
    features = nn.Sequential(nn.Conv2d(1, WIDTH, 5, stride=2, padding=2), Residual(WIDTH), nn.MaxPool2d(2))
    return nn.Sequential(features, nn.Flatten(), nn.LayerNorm(WIDTH * 7 * 7), nn.Linear(WIDTH * 7 * 7, 10))


@pytest.fixture
def config(monkeypatch):
    monkeypatch.setitem(MODELS, "odd_net", ModelSpec("Odd", "for a test"))
    monkeypatch.setitem(BUILDERS, "odd_net", odd_net)
    return dataclasses.replace(SMALL, model="odd_net", epochs=2).validate()


def test_every_layer_begins_with_numbers_that_follow_from_the_seed(config):
    first, again, other = (build_model(dataclasses.replace(config, seed=seed)).state_dict() for seed in (1, 1, 2))
    state = torch.random.get_rng_state()
    build_model(config)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert first["0.1.body.1.weight"].tolist() == [0.25] * WIDTH
    assert first["2.weight"].unique().tolist() == [1.0]
    plain = odd_net(config).state_dict()
    for name, value in first.items():
        assert value.abs().max() <= 1.5 * plain[name].abs().max() + 1e-6, name


def test_it_is_trained_resumed_forked_and_asked(config, trainer, runs, tmp_path):
    config = dataclasses.replace(config, checkpoint_seconds=1)
    run_id = trainer.start(config, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    finished = RunReader(runs / run_id).read()
    assert finished.info.test_accuracy is not None
    predictor = load_predictor(runs / run_id / "best.pt")
    assert predictor.predict(np.zeros((1, 1, 28, 28), np.float32))[0].is_answer
    made = fork(run_id, newest_state(runs / run_id, 10), dataclasses.replace(config, learning_rate=1e-4))
    child = trainer.start(made.config, tmp_path, runs, origin=made)
    wait_for_status(trainer, runs, child, RunStatus.FINISHED)
    splits = load_splits(config, tmp_path)
    whole, _ = followed(new_state(config), splits)
    assert finished.steps.column("loss").tolist() == losses(whole).tolist()


def test_its_weights_leave_and_come_back(config, tmp_path):
    assert has_own_classes(config)
    assert WeightFormat.WHOLE_MODEL not in formats_of(config)
    weights = build_model(config).state_dict()
    for kind in formats_of(config):
        content = packed(kind, weights, config)
        back = read_weights(content, "file").weights
        assert all(torch.equal(back[name], weights[name]) for name in weights)
        (tmp_path / f"{kind}.py").write_text(loading_lines(kind, config))
        assert "Residual" in loading_lines(kind, config)


def test_its_script_gives_its_losses_bit_for_bit(config, tmp_path):
    state = new_state(config)
    events, _ = followed(state, load_splits(config, tmp_path))
    started = next(one for one in events if isinstance(one, RunStarted))
    script = tmp_path / "script.py"
    script.write_text(run_script("some", config, started))
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True)
    rows = [line.split(",") for line in (tmp_path / "losses.csv").read_text().splitlines()]
    assert [np.float32(value) for _, value in rows] == losses(events).tolist()
    assert next(one for one in events if isinstance(one, WasTested))
    assert "TrainConfig" not in script.read_text()


class Unready(nn.Module):
    """Numbers of its own, and nothing that draws them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Unready, r"a Unready, has parameters or buffers and no reset_parameters"),
        (nn.Dropout, "masks hang on every other draw"),
    ],
)
def test_what_would_begin_or_go_on_by_chance_is_refused(config, monkeypatch, layer, words):
    monkeypatch.setitem(BUILDERS, "odd_net", lambda config: nn.Sequential(nn.Flatten(), layer(), nn.Linear(784, 10)))
    with pytest.raises(ConfigError, match=words):
        build_model(config)


def test_a_builder_without_source_is_refused_in_words(config, monkeypatch):
    scope = {"nn": nn}
    exec("def made_up(config):\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))", scope)
    monkeypatch.setitem(BUILDERS, "odd_net", scope["made_up"])
    with pytest.raises(ConfigError, match="odd_net cannot be written as lines of Python: made_up has no source"):
        network_source(dataclasses.replace(config, seed=7))


@pytest.mark.parametrize("name", list(MODELS))
def test_what_is_said_of_a_network_is_so(name):
    config = TrainConfig(model=name, dropout=0.25)
    modules = list(build_model(config).modules())
    assert MODELS[name].has_batchnorm == any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in modules)
    assert MODELS[name].has_convolutions == any(isinstance(one, nn.Conv2d) for one in modules)
    assert MODELS[name].words
    source = network_source(config)
    ast.parse(source)
    scope = {"torch": torch, "nn": nn, "Dropout": nn.Dropout}
    exec(source, scope)
    assert {key: value.shape for key, value in scope["model"].state_dict().items()} == {
        key: value.shape for key, value in build_model(config).state_dict().items()
    }
