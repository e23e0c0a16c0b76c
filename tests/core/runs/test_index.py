import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RunError
from core.runs.index import RunIndex, RunRow, differing
from core.runs.info import RunInfo, list_runs
from core.runs.notes import MAX_NAME, RunNotes, change_notes, read_notes, tags_of
from core.runs.reader import RunReader
from core.runs.search import search
from core.runs.trash import delete_run, deleted_bytes, deleted_runs, empty_bin, restore_run
from core.runs.writer import RunWriter
from core.status import RunStatus
from tests.helpers.recordings import made
from tests.helpers.trainings import SAMPLE


def test_rows_say_what_a_run_was_and_what_came_of_it(runs):
    run_id = made(runs, learning_rate=0.01, gradient_clip=1.0)
    (row,) = RunIndex(runs).rows()
    assert (row.run_id, row.title, row.damage) == (run_id, run_id, "")
    assert "learning_rate 0.01" in row.changed
    assert "gradient_clip 1" in row.changed
    assert "epochs" in row.changed
    assert row.result("test_accuracy") == 0.9
    assert row.info.images == 20 * 64
    assert row.result("images_per_second") == pytest.approx(64 / 0.01)
    assert row.result("train_seconds") == pytest.approx(0.2)


def test_what_has_not_changed_is_not_read_again_and_what_has_is(runs, monkeypatch):
    ids = [made(runs, seed=seed) for seed in range(3)]
    index = RunIndex(runs)
    index.rows()
    read = []
    real = RunIndex.rows.__globals__["read_row"]
    monkeypatch.setitem(RunIndex.rows.__globals__, "read_row", lambda folder: read.append(folder.name) or real(folder))
    index.rows()
    assert read == []
    change_notes(runs / ids[1], name="the best one")
    assert {row.run_id: row.title for row in index.rows()}[ids[1]] == "the best one"
    assert read == [ids[1]]
    delete_run(runs, ids[0])
    assert ids[0] not in [row.run_id for row in index.rows()]


def test_notes_are_kept_and_limits_told(runs):
    folder = runs / made(runs)
    assert read_notes(folder) == RunNotes()
    change_notes(folder, name="A name", tags=("first", "second"), note="Two\nlines <b>and</b> `marks`")
    change_notes(folder, archived=True)
    assert read_notes(folder) == RunNotes("A name", ("first", "second"), "Two\nlines <b>and</b> `marks`", True)
    for wrong, words in (
        ({"name": "x" * (MAX_NAME + 1)}, "at most 80 characters"),
        ({"name": "two\nlines"}, "on one line"),
        ({"tags": ("a,b",)}, "no comma"),
        ({"tags": tuple(map(str, range(13)))}, "at most 12 tags; got 13"),
        ({"note": "x" * 2001}, "at most 2,000"),
        ({"name": 3}, "text"),
    ):
        with pytest.raises(RunError, match=words):
            change_notes(folder, **wrong)
    assert read_notes(folder).name == "A name"
    assert tags_of(" a, b ,a,, c") == ("a", "b", "c")
    with pytest.raises(RunError, match="no run"):
        change_notes(runs / "gone", name="x")


@given(name=st.text(max_size=100), tags=st.lists(st.text(max_size=40), max_size=14), note=st.text(max_size=50))
def test_any_words_are_kept_exactly_or_refused(tmp_path_factory, name, tags, note):
    folder = tmp_path_factory.mktemp("run")
    try:
        change_notes(folder, name=name, tags=tuple(tags), note=note)
    except RunError:
        assert read_notes(folder) == RunNotes()
        return
    kept = read_notes(folder)
    assert (kept.name, kept.tags, kept.note) == (name, tuple(tags), note)
    assert [path.name for path in folder.iterdir()] == ["notes.json"]


def test_words_find_runs(runs):
    first, second = made(runs, learning_rate=0.01), made(runs, model="mlp")
    change_notes(runs / first, tags=("Class 7b",), note="with Ada")
    rows = RunIndex(runs).rows()

    def found(query):
        return {row.run_id for row in search(rows, query)[0]}

    assert found("") == found("finished") == {first, second}
    assert found("learning_rate=0.01") == found("ADA 7b") == {first}
    assert found("-mlp") == {first}
    assert found("mlp 7b") == set()
    table = differing(rows)
    assert set(table) == {"model", "learning_rate"}
    assert sorted(table["model"]) == ["mlp", "simple_cnn"]


