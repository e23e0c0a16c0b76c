"""The pages under AppTest: no browser, the real core behind them."""

import dataclasses
from types import SimpleNamespace

import pytest

import core.execution.process
from core.runs.info import list_runs
from core.runs.reader import read_config
from core.status import RunStatus
from dashboard.shell import refresh, run_session, torch_ready
from tests.helpers.pages import button, session_is_warm, texts
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for, wait_for_job, wait_for_status


def quick(app):
    """Settings by which a run takes a second."""
    app.text_input(key="setting_epochs").set_value("2")
    app.text_input(key="setting_train_size").set_value("320")
    app.text_input(key="setting_validation_size").set_value("100")
    return app.run()


def open_tab(app, name):
    """A tab of the run, as a click opens it."""
    app.session_state["run_tabs"] = name
    return app.run()


def chooser(app):
    """The headline's choice of another run; its key names the run and the labels it was drawn with."""
    return next(one for one in app.selectbox if one.label == "Run shown")


def test_the_first_page_teaches_and_offers_one_thing(app):
    app.run()
    assert not app.exception
    assert "What you will see here" in texts(app)
    assert "MNIST is not on this machine" in texts(app)
    assert app.selectbox(key="setting_dataset").value == "mnist_sample"
    assert not button(app, "Start training").disabled


def test_a_run_from_the_form_to_its_result(app, tmp_path):
    quick(app.run())
    button(app, "Start training").click().run()
    assert not app.exception
    run = wait_for(lambda: next((one for one in list_runs(tmp_path / "runs") if not one.status.is_active), None))
    assert run.status == RunStatus.FINISHED, run.reason
    app.run()
    assert not app.exception
    shown = texts(app)
    assert f"Test accuracy {100 * run.test_accuracy:.2f} %" in shown
    assert "Most confidently wrong" in shown
    (band,) = (one.proto.body for one in app.get("html") if 'class="digit-lab-band"' in one.proto.body)
    assert f"<small>Test accuracy</small><b>{100 * run.test_accuracy:.2f} %</b>" in band
    assert "Trained for 10 steps" in band
    assert 'value="1.0000"' in band
    assert app.query_params["run"] in ([run.run_id], run.run_id)


def test_a_double_click_is_one_run_and_another_tab_starts_its_own(app, tmp_path, monkeypatch):
    from dashboard.shell import start_session

    app.run()
    app.text_input(key="setting_epochs").set_value("400").run()
    trainer = core.execution.process.get_trainer()
    try:
        click = button(app, "Start training").click
        click().run()
        click().run()  # the browser's second message about the first page
        assert not app.exception
        assert len(trainer.active()) == 1
        app.text_input(key="setting_seed").set_value("5").run()
        button(app, "Add to the queue").click().run()
        assert len(trainer.active()) == 2  # another thing is no double click
        monkeypatch.setattr(start_session, "monotonic", lambda: float("inf"))
        button(app, "Add to the queue").click().run()
        assert len(trainer.active()) == 3  # nor is the same one later on
    finally:
        for run_id in trainer.active():
            trainer.stop(run_id)


def test_unusable_settings_are_told_beside_their_field_and_start_nothing(app, tmp_path):
    app.run()
    app.text_input(key="setting_learning_rate").set_value("fast").run()
    assert "Learning rate" in texts(app)
    assert "fast" in texts(app)
    assert button(app, "Start training").disabled
    app.text_input(key="setting_learning_rate").set_value("nan")
    app.text_input(key="setting_dropout").set_value("2").run()
    assert "2 settings to mend" in texts(app)
    assert not (tmp_path / "runs").exists()
    app.text_input(key="setting_learning_rate").set_value("1e-5")
    app.text_input(key="setting_dropout").set_value("0").run()
    assert app.text_input(key="setting_learning_rate").value == "1e-5"
    assert not button(app, "Start training").disabled


def test_mnist_that_is_not_there_is_told_before_the_start(app):
    app.run()
    app.selectbox(key="setting_dataset").set_value("mnist").run()
    assert "not on this machine yet" in texts(app)
    assert button(app, "Start training").disabled


