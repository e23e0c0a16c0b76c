import dataclasses
import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RunError
from core.events import STEP_DTYPE, Validated
from core.events import Tested as WasTested
from core.runs.folder import run_folder
from core.runs.info import list_runs, read_info
from core.runs.lock import is_held
from core.runs.reader import RunReader
from core.runs.writer import RunWriter
from core.status import RunStatus
from tests.helpers.recordings import EVENTS, SCORE, steps, validated
from tests.helpers.trainings import SAMPLE


@pytest.fixture
def writer(runs):
    made = RunWriter.create(runs, SAMPLE, "tutorial")
    yield made
    made.close()


def test_what_is_written_is_read_back(writer):
    reader = RunReader(writer.folder)
    assert reader.read().info.status == RunStatus.QUEUED
    for event in EVENTS:
        writer.append(event)
    writer.append(steps(1, 7))
    writer.set_status(RunStatus.FINISHED)
    snapshot = reader.read()
    assert snapshot.config == SAMPLE
    assert (snapshot.started, *snapshot.validations, snapshot.stopped_early, snapshot.tested) == EVENTS
    assert snapshot.step == 7
    assert snapshot.info.preset == "tutorial"
    assert snapshot.images_per_second() == pytest.approx(6400, rel=1e-6)
    assert snapshot.damage == ()


def test_reading_goes_on_where_it_stopped(writer):
    reader = RunReader(writer.folder)
    for number in range(20):
        writer.append(steps(1 + 5 * number, 5))
        if number % 3 == 0:
            assert reader.read().step == 5 * (number + 1)
    assert reader.read().steps.column("step").tolist() == list(range(1, 101))


@given(
    loss=st.floats(allow_nan=True, allow_infinity=True),
    accuracy=st.floats(0, 1),
    values=st.lists(st.floats(width=32), min_size=1, max_size=5),
    seconds=st.floats(0, 1e9),
)
def test_whatever_a_training_reports_is_read_back(tmp_path_factory, loss, accuracy, values, seconds):
    """Losses and norms of any size, NaN and infinity: all of them are results."""
    writer = RunWriter.create(tmp_path_factory.mktemp("runs"), SAMPLE)
    event = steps(1, len(values))
    event.steps["loss"] = event.steps["gradient_norm"] = values
    event.steps["seconds"] = seconds
    writer.append(event)
    told = (
        Validated(1, 0.1, dataclasses.replace(SCORE, loss=loss, accuracy=accuracy, unanswered=3), True),
        WasTested(1, dataclasses.replace(SCORE, loss=loss)),
    )
    for one in told:
        writer.append(one)
    writer.update(best_accuracy=accuracy, test_accuracy=accuracy)
    writer.set_status(RunStatus.FINISHED)
    writer.close()
    snapshot = RunReader(writer.folder).read()
    assert snapshot.damage == ()
    assert repr((snapshot.validations[0], snapshot.tested)) == repr(told)
    np.testing.assert_array_equal(snapshot.steps.column("loss"), np.array(values, np.float32))


def test_the_pictures_of_old_validations_are_neither_parsed_nor_kept(writer):
    for number in range(1, 40):
        writer.append(validated(number))
    reader = RunReader(writer.folder)
    assert [len(one.evaluation.mistakes) for one in reader.read().validations] == [0] * 38 + [1]
    writer.append(validated(40))
    found = reader.read().validations
    assert [len(one.evaluation.mistakes) for one in found] == [0] * 39 + [1]
    assert found[0].evaluation.confusion == SCORE.confusion
    assert reader.read().damage == ()


