"""Folders of every released format are read, resumed and appended to; a newer one is named and left alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core.runs.format
from core.errors import NewerFormatError, RunError
from core.events import REPORT_DTYPE, STEP_DTYPE
from core.execution.fork import fork
from core.execution.kept_states import newest_state
from core.model.predictor import load_predictor
from core.runs.format import DTYPES, VERSION, converted
from core.runs.index import RunIndex, read_row
from core.runs.info import list_runs, read_info
from core.runs.reader import RunReader
from core.status import RunStatus
from core.transfer.run_zip import pack_run, unpack_run
from tests.helpers.waits import wait_for_status

ROOT = Path(__file__).resolve().parents[2] / "data" / "runs"
# As recorded then; on another processor the last digits differ, and training makes that larger.
LOSSES = {
    1: [2.347038, 2.253538, 1.931495, 1.46688, 1.182526, 0.795834, 0.752150, 0.724007, 0.564715, 0.712463],
    2: [2.321479, 2.203178, 2.111984, 2.132078, 1.908063, 1.724485, 1.932077, 1.510676, 1.516193, 1.392290],
}
SCORES = {1: 0.71, 2: 0.726}


@pytest.fixture(params=range(1, VERSION + 1))
def old(request, runs):
    """A copy of a finished run of an older format, whose newest state is in the middle; (version, folder)."""
    shutil.copytree(ROOT / str(request.param), runs)
    (folder,) = runs.iterdir()
    return request.param, folder


def test_the_newest_version_is_todays_rows():
    assert DTYPES[VERSION] == {"steps.bin": STEP_DTYPE, "reports.bin": REPORT_DTYPE}, "raise VERSION, and add the new dtypes"
    assert sorted(int(path.name) for path in ROOT.iterdir() if path.is_dir()) == list(range(1, VERSION + 1))


def test_an_old_run_is_read_as_it_was(old):
    version, folder = old
    snapshot = RunReader(folder).read()
    assert snapshot.damage == ()
    assert snapshot.info.status == RunStatus.FINISHED
    assert snapshot.steps.column("loss") == pytest.approx(LOSSES[version], abs=1e-5)
    assert snapshot.tested is not None
    assert snapshot.tested.evaluation.accuracy == snapshot.info.test_accuracy == SCORES[version]
    assert load_predictor(folder / "best.pt").predict(np.zeros((1, 1, 28, 28), np.float32))[0].is_answer
    (row,) = RunIndex(folder.parent).rows()
    assert (row.damage, row.config) == ("", snapshot.config)


def test_an_old_run_is_resumed_from_its_old_state(old, trainer, tmp_path):
    version, folder = old
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "status": "stopped"}))
    trainer.resume(folder.name, tmp_path, folder.parent)
    wait_for_status(trainer, folder.parent, folder.name, RunStatus.FINISHED)
    after = RunReader(folder).read()
    assert after.damage == ()
    assert after.steps.column("step").tolist() == list(range(1, 11))
    assert after.steps.column("loss") == pytest.approx(LOSSES[version], rel=0.02)
    assert read_info(folder).format == version  # it goes on in the format it was begun in


def test_an_old_run_is_forked_and_taken_along(old, trainer, tmp_path):
    _, folder = old
    config = RunReader(folder).read().config
    made = fork(folder.name, newest_state(folder), config)
    child = trainer.start(made.config, tmp_path, folder.parent, origin=made)
    wait_for_status(trainer, folder.parent, child, RunStatus.FINISHED)
    assert read_info(folder.parent / child).format == VERSION
    assert unpack_run(pack_run(folder), tmp_path / "elsewhere")


def test_a_newer_run_is_named_and_left_alone(old):
    _, folder = old
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "format": VERSION + 1, "colour": "red"}))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(
        RunError, match=f"written by a newer Digit Lab \\(folder format {VERSION + 1}; this one reads up to {VERSION}"
    ):
        read_info(folder)
    assert list_runs(folder.parent) == []
    (row,) = RunIndex(folder.parent).rows()
    assert row.damage.startswith(f"Run {folder.name} was written by a newer Digit Lab")
    assert "cannot be read" not in row.damage
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None, [1]])
def test_what_is_no_version_is_damage(old, version):
    _, folder = old
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "format": version}))
    with pytest.raises(RunError, match=r"status\.json"):
        read_info(folder)


def test_a_column_that_comes_later_leaves_older_runs_readable(old, monkeypatch):
    """As it will be once: today's rows get a column, and the format a second version."""
    version, folder = old
    longer = np.dtype([*STEP_DTYPE.descr[:3], ("a_column_of_tomorrow", "<f4"), *STEP_DTYPE.descr[3:], ("threads", "<u4")])
    for module in ("core.events", "core.runs.format", "core.runs.history"):
        monkeypatch.setattr(f"{module}.STEP_DTYPE", longer)
    steps = RunReader(folder).read().steps
    assert steps.column("loss") == pytest.approx(LOSSES[version], abs=1e-5)
    assert np.isnan(steps.column("a_column_of_tomorrow")).all()
    assert steps.column("threads").tolist() == [0] * 10


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)


@given(NAMES, NAMES, st.data())
def test_rows_keep_what_both_versions_have(first, second, data):
    kinds = st.sampled_from(["<u4", "<f8", "<f4", "<i8"])
    one, other = (np.dtype([(name, data.draw(kinds)) for name in names]) for names in (first, second))
    rows = np.ones(3, one)
    there = converted(rows, other)
    assert there.dtype == other
    for name in second:
        if name in first:
            assert (there[name] == 1).all()
        else:
            assert np.isnan(there[name]).all() if other[name].kind == "f" else (there[name] == 0).all()
    assert core.runs.format.converted(rows, one) is rows


def test_settings_of_a_newer_version_are_no_damage(old):
    """A setting that comes later leaves a run that an older Digit Lab tells apart from a damaged one."""
    _, folder = old
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "a_setting_of_tomorrow": 0.5}))
    with pytest.raises(NewerFormatError, match=r"settings that this Digit Lab does not have \(a_setting_of_tomorrow\)"):
        RunReader(folder).read()
    row = read_row(folder)
    assert "Nothing is wrong with it" in row.damage
    assert "cannot be read" not in row.damage