def test_a_preset_fills_the_form(app):
    app.run()
    assert app.get_by_key("preset_tutorial").value == "tutorial"
    app.get_by_key("preset_tutorial").set_value("lr-too-low").run()
    assert app.text_input(key="setting_learning_rate").value == "1e-5"
    assert app.selectbox(key="setting_optimizer").value == "sgd"
    assert "hardly leaves" in texts(app)
    app.text_input(key="setting_learning_rate").set_value("0.1").run()
    assert "Your own settings" in texts(app)


def test_a_link_holds_settings(app):
    app.query_params["preset"] = "fast99"
    app.query_params["epochs"] = "3"
    app.run()
    assert app.selectbox(key="setting_model").value == "small_cnn"
    assert app.text_input(key="setting_epochs").value == "3"


def test_a_broken_link_says_what_was_left_out_and_keeps_the_rest(app):
    app.query_params["epochs"] = "-3"
    app.query_params["learning_rate"] = "abc"
    app.query_params["batch_size"] = "32"
    app.run()
    assert not app.exception
    assert len(app.warning) == 1
    assert all(word in texts(app) for word in ("epochs", "rate", "a number such as 0.001", "between 1 and"))
    assert "abc" not in texts(app)  # whoever made the link has no voice on the page
    assert app.text_input(key="setting_epochs").value == "10"
    assert app.text_input(key="setting_batch_size").value == "32"
    assert not button(app, "Start training").disabled


@pytest.mark.parametrize("name", ["../../etc/passwd", "<b>x</b>", "no-such-run"])
def test_a_run_that_is_none_is_told(app, name):
    app.query_params["run"] = name
    app.run()
    assert not app.exception
    assert len(app.warning) == 1


def test_an_optional_number_can_be_emptied_again(app):
    quick(app.run())
    app.text_input(key="setting_train_size").set_value("").run()
    assert app.text_input(key="setting_train_size").value == ""
    assert "steps" in texts(app)


def test_a_failed_run_shows_its_reason_and_details(app, tmp_path):
    quick(app.run())
    app.selectbox(key="setting_optimizer").set_value("sgd")
    app.text_input(key="setting_learning_rate").set_value("1e6").run()
    button(app, "Start training").click().run()
    wait_for(lambda: any(one.status == RunStatus.FAILED for one in list_runs(tmp_path / "runs")))
    app.run()
    assert not app.exception
    assert "The loss became" in texts(app)
    assert not any(one.label.startswith("Resume") and not one.disabled for one in app.button)  # it would fail again
    open_tab(app, "Settings")
    assert "Try a learning rate ten times lower" in texts(app)
    assert any("Traceback" in one.value for one in app.code)
    app.get_by_key("mend_fork").click().run()  # what the verdict advises, with one click
    assert not app.exception
    child = list_runs(tmp_path / "runs")[0]
    assert child.parent == list_runs(tmp_path / "runs")[1].run_id
    assert read_config(tmp_path / "runs" / child.run_id).learning_rate == 1e5
    core.execution.process.get_trainer().stop(child.run_id)


def test_the_environment_page_ends_in_a_text_to_copy(app):
    app.run()
    app.switch_page("environment/page.py").run()
    wait_for_job("check")
    app.run()
    assert not app.exception
    assert any("Matrix product on cpu" in one.value for one in app.code)


def ended_run(runs, status=RunStatus.STOPPED, **changes):
    """A run that trained some steps here and ended early."""
    trainer = core.execution.process.get_trainer()
    run_id = trainer.start(dataclasses.replace(SAMPLE, **{"epochs": 10, **changes}), runs, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 4)
    trainer.stop(run_id)
    assert trainer.wait_until_idle(30)
    if status == RunStatus.INTERRUPTED:  # what a killed process leaves behind
        path = runs / run_id / "status.json"
        path.write_text(path.read_text().replace('"stopped"', '"running"'))
    return run_id