FILES = ("status.json", "config.json", "notes.json", "steps.bin", "reports.bin", "events.jsonl")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["removed", "emptied", "cut", "noise", "other json"])
def test_a_folder_damaged_by_hand_is_listed_and_the_damage_named(runs, name, damage):
    whole, hurt = made(runs, seed=1), made(runs, seed=2)
    change_notes(runs / hurt, name="hurt")
    path = runs / hurt / name
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        new = {
            "emptied": b"",
            "cut": content[: len(content) // 2 + 1],
            "noise": np.random.default_rng(0).bytes(len(content)),
            "other json": json.dumps({"step": "many", "tags": 3, "epochs": "x"}).encode(),
        }[damage]
        path.write_bytes(new)
    rows = {row.run_id: row for row in RunIndex(runs).rows()}
    assert set(rows) == {whole, hurt}
    assert rows[whole].damage == ""
    if name in ("status.json", "config.json") or (name == "notes.json" and damage != "removed"):
        assert name in rows[hurt].damage
    if name == "config.json":
        with pytest.raises(RunError, match=r"config\.json"):
            RunReader(runs / hurt).read()
    assert whole in [info.run_id for info in list_runs(runs)]


def test_a_run_without_a_status_is_named_and_a_strangers_folder_is_not(runs):
    run_id = made(runs)
    (runs / run_id / "status.json").unlink()
    (runs / "holiday").mkdir()
    (runs / "holiday" / "picture.jpg").write_bytes(b"x")
    rows = RunIndex(runs).rows()
    assert [row.run_id for row in rows] == [run_id]
    assert "unknown" in rows[0].damage


def test_a_deleted_run_comes_back_as_it_was_until_the_bin_is_emptied(runs):
    run_id = made(runs)
    before = {path.name: path.read_bytes() for path in (runs / run_id).iterdir()}
    delete_run(runs, run_id)
    assert RunIndex(runs).rows() == []
    assert list_runs(runs) == []
    assert deleted_runs(runs) == [run_id]
    assert deleted_bytes(runs) >= sum(map(len, before.values()))
    with pytest.raises(RunError, match="deleted already"):
        delete_run(runs, run_id)
    restore_run(runs, run_id)
    assert {path.name: path.read_bytes() for path in (runs / run_id).iterdir()} == before
    with pytest.raises(RunError, match="is back already"):
        restore_run(runs, run_id)
    delete_run(runs, run_id)
    empty_bin(runs)
    assert deleted_runs(runs) == []
    assert deleted_bytes(runs) == 0


def test_a_run_in_training_is_not_deleted(runs):
    writer = RunWriter.create(runs, SAMPLE)
    with pytest.raises(RunError, match="Stop it first"):
        delete_run(runs, writer.run_id)
    writer.close()
    delete_run(runs, writer.run_id)


@given(st.text(max_size=60))
def test_no_text_moves_anything_outside_the_runs_folder(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("root")
    (root / "runs").mkdir()
    (root / "precious").mkdir()
    for action in (delete_run, restore_run):
        with pytest.raises(RunError):
            action(root / "runs", text)
    assert sorted(path.name for path in root.iterdir()) == ["precious", "runs"]


def row_with(status=RunStatus.FINISHED, accuracy=None, **settings) -> RunRow:
    info = RunInfo(f"20260101-000000-{abs(hash(str(settings))) % 10**4:04d}", status, test_accuracy=accuracy)
    return RunRow(info, RunNotes("A name", ("class 7b",)), dataclasses.replace(SAMPLE, **settings))


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(["=", "!=", "<", ">", "<=", ">="]))
def test_conditions_compare_values_and_not_texts(one, other, sign):
    row = row_with(batch_size=one)
    expected = {
        "=": one == other,
        "!=": one != other,
        "<": one < other,
        ">": one > other,
        "<=": one <= other,
        ">=": one >= other,
    }
    assert bool(search([row], f"batch_size{sign}{other}")[0]) == expected[sign]
    assert bool(search([row], f"-batch_size{sign}{other}")[0]) != expected[sign]


FITS = [
    "learning_rate=1e-2",
    "lr=0.010",
    "lr<0.1 lr>1e-3",
    "seed=34",
    "dataset=mnist_sample",
    "status=finished",
    "accuracy>98%",
    'tag="class 7b"',
    '"class 7b"',
    "-status=failed",
    "gradient_clip=none",
    'name="a name"',
    "=",
    '"',
]
FITS_NOT = [
    "learning_rate=0.012",
    "seed=3",
    "dataset=mnist",
    "status=fin",
    "test_accuracy<0.9",
    "best_accuracy>0",
    "tag=class",
    "gradient_clip>1",
    "epochs=x",
    "nothing=3",
    "<",
]


@pytest.mark.parametrize(("query", "fits"), [*((one, True) for one in FITS), *((one, False) for one in FITS_NOT)])
def test_what_a_query_means(query, fits):
    row = row_with(accuracy=0.985, learning_rate=0.01, seed=34)
    found, unknown = search([row], query)
    assert bool(found) == fits
    assert bool(unknown) == (not fits)


@given(st.text(max_size=300))
def test_any_query_is_answered(query):
    found, unknown = search([row_with()], query)
    assert len(found) <= 1
    assert not (found and unknown)
