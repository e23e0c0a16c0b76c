"""What happens to runs under faults: kills, a full disk, two servers, a clock that goes backwards, no permission."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import RunError
from core.execution.trainer import Trainer
from core.model.weights import load_weights
from core.runs.folder import RunFolder
from core.runs.index import RunIndex
from core.runs.info import list_runs, newest_run_id, read_info
from core.runs.lock import is_held
from core.runs.notes import change_notes
from core.runs.reader import RunReader
from core.runs.trash import delete_run
from core.status import RunStatus
from core.storage.disk_use import MIN_FREE_BYTES
from core.training.saved_state import load_state
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for, wait_for_status

ROOT = Path(__file__).resolve().parents[3]
LONG = dataclasses.replace(SAMPLE, epochs=1000, model="mlp")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@needs_fork
@pytest.mark.parametrize("kills", [12, pytest.param(50, marks=pytest.mark.thorough)])
def test_kills_lose_no_finished_checkpoint_and_every_run_goes_on(tmp_path, kills):
    command = [sys.executable, "-m", "tests.helpers.kills", str(tmp_path / "runs"), str(kills), "1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["problems"] == []
    assert (found["kills"], found["lost_checkpoints"], found["unresumable"], found["lost_steps"]) == (kills, 0, 0, 0)
    assert found["steps"] > kills
    assert found["differs"] == ""


@contextlib.contextmanager
def mounted(folder: Path, *commands: str):
    """Something mounted at `folder` by `mount` with these words each time; skips where this user may not mount."""
    folder.mkdir()
    is_mounted = False
    try:
        for words in commands:
            made = subprocess.run(["mount", *words.split(), str(folder)], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"needs root and the right to mount: {made.stderr.strip()}")
            is_mounted = True
        yield
    finally:
        if is_mounted:  # Path.is_mount does not see a bind mount of the same disk
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Take all but `leave` bytes of the disk."""
    path = folder / "other-peoples-files"
    with path.open("wb") as stream:
        free = shutil.disk_usage(folder).free
        with contextlib.suppress(OSError):
            stream.write(bytes(max(0, free - leave)))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
@pytest.mark.parametrize("during", ["metrics", "checkpoints"])
def test_a_full_disk_fails_the_run_in_words_and_earlier_files_are_whole(tmp_path, during):
    disk = tmp_path / "disk"
    with mounted(disk, f"-t tmpfs -o size={MIN_FREE_BYTES // 2**20 + 40}m tmpfs"):
        trainer = Trainer()
        runs = disk / "runs"
        config = dataclasses.replace(LONG, checkpoint_seconds=1) if during == "checkpoints" else LONG
        run_id = trainer.start(config, tmp_path, runs)
        folder = runs / run_id
        wait_for(lambda: trainer.readers.read(runs, run_id).step > 20 and (folder / "best.pt").exists())
        if during == "checkpoints":
            wait_for(lambda: RunFolder(folder).states())
        before = trainer.readers.read(runs, run_id).step
        ballast = fill(disk, 0 if during == "metrics" else 300_000)
        snapshot = wait_for_status(trainer, runs, run_id, RunStatus.FAILED)
        assert snapshot.step >= before
        assert "No space left on device" in snapshot.info.reason or "the disk is full" in snapshot.info.reason
        assert snapshot.damage == ()
        assert load_weights(folder / "best.pt")["step"] > 0
        for path in RunFolder(folder).states().values():
            load_state(path)
        # The full disk is named before a new run is begun, and with room again all goes on.
        with pytest.raises(RunError, match="MiB are free"):
            trainer.start(SAMPLE, tmp_path, runs)
        ballast.unlink()
        if RunFolder(folder).states():
            trainer.resume(run_id, tmp_path, runs)
            wait_for(lambda: trainer.readers.read(runs, run_id).step > snapshot.step)
            trainer.stop(run_id)
            wait_for_status(trainer, runs, run_id, RunStatus.STOPPED)
        again = trainer.start(dataclasses.replace(SAMPLE, epochs=1), tmp_path, runs)
        wait_for_status(trainer, runs, again, RunStatus.FINISHED)
        trainer.shutdown()
        assert trainer.wait_until_idle(20)