@pytest.mark.parametrize("status", [RunStatus.STOPPED, RunStatus.INTERRUPTED])
def test_a_run_that_ended_early_is_resumed_from_its_panel(app, tmp_path, status):
    runs = tmp_path / "runs"
    run_id = ended_run(runs, status)
    app.query_params["run"] = run_id
    app.run()
    assert not app.exception
    resume = app.get_by_key("take_up")
    assert "bit for bit as if it had never stopped" in resume.help
    resume.click().run()
    assert not app.exception
    snapshot = wait_for_status(core.execution.process.get_trainer(), runs, run_id, RunStatus.FINISHED)
    assert snapshot.info.resumes == 1
    assert snapshot.step == snapshot.total_steps


def test_the_page_finds_a_run_that_a_crash_left_unfinished(app, tmp_path):
    runs = tmp_path / "runs"
    run_id = ended_run(runs, RunStatus.INTERRUPTED)
    other = ended_run(runs)
    app.query_params["run"] = other
    app.run()
    assert f"of {SAMPLE.total_steps() * 5}" in texts(app)
    button(app, "Not now").click().run()
    assert not any(one.label == "Resume it" for one in app.button)
    del app.session_state["runs_put_aside"]
    app.run()
    button(app, "Resume it").click().run()
    assert not app.exception
    assert app.session_state["shown_run"] == run_id
    wait_for_status(core.execution.process.get_trainer(), runs, run_id, RunStatus.FINISHED)
    app.run()
    assert not any(one.label == "Resume it" for one in app.button)


def test_all_that_a_crash_left_is_resumed_in_its_order(app, tmp_path):
    runs = tmp_path / "runs"
    ids = [ended_run(runs, RunStatus.INTERRUPTED, seed=seed, epochs=400) for seed in (1, 2)]
    app.query_params["run"] = ended_run(runs)
    app.run()
    app.get_by_key("take_up_all").click().run()
    assert not app.exception
    trainer = core.execution.process.get_trainer()
    assert list(trainer.active()) == ids
    assert app.session_state["shown_run"] == ids[0]
    for run_id in reversed(ids):
        trainer.stop(run_id)


def test_a_run_without_a_state_offers_no_resume_and_a_deleted_one_says_so(app, tmp_path):
    runs = tmp_path / "runs"
    run_id = ended_run(runs)
    app.query_params["run"] = run_id
    app.run()
    for path in (runs / run_id / "states").iterdir():
        path.unlink()
    app.get_by_key("take_up").click().run()
    assert not app.exception
    assert "keeps no saved state to go on from" in texts(app).replace("\\", "")
    app.run()
    assert not any(one.key == "take_up" for one in app.button)


@pytest.mark.parametrize("kind", ["resume"])
def test_a_proof_is_one_button(app, tmp_path, kind):
    runs = tmp_path / "runs"
    run_id = ended_run(runs, model="mlp", epochs=1000)
    app.query_params["run"] = run_id
    app.run()
    wait_for(session_is_warm)
    open_tab(app, "Proofs")
    button(app, f"Prove that it {kind}s").click().run()
    assert not app.exception
    assert any(one.label == "Stop the proof" for one in app.button)
    wait_for_job(f"proof-{kind}-{run_id}")
    app.run()
    assert "It holds: 60 steps trained" in texts(app).replace("\\", "")


def test_a_fork_changes_one_thing_and_names_its_parent(app, tmp_path):
    runs = tmp_path / "runs"
    run_id = ended_run(runs)
    app.query_params["run"] = run_id
    app.run()
    wait_for(session_is_warm)
    open_tab(app, "Fork")
    assert not app.exception
    assert "Nothing is changed" in texts(app)
    app.multiselect(key=f"fork_names_{run_id}").set_value(["learning_rate", "optimizer"]).run()
    app.text_input(key=f"fork_{run_id}_learning_rate").set_value("minus one").run()
    assert button(app, "Start the fork").disabled
    assert "a number such as 0.001" in texts(app)
    app.text_input(key=f"fork_{run_id}_learning_rate").set_value("1e-5").run()
    app.selectbox(key=f"fork_{run_id}_optimizer").set_value("sgd").run()
    assert "Learning rate: 0.001 → 1e-5" in texts(app).replace("\\", "")
    assert "begins without memory" in texts(app)
    button(app, "Start the fork").click().run()
    assert not app.exception
    child = app.session_state["shown_run"]
    assert child != run_id
    snapshot = wait_for_status(core.execution.process.get_trainer(), runs, child, RunStatus.FINISHED)
    assert (snapshot.info.parent, snapshot.config.learning_rate, snapshot.config.optimizer) == (run_id, 1e-5, "sgd")
    open_tab(app, "Settings")
    assert f"Starts from run {run_id}" in texts(app)
    # The child has reached its end: it asks for more epochs and what its learning rate is to do.
    open_tab(app, "Fork")
    assert app.text_input(key=f"fork_{child}_epochs").value == "15"