IMPOSSIBLE = [
    ("seconds", np.nan),
    ("seconds", -1.0),
    ("learning_rate", np.inf),
    ("learning_rate", -1e-3),
    ("images", 0),
    ("correct", 65),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_rows_that_no_training_writes_are_damage(writer, name, value):
    event = steps(1, 10)
    event.steps[name][6] = value
    writer.append(event)
    snapshot = RunReader(writer.folder).read()
    assert len(snapshot.steps) == 6
    assert "steps.bin is damaged after step 6" in snapshot.damage[0]


@given(cut=st.integers(0, 3 * STEP_DTYPE.itemsize), text_cut=st.integers(0, 400))
def test_a_torn_end_is_left_out_until_it_is_whole(tmp_path_factory, cut, text_cut):
    runs = tmp_path_factory.mktemp("runs")
    writer = RunWriter.create(runs, SAMPLE)
    writer.append(steps(1, 3))
    for event in EVENTS:
        writer.append(event)
    writer.close()
    folder = writer.folder
    files = {name: (folder / name).read_bytes() for name in ("steps.bin", "events.jsonl")}
    (folder / "steps.bin").write_bytes(files["steps.bin"][:cut])
    (folder / "events.jsonl").write_bytes(files["events.jsonl"][: -1 - text_cut])
    reader = RunReader(folder)
    assert reader.read().step == cut // STEP_DTYPE.itemsize
    for name, content in files.items():
        (folder / name).write_bytes(content)
    snapshot = reader.read()
    assert snapshot.step == 3
    assert snapshot.tested == EVENTS[3]
    assert snapshot.damage == ()


@pytest.mark.parametrize("name", ["steps.bin", "reports.bin", "events.jsonl"])
@pytest.mark.parametrize("damage", ["removed", "noise"])
def test_damage_is_named_and_the_rest_is_read(writer, name, damage):
    for event in (steps(1, 50), *EVENTS):
        writer.append(event)
    path = writer.folder / name
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size) + b"\n")
    snapshot = RunReader(writer.folder).read()
    if not (damage == "noise" and name == "reports.bin"):  # any bytes are some memory reading
        assert any(name in words for words in snapshot.damage)
    assert snapshot.config == SAMPLE
    assert snapshot.step == (0 if name == "steps.bin" else 50)


def test_a_run_that_nobody_holds_is_interrupted(runs):
    writer = RunWriter.create(runs, SAMPLE)
    writer.set_status(RunStatus.RUNNING)
    assert is_held(writer.folder)
    assert read_info(writer.folder).status == RunStatus.RUNNING
    writer.close()
    info = read_info(writer.folder)
    assert info.status == RunStatus.INTERRUPTED
    assert "killed" in info.reason
    writer2 = RunWriter.create(runs, SAMPLE)
    writer2.set_status(RunStatus.STOPPED)
    writer2.close()
    assert read_info(writer2.folder).status == RunStatus.STOPPED


def test_runs_are_listed_newest_first_and_strangers_passed_over(runs):
    made = []
    for number in range(3):
        writer = RunWriter.create(runs, dataclasses.replace(SAMPLE, seed=number))
        writer.set_status(RunStatus.FINISHED)
        writer.close()
        made.append(writer.run_id)
    (runs / "notes").mkdir()
    (runs / "broken").mkdir()
    (runs / "broken" / "status.json").write_text("{")
    assert sorted(info.run_id for info in list_runs(runs)) == sorted(made)
    assert len(list_runs(runs, limit=2)) == 2
    assert list_runs(runs / "none") == []


@given(st.text(max_size=80))
def test_no_text_becomes_a_path_outside(tmp_path_factory, text):
    root = tmp_path_factory.getbasetemp()
    try:
        folder = run_folder(root, text)
    except RunError:
        return
    assert folder.parent == root
    assert folder.resolve().is_relative_to(root.resolve())


def test_unreadable_settings_are_told(writer):
    (writer.folder / "config.json").write_text(json.dumps({"epochs": -1}))
    with pytest.raises(RunError, match="epochs"):
        RunReader(writer.folder).read()
    (writer.folder / "config.json").unlink()
    with pytest.raises(RunError, match=r"config\.json"):
        RunReader(writer.folder).read()
    with pytest.raises(RunError, match="no run"):
        read_info(writer.folder.parent / "gone")


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(RunError, match="DIGIT_LAB_RUNS"):
        RunWriter.create(blocked / "runs", SAMPLE)


def test_any_number_may_look_whether_a_run_is_held_and_none_takes_another_for_its_holder(runs):
    writer = RunWriter.create(runs, SAMPLE)
    assert is_held(writer.folder)
    writer.close()
    found, go = [], threading.Barrier(8)

    def look():
        go.wait(20)
        found.extend(is_held(writer.folder) for _ in range(200))

    viewers = [threading.Thread(target=look) for _ in range(8)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
    assert found == [False] * 1600


def test_what_a_killed_process_left_half_written_goes_when_the_run_is_taken_up(runs):
    writer = RunWriter.create(runs, SAMPLE)
    writer.close()
    left = writer.folder / "status.json.abc123.part"
    left.write_text("half")
    RunWriter.reopen(writer.folder).close()
    assert not left.exists()