def test_runs_have_a_limit_on_the_disk(trainer, runs, tmp_path, monkeypatch):
    run_id = trainer.start(dataclasses.replace(SAMPLE, epochs=1), tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    monkeypatch.setenv("DIGIT_LAB_MAX_GIB", "0.0001")
    with pytest.raises(RunError, match=r"this server allows 0\.0001"):
        trainer.start(SAMPLE, tmp_path, runs)
    monkeypatch.setenv("DIGIT_LAB_MAX_GIB", "lots")
    with pytest.raises(RunError, match="must be a number of GiB; got 'lots'"):
        trainer.start(SAMPLE, tmp_path, runs)
    monkeypatch.setenv("DIGIT_LAB_MAX_GIB", "1")
    trainer.stop(trainer.start(SAMPLE, tmp_path, runs))


SECOND_SERVER = """
import json, sys
from pathlib import Path
from core.errors import CoreError
from core.runs.trash import delete_run
from core.runs.info import list_runs
from core.execution.trainer import Trainer
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for
from core.status import RunStatus
from dataclasses import replace
runs, theirs = Path(sys.argv[1]), sys.argv[2]
trainer, said = Trainer(), {}
actions = {"resume": lambda: trainer.resume(theirs, runs, runs), "delete": lambda: delete_run(runs, theirs)}
for name, action in actions.items():
    try:
        action()
        said[name] = ""
    except CoreError as error:
        said[name] = str(error)
trainer.stop(theirs)  # not this server's: nothing happens
mine = trainer.start(replace(SAMPLE, epochs=3), runs, runs)
wait_for(lambda: not trainer.active(), 60)
said["mine"], said["status"] = mine, trainer.readers.read(runs, mine).info.status
said["seen"] = {one.run_id: one.status for one in list_runs(runs)}
trainer.shutdown()
print(json.dumps(said))
"""


def test_two_servers_share_a_runs_folder_without_harm(trainer, runs):
    theirs = trainer.start(LONG, runs, runs)
    wait_for_status(trainer, runs, theirs, RunStatus.RUNNING)
    command = [sys.executable, "-c", SECOND_SERVER, str(runs), theirs]
    said = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert "is being trained already, by this server or another process" in said["resume"]
    assert "Stop it first" in said["delete"]
    assert said["status"] == "finished"
    assert said["seen"][theirs] == "running"
    assert trainer.readers.read(runs, theirs).info.status == RunStatus.RUNNING
    trainer.stop(theirs)
    first = wait_for_status(trainer, runs, theirs, RunStatus.STOPPED)
    second = trainer.readers.read(runs, said["mine"])
    for snapshot in (first, second):
        assert snapshot.damage == ()
        assert snapshot.steps.column("step").tolist() == list(range(1, snapshot.step + 1))


def test_a_clock_that_goes_backwards_does_no_harm(trainer, runs, tmp_path, monkeypatch):
    first = trainer.start(LONG, tmp_path, runs)
    wait_for(lambda: trainer.readers.read(runs, first).step > 10)
    real, began = time.time, time.time()
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    at = trainer.readers.read(runs, first).step
    wait_for(lambda: trainer.readers.read(runs, first).step > at + 10)
    trainer.stop(first)
    snapshot = wait_for_status(trainer, runs, first, RunStatus.STOPPED)
    seconds = snapshot.steps.column("seconds")
    assert (seconds[1:] > seconds[:-1]).all()
    assert snapshot.info.updated_at < began
    second = trainer.start(dataclasses.replace(SAMPLE, epochs=1), tmp_path, runs)
    wait_for_status(trainer, runs, second, RunStatus.FINISHED)
    assert {row.run_id for row in RunIndex(runs).rows()} == {first, second}
    trainer.resume(first, tmp_path, runs)
    wait_for(lambda: trainer.readers.read(runs, first).step > snapshot.step)
    trainer.stop(first)
    wait_for_status(trainer, runs, first, RunStatus.STOPPED)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mount")
def test_a_read_only_runs_folder_is_read_and_the_rest_refused_in_words(runs, tmp_path):
    trainer = Trainer()
    ended = trainer.start(dataclasses.replace(SAMPLE, epochs=20), tmp_path, runs)
    wait_for(lambda: trainer.readers.read(runs, ended).step > 10)
    trainer.stop(ended)
    wait_for_status(trainer, runs, ended, RunStatus.STOPPED)
    running = trainer.start(LONG, tmp_path, runs)
    wait_for_status(trainer, runs, running, RunStatus.RUNNING)
    view = tmp_path / "view"
    # The same folder at another place, where nobody may write, not even root.
    with mounted(view, f"--bind {runs}", "-o remount,ro,bind"):
        viewer = Trainer()
        seen = {row.run_id: row.info.status for row in RunIndex(view).rows()}
        assert seen == {ended: RunStatus.STOPPED, running: RunStatus.RUNNING}
        assert RunReader(view / ended).read().step > 10
        assert newest_run_id(view) == running
        assert is_held(view / running)
        assert not is_held(view / ended)
        for action in (
            lambda: viewer.start(SAMPLE, tmp_path, view),
            lambda: viewer.resume(ended, tmp_path, view),
            lambda: change_notes(view / ended, name="x"),
            lambda: delete_run(view, ended),
        ):
            with pytest.raises(RunError, match=r"Read-only file system|Permission denied"):
                action()
        assert viewer.active() == {}
        viewer.shutdown()
    trainer.shutdown()
    assert trainer.wait_until_idle(20)
    assert read_info(runs / ended).status == RunStatus.STOPPED
    assert len(list_runs(runs)) == 2