def test_an_old_message_about_a_widget_that_is_gone_chooses_nothing(app, tmp_path):
    """The browser's messages may be older than the page: a removed widget comes back with the value it was drawn with."""
    from dashboard.shell.widget_session import changed_choice

    runs = tmp_path / "runs"
    first, second = ended_run(runs), ended_run(runs)
    app.query_params["run"] = first
    app.run()
    chooser(app).set_value(second).run()
    assert app.session_state["shown_run"] == second
    chooser(app).set_value(first).run()
    assert app.session_state["shown_run"] == first

    import streamlit as st

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st, "session_state", {f"run_choice_{first}": first, "preset_tutorial": "fast99"})
        assert changed_choice(f"run_choice_{first}", first) is None
        assert changed_choice("preset_tutorial", "tutorial") == "fast99"
        assert changed_choice("gone", None) is None


def test_a_link_is_taken_over_whole_and_what_it_names_wrongly_is_told(app):
    """Each of the two sizes alone would be too much or too little for the digits there are."""
    for name, value in {
        "train_size": "4400",
        "validation_size": "100",
        "epoch": "3",
        "workers": "2",
        "pipeline": "dataloader",
        "momentum": "0.9",
        "seed": "many",
    }.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    sizes = [app.text_input(key=f"setting_{name}").value for name in ("train_size", "validation_size", "workers")]
    assert sizes == ["4400", "100", "2"]
    (told,) = (one.value.replace("\\", "") for one in app.warning)
    assert "epoch: there is no such setting; epochs is one" in told
    assert "seed: must be a whole number" in told
    assert "train_size" not in told


def test_of_a_link_that_fits_nowhere_the_rest_is_kept():
    from dashboard.settings.form_session import with_link

    config, problems = with_link(SAMPLE, {"train_size": "4900", "epochs": "7", "learning_rate": "-1"})
    assert (config.train_size, config.epochs, config.learning_rate) == (SAMPLE.train_size, 7, SAMPLE.learning_rate)
    assert set(problems) == {"train_size", "learning_rate"}


def test_a_runs_settings_fill_the_form_again(app, tmp_path):
    run_id = ended_run(tmp_path / "runs", learning_rate=0.02, batch_size=32)
    app.query_params["run"] = run_id
    open_tab(app, "Settings")
    button(app, "Use these settings").click().run()
    assert not app.exception
    assert app.text_input(key="setting_learning_rate").value == "0.02"
    assert app.text_input(key="setting_batch_size").value == "32"
    assert app.session_state["shown_run"] == run_id


def test_the_queue_is_shown_and_chooses_the_run(app, tmp_path):
    runs, trainer = tmp_path / "runs", core.execution.process.get_trainer()
    ids = [trainer.start(dataclasses.replace(SAMPLE, epochs=500, seed=seed), runs, runs) for seed in range(3)]
    wait_for_status(trainer, runs, ids[0], RunStatus.RUNNING)
    app.run()
    waiting = {one.key: one for one in app.button if (one.key or "").startswith("queue_")}
    assert list(waiting) == [f"queue_{run_id}" for run_id in ids]
    assert [one.label.split()[0] for one in waiting.values()] == ["Now:", "1.", "2."]
    assert "seed 2" in waiting[f"queue_{ids[2]}"].label
    waiting[f"queue_{ids[2]}"].click().run()
    assert app.session_state["shown_run"] == ids[2]
    (band,) = (one.proto.body for one in app.get("html") if 'class="digit-lab-band"' in one.proto.body)
    assert "<small>Waits in line</small><b>2 runs</b> <span>before it</span>" in band
    for run_id in reversed(ids):
        trainer.stop(run_id)


