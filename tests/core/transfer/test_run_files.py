import dataclasses
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import RunError
from core.runs.index import RunIndex
from core.runs.info import read_info
from core.runs.notes import change_notes
from core.runs.reader import RunReader
from core.runs.writer import RunWriter
from core.status import RunStatus
from core.transfer.metrics_files import (
    MAX_TENSORBOARD_STEPS,
    SCORES,
    metrics_csv,
    metrics_parquet,
    tensorboard_zip,
    write_tensorboard,
)
from core.transfer.run_zip import MANIFEST, pack_run, unpack_run
from tests.helpers.recordings import made, steps, validated
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for, wait_for_status


@pytest.fixture
def snapshot(runs):
    return RunReader(runs / made(runs)).read()


def tables(snapshot):
    """(CSV, Parquet) as data frames by step."""
    csv = pd.read_csv(io.BytesIO(metrics_csv(snapshot)), index_col="step")
    return csv, pd.read_parquet(io.BytesIO(metrics_parquet(snapshot))).set_index("step")


def test_tables_hold_every_step_and_score(snapshot):
    for frame in tables(snapshot):
        assert len(frame) == 20
        assert frame.loc[10, "validation_loss"] == 0.1
        assert frame.loc[10, "test_accuracy"] == 0.97  # the weights of step 10 were tested
        assert frame["loss"].astype(np.float32).tolist() == snapshot.steps.column("loss").tolist()


def test_every_run_has_the_same_columns_and_nan_is_told_from_nothing(runs):
    columns = set()
    for count in (0, 3, 20):
        writer = RunWriter.create(runs, SAMPLE)
        if count:
            event = steps(1, count)
            event.steps["loss"][-1], event.steps["gradient_norm"][0] = np.nan, np.inf
            writer.append(event)
        if count == 20:
            writer.append(validated(20, loss=float("nan")))
        writer.close()
        snapshot = RunReader(writer.folder).read()
        text = metrics_csv(snapshot).decode()
        columns.add(text.splitlines()[0])
        arrow = pq.read_table(io.BytesIO(metrics_parquet(snapshot)))
        columns.add(",".join(arrow.column_names))
        assert arrow.column("test_loss").null_count == count
        if count:
            last = dict(zip(text.splitlines()[0].split(","), text.splitlines()[-1].split(","), strict=True))
            assert (last["loss"], last["test_loss"]) == ("NaN", "")
            assert text.splitlines()[1].split(",")[4] == "inf"
        if count == 20:
            assert last["validation_loss"] == "NaN"
            assert arrow.column("validation_loss").null_count == 19
    assert len(columns) == 1
    assert set(SCORES) < set(columns.pop().split(","))


