import dataclasses
import io
import re
import threading
import zipfile

import pytest

import core.execution.process
from core.execution.process import get_jobs
from core.runs.folder import run_names
from core.runs.index import RunIndex
from core.runs.notes import change_notes, read_notes
from core.runs.trash import deleted_runs
from core.status import Progress, RunStatus
from core.transfer.run_zip import pack_run
from dashboard.runs.charts import (
    MAX_OVERLAID,
    default_axis,
    overlay_figures,
    parallel_figure,
    scatter_figure,
    style,
    varied_settings,
)
from dashboard.runs.session import dispute_job
from dashboard.runs.table import frame_of
from tests.helpers.many_runs import make_runs
from tests.helpers.pages import button, session_is_warm, texts
from tests.helpers.recordings import made
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for, wait_for_job, wait_for_status

HOSTILE = "<img src=x onerror=alert(1)> `code` [link](http://a.b) **bold** $x$"


@pytest.fixture
def page(app):
    app.run()
    app.switch_page("runs/page.py").run()
    assert not app.exception
    return app


def choose(app, *ids):
    app.session_state["runs_selected"] = tuple(ids)
    app.session_state["runs_revision"] = app.session_state["runs_revision"] + 1 if "runs_revision" in app.session_state else 1
    app.run()
    assert not app.exception


def ask_both(page, trainer):
    """Compare the answers of the two chosen runs, and wait for the result."""
    page.segmented_control(key="runs_view").set_value("Answers of two models").run()
    button(page, "Ask both about the test digits").click().run()
    wait_for_job(dispute_job(*page.session_state["runs_selected"]))
    page.run()
    assert not page.exception
    assert "Of 500 test digits" in texts(page)


def listed(app):
    return list(app.dataframe[0].value["name"])


def test_without_runs_the_page_says_what_to_do(page):
    assert "There are no runs yet" in texts(page)
    assert not page.dataframe


def test_runs_are_found_named_tagged_and_archived(page, tmp_path):
    runs = tmp_path / "runs"
    first, second = made(runs, learning_rate=0.01), made(runs, model="mlp")
    page.run()
    assert sorted(listed(page)) == sorted([first, second])
    page.text_input(key="runs_search").set_value("mlp").run()
    assert listed(page) == [second]
    assert "1 of 2 runs" in texts(page)
    choose(page, second)
    name, tags, note = (
        next(one for one in kind if one.key.startswith(f"notes_{part}_"))
        for part, kind in (("name", page.text_input), ("tags", page.text_input), ("note", page.text_area))
    )
    name.set_value(HOSTILE)
    tags.set_value("class 7b, homework")
    note.set_value("A note.")
    button(page, "Keep").click().run()
    assert not page.exception
    kept = read_notes(runs / second)
    assert (kept.name, kept.tags, kept.note) == (HOSTILE, ("class 7b", "homework"), "A note.")
    assert listed(page) == [HOSTILE]
    shown = next(one.value for one in page.markdown if "img" in one.value)
    assert "<img" not in shown.replace("\\<", "")
    assert "\\`code\\`" in shown
    button(page, "Archive").click().run()
    page.text_input(key="runs_search").set_value("").run()
    assert listed(page) == [first]
    page.toggle(key="runs_archived").set_value(True).run()
    assert sorted(listed(page)) == sorted([first, HOSTILE])


def test_deleted_runs_come_back(page, tmp_path):
    runs = tmp_path / "runs"
    ids = [made(runs, seed=seed) for seed in range(3)]
    choose(page, *ids[:2])
    button(page, "Delete").click().run()
    assert not page.exception
    assert sorted(deleted_runs(runs)) == sorted(ids[:2])
    assert listed(page) == [ids[2]]
    assert "Deleted 2 runs" in texts(page)
    button(page, "Undo").click().run()
    assert deleted_runs(runs) == []
    assert len(listed(page)) == 3
    choose(page, ids[0])
    button(page, "Delete").click().run()
    page.session_state["runs_bin"] = True  # AppTest cannot open a popover
    page.run()
    assert button(page, "Delete for good").disabled
    page.checkbox(key="runs_sure_1").check().run()
    button(page, "Delete for good").click().run()
    assert not page.exception
    assert set(run_names(runs)) == set(ids[1:])
    assert deleted_runs(runs) == []


def test_a_run_in_training_is_not_deleted_and_the_page_says_so(page, tmp_path):
    trainer = core.execution.process.get_trainer()
    runs = tmp_path / "runs"
    run_id = trainer.start(dataclasses.replace(SAMPLE, epochs=1000), runs, runs)
    page.run()
    choose(page, run_id)
    button(page, "Delete").click().run()
    assert "Stop it first" in texts(page)
    assert run_id in run_names(runs)
    trainer.stop(run_id)