def test_the_model_that_is_shown_answers_however_old_it_is(app, tmp_path):
    from tests.helpers.many_runs import make_runs

    runs = tmp_path / "runs"
    old = ended_run(runs)
    make_runs(runs, 40)
    assert old not in [info.run_id for info in list_runs(runs, 30)] or old == min(info.run_id for info in list_runs(runs))
    app.query_params["run"] = old
    app.run()
    wait_for(session_is_warm)
    app.switch_page("draw/page.py").run()
    assert not app.exception
    assert f"run {old}" in texts(app)


def test_without_pytorch_the_pages_say_so_and_go_on(app, tmp_path, monkeypatch):

    run_id = ended_run(tmp_path / "runs")
    app.query_params["run"] = run_id
    app.run()
    wait_for(session_is_warm)
    monkeypatch.setattr(torch_ready, "torch_problem", lambda: "ImportError: libcudart.so.13 is missing")
    for place in ("train/page.py", "draw/page.py", "modes/page.py", "runs/page.py"):
        app.switch_page(place).run()
        assert not app.exception
        assert place in ("train/page.py", "runs/page.py") or "libcudart.so.13 is missing" in texts(app).replace("\\", "")


def test_many_viewers_share_five_refreshes_a_second_and_those_who_left_do_not_count(monkeypatch):

    now, seconds = [1000.0], {}
    monkeypatch.setattr(refresh, "monotonic", lambda: now[0])
    monkeypatch.setattr(refresh, "_last_seen", {})
    for viewers in (1, 5, 6, 30, 200):
        for number in range(viewers):
            monkeypatch.setattr(refresh, "session_id", lambda number=number: str(number))
            seconds[viewers] = refresh.refresh_seconds()
    assert seconds == {1: 1, 5: 1, 6: 2, 30: 6, 200: 10}
    now[0] += 30
    assert refresh.refresh_seconds() == 1


class Session(dict):
    """As st.session_state: items are attributes."""

    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


@pytest.mark.parametrize(("fragments", "expected"), [(["timer"], "new"), (None, "old")])
def test_a_timers_refresh_with_an_old_address_does_not_bring_the_old_run_back(fragments, expected, monkeypatch):
    address = {}
    monkeypatch.setattr("dashboard.shell.run_session.st", SimpleNamespace(session_state=Session(), query_params=address))
    monkeypatch.setattr(
        "dashboard.shell.policy_session.get_script_run_ctx", lambda: SimpleNamespace(fragment_ids_this_run=fragments)
    )
    run_session.show_run("new")
    address["run"] = "old"  # what a timer sends that fired before the click, or a person who went Back
    assert run_session.shown_run() == expected


def test_the_code_is_that_of_the_run_or_of_the_form(app, tmp_path):
    quick(app.run())
    button(app, "Start training").click().run()
    wait_for(lambda: next((one for one in list_runs(tmp_path / "runs") if not one.status.is_active), None))
    open_tab(app, "Code")
    wait_for(lambda: session_is_warm() or None)
    app.run()
    assert not app.exception
    assert any(one.value.startswith("class SimpleCNN(nn.Module):") for one in app.code)
    assert "conv1" in set(app.dataframe[-1].value["layer"])
    app.selectbox(key="setting_model").set_value("mlp")
    app.session_state["code_of_form"] = True
    app.run()
    assert any(one.value.startswith("class MLP(nn.Module):") for one in app.code)
    for part, word in (
        ("Data set", "def __len__(self):"),
        ("Optimizer and schedule", "torch.optim.Adam("),
        ("Training loop", "loss.backward()"),
        ("Whole script", "import torch"),
    ):
        app.session_state["code_part"] = part
        app.run()
        assert not app.exception
        assert any(word in one.value for one in app.code), part
    app.session_state["view_code"] = True
    app.run()
    assert not app.exception