def read_back(folder):
    """tag -> [(step, value)] as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}, events


def test_tensorboard_reads_what_was_exported(snapshot, tmp_path):
    with zipfile.ZipFile(io.BytesIO(tensorboard_zip([snapshot]))) as archive:
        archive.extractall(tmp_path / "out")
    scalars, events = read_back(tmp_path / "out" / snapshot.info.run_id)
    assert [step for step, _ in scalars["train/loss"]] == list(range(1, 21))
    assert [value for _, value in scalars["train/loss"]] == snapshot.steps.column("loss").tolist()
    assert scalars["validation/accuracy"] == [(10, pytest.approx(0.97))]
    assert scalars["test/loss"] == [(10, pytest.approx(0.1))]
    assert set(scalars) >= {"train/accuracy", "train/learning_rate", "train/gradient_norm", "memory/resident_bytes"}
    assert events.Tags()["tensors"] == ["settings/text_summary"]
    first = events.Scalars("train/loss")[0]
    assert first.wall_time == pytest.approx(snapshot.info.created_at + 0.01, abs=1e-3)


def test_a_long_run_keeps_its_spikes_in_tensorboard(runs, tmp_path):
    writer = RunWriter.create(runs, SAMPLE)
    event = steps(1, 3 * MAX_TENSORBOARD_STEPS)
    event.steps["loss"][4321] = 77.0
    writer.append(event)
    writer.close()
    write_tensorboard(RunReader(writer.folder).read(), tmp_path / "tb")
    losses = read_back(tmp_path / "tb")[0]["train/loss"]
    assert len(losses) <= MAX_TENSORBOARD_STEPS + 1
    assert (4322, 77.0) in losses


def test_each_line_in_tensorboard_keeps_its_own_spikes_its_nan_and_its_end(runs, tmp_path):
    count = 4 * MAX_TENSORBOARD_STEPS
    writer = RunWriter.create(runs, SAMPLE)
    event = steps(1, count)
    event.steps["gradient_norm"][12_345], event.steps["learning_rate"][15_000] = 777.0, 9.0
    event.steps["loss"][[9_000, count - 1]] = np.nan
    event.steps["correct"] = 60
    event.steps["correct"][501] = 0
    writer.append(event)
    writer.close()
    write_tensorboard(RunReader(writer.folder).read(), tmp_path / "tb")
    scalars = read_back(tmp_path / "tb")[0]
    assert (12_346, 777.0) in scalars["train/gradient_norm"]
    assert (15_001, 9.0) in scalars["train/learning_rate"]
    assert (502, 0.0) in scalars["train/accuracy"]
    assert [step for step, value in scalars["train/loss"] if value != value] == [9_001, count]
    assert all(scalars[f"train/{name}"][-1][0] == count for name in ("loss", "accuracy", "learning_rate", "gradient_norm"))


def trained(trainer, runs, tmp_path):
    run_id = trainer.start(dataclasses.replace(SAMPLE, epochs=4), tmp_path, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 12)
    trainer.stop(run_id)
    wait_for_status(trainer, runs, run_id, RunStatus.STOPPED)
    return run_id


def test_a_run_goes_to_another_machine_and_can_be_taken_up_there(trainer, runs, tmp_path):
    run_id = trained(trainer, runs, tmp_path)
    change_notes(runs / run_id, name="Travels", tags=("far",))
    packed = pack_run(runs / run_id)
    other = tmp_path / "other"
    came = unpack_run(packed, other, "travels.zip")
    assert (came.run_id, came.notes) == (run_id, ())
    names = {path.relative_to(runs / run_id) for path in (runs / run_id).rglob("*") if path.is_file() and path.name != "lock"}
    for name in names - {Path("status.json")}:
        assert (other / run_id / name).read_bytes() == (runs / run_id / name).read_bytes()
    assert read_info(other / run_id) == dataclasses.replace(read_info(runs / run_id), imported="travels.zip")
    (row,) = RunIndex(other).rows()
    assert (row.title, row.notes.tags) == ("Travels", ("far",))
    trainer.resume(run_id, tmp_path, other)
    wait_for_status(trainer, other, run_id, RunStatus.FINISHED)
    # A second time it gets another id, and the first is left alone.
    again = unpack_run(packed, other)
    assert again.run_id not in (run_id, f"{run_id}-2")
    assert "already" in again.notes[0]
    assert read_info(other / run_id).status == RunStatus.FINISHED


def test_a_run_packed_while_it_trains_arrives_as_a_stopped_copy(runs, tmp_path):
    writer = RunWriter.create(runs, SAMPLE)
    writer.append(steps(1, 5))
    writer.set_status(RunStatus.RUNNING)
    came = unpack_run(pack_run(writer.folder), tmp_path / "other")
    writer.close()
    info = read_info(tmp_path / "other" / came.run_id)
    assert info.status == RunStatus.STOPPED
    assert "while the run was being trained" in info.reason


def repacked(packed, change):
    """A zip whose files `change` has changed, with a manifest that fits."""
    import hashlib

    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(files.pop(MANIFEST))
    change(files, about)
    about["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} | about.get("more", {})
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(MANIFEST, json.dumps(about))
    return target.getvalue()


def edited_event(number, **values):
    """Change the values of one line of events.jsonl."""

    def change(files, about):
        lines = files["events.jsonl"].splitlines()
        lines[number] = json.dumps({**json.loads(lines[number]), **values}).encode()
        files["events.jsonl"] = b"\n".join(lines) + b"\n"

    return change


def edited_status(**values):
    def change(files, about):
        files["status.json"] = json.dumps({**json.loads(files["status.json"]), **values}).encode()

    return change


HOSTILE = {
    "a path upwards": (lambda files, about: files.update({"../../evil": b"x"}), "does not belong there"),
    "an absolute path": (lambda files, about: files.update({"/tmp/evil": b"x"}), "does not belong there"),
    "a script": (lambda files, about: files.update({"snapshots/step-00000001.py": b"x"}), "does not belong there"),
    "an id that is a path": (lambda files, about: about.update(run_id="../../evil"), "is not a run's id"),
    "no settings": (lambda files, about: files.pop("config.json"), "lacks config.json"),
    "settings of nothing": (lambda files, about: files.update({"config.json": b"{}x"}), "cannot be read"),
    "a pickle for weights": (lambda files, about: files.update({"best.pt": b"cos\nsystem\n(S'touch evil'\ntR."}), "best.pt"),
    "noise for a state": (lambda files, about: files.update({"states/step-00000003.pt": b"\x80\x02"}), "step-00000003.pt"),
    "steps of another run": (lambda files, about: files.update({"steps.bin": files["steps.bin"][48:]}), "steps.bin is damaged"),
    "a word for a number": (lambda files, about: files.update({"status.json": b'{"status":"queued","step":"x"}'}), "step is"),
    "words for notes": (lambda files, about: files.update({"notes.json": b'{"tags": ["a,b"]}'}), "no comma"),
    "a file that is not there": (lambda files, about: about.update(more={"last.pt": "0" * 64}), "lacks last.pt"),
    "code for a device": (edited_event(0, device='cpu")\nimport os  #'), "events.jsonl"),
    "code for threads": (edited_event(0, threads="1)\nimport os  #"), "events.jsonl"),
    "text for a step": (edited_event(1, step="x"), "events.jsonl"),
    "a list for an event": (lambda files, about: files.update({"events.jsonl": b"[1]\n"}), "events.jsonl"),
    "an endless nest": (lambda files, about: files.update({"events.jsonl": b"[" * 100_000 + b"\n"}), "events.jsonl"),
    "a nest for a status": (lambda files, about: files.update({"status.json": b'{"a":' * 100_000}), "nested too deeply"),
    "a number beyond all": (edited_status(images=10**400), "too large a number"),
    "an infinite score": (edited_status(best_accuracy=float("inf")), "not finite"),
    "half a character": (edited_status(preset="\ud800"), "surrogates not allowed"),
    "half a character in a note": (lambda files, about: files.update({"notes.json": b'{"note": "\\ud800"}'}), "surrogates"),
    "drawings of nothing": (lambda files, about: files.update({"drawings.npz": b"x"}), "drawings"),
    "a later version": (lambda files, about: about.update(version=9), "version 9"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_zip_is_refused_and_nothing_is_kept(runs, tmp_path, name):
    packed = pack_run(runs / made(runs))
    change, words = HOSTILE[name]
    target = tmp_path / "deep" / "er" / "runs"
    with pytest.raises(RunError, match=words):
        unpack_run(repacked(packed, change), target)
    assert not target.exists() or list(target.iterdir()) == []
    assert not any("evil" in path.name for path in tmp_path.rglob("*"))


def test_what_is_no_zip_of_a_run_is_refused(runs, tmp_path):
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(6):
            archive.writestr(f"steps-{number}.bin", bytes(100 * 2**20))
    for content, words in (
        (b"", "no zip, or damaged"),
        (b"PK\x03\x04 torn", "no zip, or damaged"),
        (other.getvalue(), "does not belong there: readme.txt"),
        (bomb.getvalue(), "does not belong there"),
    ):
        with pytest.raises(RunError, match=words):
            unpack_run(content, runs)
    assert not runs.exists()


@settings(max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_zip_with_one_changed_byte_is_refused_or_whole(tmp_path_factory, share, flip):
    root = tmp_path_factory.mktemp("zip")
    run_id = made(root / "runs")
    packed = bytearray(pack_run(root / "runs" / run_id))
    packed[int(share * len(packed))] ^= flip
    try:
        came = unpack_run(bytes(packed), root / "other")
    except RunError:
        assert not (root / "other").exists() or list((root / "other").iterdir()) == []
        return
    for name in ("config.json", "steps.bin", "events.jsonl"):  # the byte was one that nothing hangs on, such as a date
        assert (root / "other" / came.run_id / name).read_bytes() == (root / "runs" / run_id / name).read_bytes()


def test_numbers_stay_whole_when_the_run_is_taken_back(trainer, runs, tmp_path):
    run_id = trained(trainer, runs, tmp_path)
    trainer.resume(run_id, tmp_path, runs)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    assert snapshot.info.images == int(snapshot.steps.column("images").astype(np.int64).sum()) == 4 * 640