def test_two_runs_are_compared(page, tmp_path):
    trainer = core.execution.process.get_trainer()
    runs = tmp_path / "runs"
    ids = [trainer.start(dataclasses.replace(SAMPLE, epochs=1, learning_rate=rate), runs, runs) for rate in (1e-3, 3e-3)]
    for run_id in ids:
        wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    wait_for(session_is_warm)
    choose(page, *ids)
    page.segmented_control(key="runs_view").set_value("Settings").run()
    assert not page.exception
    table = page.dataframe[1].value
    assert table.index.tolist() == ["Learning rate"]
    assert sorted(table.iloc[0]) == ["0.001", "0.003"]
    ask_both(page, trainer)
    assert "those of step 10 of" in texts(page)
    assert "McNemar" in "".join(one.help or "" for one in page.markdown)
    page.segmented_control(key="runs_view").set_value("Curves").run()
    assert not page.exception
    choose(page, ids[0])
    page.segmented_control(key="runs_view").set_value("Answers of two models").run()
    assert "Choose two runs; 1 is chosen" in texts(page)


def test_a_sweep_is_started_from_the_page(page, tmp_path):
    runs = tmp_path / "runs"
    for name, value in (("train_size", 128), ("validation_size", 50), ("epochs", 1), ("model", "mlp")):
        page.session_state[f"setting_{name}"] = str(value)
    page.session_state["sweep_open"] = True
    page.run()
    page.multiselect(key="sweep_names").set_value(["learning_rate"]).run()
    page.text_input(key="sweep_values_learning_rate").set_value("1e-3, nonsense").run()
    assert button(page, "Start the sweep").disabled
    assert "learning_rate: must be a number" in texts(page).replace("\\", "")
    page.text_input(key="sweep_values_learning_rate").set_value("1e-3, 3e-3, 0.001,").run()
    assert not button(page, "Start 2 runs").disabled  # values, not words, are counted
    page.text_input(key="sweep_values_learning_rate").set_value("1e-3, 1e-2").run()
    button(page, "Start 2 runs").click().run()
    assert not page.exception
    wait_for_job("sweep")
    page.run()
    assert not page.exception
    assert sorted(listed(page)) == ["learning_rate 0.001", "learning_rate 0.01"]
    assert page.text_input(key="runs_search").value.startswith("sweep-")
    assert all(row.info.status == RunStatus.FINISHED for row in RunIndex(runs).rows())


def test_a_damaged_run_is_in_the_table_with_words(page, tmp_path):
    runs = tmp_path / "runs"
    run_id = made(runs)
    (runs / run_id / "config.json").write_text("{")
    page.run()
    assert page.dataframe[0].value["status"].tolist() == ["Damaged"]
    choose(page, run_id)
    assert "config.json cannot be read" in texts(page).replace("\\", "")


def test_a_zip_comes_in_through_the_page(page, tmp_path):
    run_id = made(tmp_path / "elsewhere")
    packed = pack_run(tmp_path / "elsewhere" / run_id)
    for content, words in ((packed, f"Run {run_id} is here"), (b"no zip", "is no zip, or damaged")):
        uploader = page.file_uploader(key=next(one.key for one in page.file_uploader))
        uploader.set_value(("run.zip", content, "application/zip")).run()
        wait_for(lambda words=words: words in texts(page.run()).replace("\\", ""))
    assert run_names(tmp_path / "runs") == [run_id]


def test_charts_of_many_runs(tmp_path):
    runs = tmp_path / "runs"
    make_runs(runs, 40)
    rows = RunIndex(runs).rows()
    assert len(rows) == 40
    assert varied_settings(rows) == ["model", "batch_size", "learning_rate", "seed", "optimizer"]
    assert default_axis(rows) == "learning_rate"
    scatter = scatter_figure(rows, "learning_rate", "best_accuracy", "optimizer", [rows[0].run_id])
    (points,) = scatter["data"]
    assert len(points["x"]) == len(points["y"]) == len(points["ids"]) == 40
    place = points["ids"].index(rows[3].run_id)
    assert points["x"][place] == rows[3].config.learning_rate
    assert points["y"][place] == pytest.approx(100 * rows[3].info.best_accuracy)
    assert points["marker"]["line"]["width"][points["ids"].index(rows[0].run_id)] == 3
    assert scatter["layout"]["xaxis"]["type"] == "log"
    tested = scatter_figure(rows, "model", "test_accuracy", None, [])["data"][0]
    assert len(tested["x"]) == sum(row.info.test_accuracy is not None for row in rows) < 40
    lines = parallel_figure(rows, "best_accuracy")
    names = [one["label"] for one in lines["data"][0]["dimensions"]]
    assert names == ["Model", "Batch size", "Learning rate", "Optimizer", "Best validation accuracy (%)"]
    assert {len(one["values"]) for one in lines["data"][0]["dimensions"]} == {40}
    assert parallel_figure(rows[:1], "best_accuracy") is None
    assert len({style(place) for place in range(MAX_OVERLAID)}) == MAX_OVERLAID
    frame = frame_of(rows)
    assert len(frame) == 40
    assert frame["tags"].map(len).sum() == 4
    # A column for each setting that differs, under its own name, as numbers where it is one; the id in a column of its own.
    assert frame["learning_rate"].tolist() == [row.config.learning_rate for row in rows]
    assert frame["batch_size"].dtype == "Float64"
    assert "epochs" not in frame or frame["epochs"].nunique() > 1
    assert frame["id"].tolist() == [row.run_id for row in rows]