def test_what_slows_a_run_down_is_told_with_a_button(app, tmp_path, monkeypatch):
    monkeypatch.setattr("core.runs.speed._LEAST_SECONDS", 0.0)
    monkeypatch.setattr("core.runs.speed._WAITING", 0.0)  # whatever the machine: it waits
    app.run()
    app.selectbox(key="setting_pipeline").set_value("dataloader")
    quick(app)
    app.text_input(key="setting_train_size").set_value("3000").run()
    button(app, "Start training").click().run()
    wait_for(lambda: next((one for one in list_runs(tmp_path / "runs") if not one.status.is_active), None))
    open_tab(app, "Speed")
    assert not app.exception
    assert "of the time it waits for data" in texts(app)
    button(app, "Start with pipeline memory").click().run()
    newest = list_runs(tmp_path / "runs")[0]
    assert read_config(tmp_path / "runs" / newest.run_id).pipeline == "memory"


def test_seeds_are_trained_as_a_group_and_compared(app, tmp_path):
    quick(app.run())
    app.selectbox(key="start_seeds").set_value(3).run()
    button(app, "Start training").click().run()
    assert not app.exception
    runs = wait_for(lambda: found if len(found := list_runs(tmp_path / "runs")) == 3 and done(found) else None)
    assert sorted(read_config(tmp_path / "runs" / run.run_id).seed for run in runs) == [0, 1, 2]
    open_tab(app, "Seeds")
    assert not app.exception
    assert "3 seeds:" in said(app)
    button(app, "Train 1 more seed").click().run()
    runs = wait_for(lambda: found if len(found := list_runs(tmp_path / "runs")) == 4 and done(found) else None)
    assert max(read_config(tmp_path / "runs" / run.run_id).seed for run in runs) == 3
    app.selectbox(key="start_seeds").set_value(1).run()
    app.text_input(key="setting_learning_rate").set_value("1e-7").run()
    button(app, "Start training").click().run()
    wait_for(lambda: found if len(found := list_runs(tmp_path / "runs")) == 5 and done(found) else None)
    open_tab(app, "Seeds")
    assert "One run:" in said(app)
    first = next(
        run for run in runs if read_config(tmp_path / "runs" / run.run_id).seed == 0
    )  # of one moment, ids have no order
    app.selectbox(key="seeds_other").set_value(first.run_id).run()
    assert not app.exception
    assert "Real: -" in said(app)


def said(app) -> str:
    """Its words without the marks that keep Markdown from reading them."""
    return texts(app).replace("\\", "")


def done(runs) -> bool:
    return not any(run.status.is_active for run in runs)


def test_more_seeds_than_the_queue_takes_are_refused_whole(app, tmp_path, monkeypatch):
    monkeypatch.setattr("dashboard.shell.start_session.MAX_QUEUE", 5)
    quick(app.run())
    app.selectbox(key="start_seeds").set_value(10).run()
    button(app, "Start training").click().run()
    assert "10 runs do not fit: the queue has room for 6" in said(app)
    assert list_runs(tmp_path / "runs") == []


def test_the_time_slider_shows_the_run_at_any_kept_step(app, tmp_path):
    quick(app.run())
    button(app, "Start training").click().run()
    wait_for(lambda: found if done(found := list_runs(tmp_path / "runs")) and found else None)
    wait_for(lambda: session_is_warm() or None)
    app.run()
    slider = next(one for one in app.select_slider if one.label == "At step")
    assert slider.value == "last scoring"
    slider.set_value(4).run()
    wait_for(lambda: (not app.run().exception and "After step 4: " in texts(app).replace("\\", "")) or None)
    assert "of 100 validation digits right" in said(app)
    assert "What the first layer looks for" in texts(app)
    next(one for one in app.select_slider if one.label == "At step").set_value("last scoring").run()
    assert "Scored on the test digits" in texts(app)
