"""Invariant 6: kill -9 at any moment loses at most the last second of metrics and no finished checkpoint."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.__main__ import main
from core.events import STEP_DTYPE
from core.execution.kept_states import newest_state
from core.model.weights import load_weights
from core.runs.folder import RunFolder
from core.runs.info import list_runs
from core.runs.reader import RunReader
from core.status import RunStatus
from core.training.saved_state import restored
from tests.helpers.bits import same_bits
from tests.helpers.waits import wait_for

ROOT = Path(__file__).resolve().parents[3]


def train_in_a_process(runs: Path) -> "subprocess.Popen[bytes]":
    settings = {
        "dataset": "mnist_sample",
        "epochs": 500,
        "train_size": 640,
        "model": "mlp",
        "threads": 1,
        "validation_size": 100,
    }
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "core", "train", *changes, "--runs", str(runs), "--json"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_kill_dash_nine_loses_at_most_a_second_and_no_checkpoint(runs):
    """As the command line trains; test_faults.py kills fifty times."""
    process = train_in_a_process(runs)
    try:
        run = wait_for(lambda: next((one for one in list_runs(runs) if one.status == RunStatus.RUNNING), None))
        reader = RunReader(runs / run.run_id)
        wait_for(lambda: reader.read().validations and (runs / run.run_id / "best.pt").exists())
        until = time.monotonic() + random.Random(1).uniform(0, 1.0)
        before = wait_for(lambda: (now := reader.read()) and time.monotonic() > until and now)
    finally:
        process.send_signal(signal.SIGKILL)
        killed_at = time.time()
        process.wait()
    after = reader.read()
    assert after.info.status == RunStatus.INTERRUPTED
    assert after.step >= before.step
    assert len(after.validations) >= len(before.validations)
    assert after.damage == ()
    assert after.steps.column("step").tolist() == list(range(1, after.step + 1))
    assert killed_at - (runs / run.run_id / "steps.bin").stat().st_mtime < 1
    recorded = [one.step for one in after.validations]
    best = load_weights(runs / run.run_id / "best.pt")["step"]
    assert best in recorded or best > recorded[-1]  # written before it is recorded


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_is_resumed_from_the_command_line_bit_for_bit(runs):
    """Killed at a random moment; the last part and a run that was never killed end with the same bits."""
    settings = {
        "dataset": "mnist_sample",
        "model": "lab_cnn",
        "dropout": 0.3,
        "epochs": 12,
        "train_size": 1280,
        "threads": 1,
        "validation_size": 100,
        "checkpoint_seconds": 1,
    }
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]

    errors = (runs.parent / "errors.txt").open("wb")

    def process(*words):
        command = [sys.executable, "-m", "core", "train", *words, "--runs", str(runs), "--json"]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)

    killed = process(*changes)
    run = wait_for(lambda: next((one for one in list_runs(runs) if one.status == RunStatus.RUNNING), None))
    folder = runs / run.run_id
    wait_for(lambda: RunFolder(folder).states())
    until = time.monotonic() + random.Random(5).uniform(0, 0.8)
    wait_for(lambda: time.monotonic() > until)
    killed.kill()
    killed.wait()
    assert RunReader(folder).read().info.status == RunStatus.INTERRUPTED
    last = process("--resume", run.run_id)
    assert last.wait(120) == 0
    whole = process(*changes)
    assert whole.wait(120) == 0
    errors.close()
    assert (runs.parent / "errors.txt").read_text() == ""
    resumed, other = (RunReader(runs / one.run_id).read() for one in sorted(list_runs(runs), key=lambda one: one.created_at))
    assert resumed.info.resumes == 1
    assert resumed.damage == ()
    for name in set(STEP_DTYPE.names) - {"seconds"}:
        assert resumed.steps.column(name).tolist() == other.steps.column(name).tolist()
    assert resumed.info.test_accuracy == other.info.test_accuracy
    states = [restored(newest_state(runs / one.info.run_id)) for one in (resumed, other)]
    assert same_bits(*states) == ""


def test_resume_has_its_own_settings(runs, capsys):
    assert main(["train", "--resume", "20260101-000000-abcd", "--set", "epochs=3", "--runs", str(runs)]) == 2
    assert "own settings" in capsys.readouterr().err
    assert main(["train", "--resume", "20260101-000000-abcd", "--runs", str(runs)]) == 1
    assert "20260101-000000-abcd" in capsys.readouterr().err
    assert main(["train", "--resume", "../../etc", "--runs", str(runs)]) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_stops_after_the_step_and_saves(runs):
    process = train_in_a_process(runs)
    run = wait_for(lambda: next((one for one in list_runs(runs) if one.status == RunStatus.RUNNING), None))
    wait_for(lambda: RunReader(runs / run.run_id).read().step > 5)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    snapshot = RunReader(runs / run.run_id).read()
    assert snapshot.info.status == RunStatus.STOPPED
    assert load_weights(runs / run.run_id / "last.pt")["step"] == snapshot.step