def test_the_chosen_order_is_kept_when_a_run_appears(page, tmp_path):
    runs = tmp_path / "runs"
    rates = (3e-3, 1e-4, 1e-2)
    ids = {rate: made(runs, learning_rate=rate) for rate in rates}
    page.run()
    box = next(one for one in page.selectbox if one.label == "Order")
    box.set_value("learning_rate").run()
    assert page.dataframe[0].value["id"].tolist() == [ids[rate] for rate in (1e-2, 3e-3, 1e-4)]
    next(one for one in page.toggle if one.label == "Smallest first").set_value(True).run()
    ids[1e-3] = made(runs, learning_rate=1e-3)
    page.run()
    assert page.dataframe[0].value["id"].tolist() == [ids[rate] for rate in (1e-4, 1e-3, 3e-3, 1e-2)]


def test_a_persons_words_are_no_markup_in_tables_and_curves(page, trainer, tmp_path):
    runs = tmp_path / "runs"
    run_id = made(runs)
    change_notes(runs / run_id, name=HOSTILE)
    choose(page, run_id)
    (index,) = page.table[0].value.index
    assert "\\`code\\`" in index
    assert "\\[link\\]" in index
    (trace,) = overlay_figures([trainer.readers.read(runs, run_id)], [HOSTILE], "step", 25, False)[0][1]["data"]
    assert trace["name"].startswith("&lt;img src=x")


def test_two_runs_of_one_name_are_compared(page, tmp_path):
    """Names of a sweep may agree in their first forty characters, or altogether."""
    trainer = core.execution.process.get_trainer()
    runs = tmp_path / "runs"
    ids = [trainer.start(dataclasses.replace(SAMPLE, epochs=1, seed=seed), runs, runs) for seed in (0, 1)]
    for run_id in ids:
        wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
        change_notes(runs / run_id, name="optimizer adam, learning_rate 0.001, batch_size 32")
    wait_for(session_is_warm)
    choose(page, *ids)
    ask_both(page, trainer)


def test_equal_settings_promise_equal_results_only_on_equal_machines(page, tmp_path):
    runs = tmp_path / "runs"
    ids = [made(runs), made(runs), made(runs)]
    path = runs / ids[2] / "events.jsonl"
    path.write_text(re.sub(r'"threads": \d+', '"threads": 7', path.read_text()))
    choose(page, *ids[:2])
    page.segmented_control(key="runs_view").set_value("Settings").run()
    assert "bit for bit" in texts(page)
    choose(page, *ids[1:])
    assert "bit for bit" not in texts(page)
    assert "7 threads" in texts(page)


def test_a_second_sweep_waits_for_the_first(page, tmp_path):
    go_on = threading.Event()

    def steps():
        yield Progress(0, 1, "under way")
        go_on.wait(60)

    for name, value in (("train_size", 128), ("validation_size", 50), ("epochs", 1), ("model", "mlp")):
        page.session_state[f"setting_{name}"] = str(value)
    page.session_state["sweep_open"] = True
    page.run()
    page.multiselect(key="sweep_names").set_value(["learning_rate"]).run()
    page.text_input(key="sweep_values_learning_rate").set_value("1e-3, 1e-2").run()
    get_jobs().start("sweep", steps)  # of another tab, after this page was drawn
    button(page, "Start 2 runs").click().run()
    assert "A sweep is under way already" in texts(page)
    assert not any(one.value for one in page.text_input if one.key == "runs_search")
    go_on.set()
    wait_for_job("sweep")


def test_a_persons_words_are_no_markup_in_hover_texts(tmp_path):
    runs = tmp_path / "runs"
    run_id = made(runs)
    change_notes(runs / run_id, name="<b onclick=x>&")
    text = scatter_figure(RunIndex(runs).rows(), "seed", "test_accuracy", None, [])["data"][0]["text"][0]
    assert text.startswith("&lt;b onclick=x&gt;&amp;<br>")


@pytest.mark.parametrize("axis", ["step", "epoch", "time"])
def test_overlaid_curves_end_where_their_runs_end(trainer, tmp_path, axis):
    runs = tmp_path / "runs"
    ids = make_runs(runs, 2)
    snapshots = [trainer.readers.read(runs, run_id) for run_id in ids]
    figures = dict(overlay_figures(snapshots, ["a", "<b>"], axis, 25, True))
    assert list(figures) == ["Train loss, mean of 25 steps", "Validation loss", "Validation accuracy", "Learning rate"]
    train = figures["Train loss, mean of 25 steps"]
    for trace, snapshot in zip(train["data"], snapshots, strict=True):
        last = {"step": 100, "epoch": 100 / snapshot.config.steps_per_epoch(), "time": 2.0}[axis]
        assert trace["x"][-1] == pytest.approx(last, rel=1e-5)
        assert trace["y"][-1] == pytest.approx(float(snapshot.steps.column("loss")[-25:].mean()), rel=1e-4)
    assert train["layout"]["yaxis"]["type"] == "log"
    assert figures["Learning rate"]["layout"]["yaxis"]["type"] == "linear"


@pytest.fixture
def guarded(app, monkeypatch):
    monkeypatch.setenv("DIGIT_LAB_PASSWORD", "open sesame")
    return app


def test_without_the_password_one_watches_and_with_it_one_controls(guarded, tmp_path):
    runs = tmp_path / "runs"
    guarded.run()
    assert "Starting, stopping, deleting and taking files along need the password" in texts(guarded)
    assert button(guarded, "Start training").disabled
    for wrong in ("", "open", "open sesame "):
        guarded.text_input(key="controls_password").set_value(wrong).run()
    assert button(guarded, "Start training").disabled
    wait_for(
        lambda: guarded.text_input(key="controls_password").set_value("open sesame").run() and "unlocked" in texts(guarded)
    )
    assert not button(guarded, "Start training").disabled
    button(guarded, "Start training").click().run()
    (run_id,) = run_names(runs)
    core.execution.process.get_trainer().stop(run_id)
    assert core.execution.process.get_trainer().wait_until_idle(30)
    button(guarded, "Lock").click().run()
    assert button(guarded, "Start training").disabled


@pytest.mark.parametrize(
    ("place", "label"), [("runs", "Delete"), ("runs", "Archive"), ("runs", "Keep"), ("train", "Start training")]
)
def test_a_button_that_was_drawn_before_does_nothing_without_the_password(app, monkeypatch, tmp_path, place, label):
    """The buttons of a locked page are disabled; the check is behind them, for pages that were drawn before."""
    runs = tmp_path / "runs"
    run_id = made(runs)
    app.run()
    app.switch_page(f"{place}/page.py").run()
    choose(app, run_id)
    assert not button(app, label).disabled
    monkeypatch.setenv("DIGIT_LAB_PASSWORD", "open sesame")
    button(app, label).click().run()
    assert not app.exception
    assert "Controls are locked" in app.toast[0].value
    assert button(app, label).disabled
    assert run_names(runs) == [run_id]
    assert deleted_runs(runs) == []
    assert not (runs / run_id / "notes.json").exists()


def test_each_session_has_drawings_of_its_own_on_a_server_with_a_password(monkeypatch, tmp_path):
    import streamlit as st

    from dashboard.shell import policy_session

    monkeypatch.setenv("DIGIT_LAB_RUNS", str(tmp_path))
    assert policy_session.pins_root() == tmp_path
    monkeypatch.setenv("DIGIT_LAB_PASSWORD", "x")
    states = [{}, {}]
    roots = []
    for state in states:
        monkeypatch.setattr(st, "session_state", _State(state))
        roots.append(policy_session.pins_root())
        assert policy_session.pins_root() == roots[-1]
    assert roots[0] != roots[1]
    assert all(root.is_dir() for root in roots)
    states.clear()
    monkeypatch.undo()
    wait_for(lambda: not any(root.exists() for root in roots))


class _State(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


def test_the_zip_that_a_run_leaves_by_holds_no_lock(tmp_path):
    run_id = made(tmp_path)
    with zipfile.ZipFile(io.BytesIO(pack_run(tmp_path / run_id))) as archive:
        assert "lock" not in archive.namelist()
