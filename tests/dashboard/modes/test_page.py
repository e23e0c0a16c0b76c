"""The train/eval page under AppTest: the real core behind it, a small trained model, no browser."""

import re
import shutil

import pytest
import torch

import core.execution.process
from core.model.predictor import fingerprint, load_predictor
from core.model.weights import load_weights, save_weights
from core.runs.info import list_runs
from tests.helpers.laboratory import NAMES, lab_of
from tests.helpers.pages import button, texts
from tests.helpers.waits import wait_for_job


@pytest.fixture
def page(app, trained, tmp_path):
    """Opens the page with a run and the parameters of a link."""
    shutil.copytree(trained[0], tmp_path / "runs")

    def opened(run_id, **link):
        app.query_params["run"] = run_id
        for name, value in link.items():
            app.query_params[name] = value
        app.run()
        wait_for_job("warm-up")
        app.switch_page("modes/page.py").run()
        wait_for_job("digits-mnist_sample", begun=False)
        app.run()
        return settled(app)

    return opened


def settled(app):
    """The page once its experiment has ended."""
    assert not app.exception
    if (current := app.session_state.get("modes_job", None)) is not None:
        wait_for_job(current[1], 120)
        app.run()
        assert not app.exception
    return app


def choose(app, name):
    app.get_by_key("m").set_value(name).run()
    return settled(app)


def test_the_switch_is_measured_on_the_runs_own_model(page, trained):
    from core.modes.one_switch import one_switch

    app = page(trained[1])
    lab = lab_of(trained[0], trained[1])
    expected = list(one_switch(lab.predictor.model, lab.test, size=4, order="shuffled"))[-1]
    words = texts(app)
    assert f"{expected.eval.accuracy:.2%} becomes {expected.train.accuracy:.2%}".replace("%", " %") in words
    assert f"{len(expected.changed):,} of 500 digits changed" in words
    assert "a hash says the model is unchanged" in words
    app.get_by_key("m_size").set_value(64).run()
    assert f"{expected.train.accuracy:.2%}".replace("%", " %") not in texts(settled(app))


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_ends_with_a_sentence_that_has_numbers(page, trained, name, tmp_path):
    app = page(trained[1])
    best = tmp_path / "runs" / trained[1] / "best.pt"
    before = best.read_bytes(), fingerprint(load_predictor(best).model)
    choose(app, name)
    if name == "twins":
        app.get_by_key("m_steps").set_value(50).run()
        button(app, "Train the twins").click().run()
        settled(app)
    lead = next(one.value for one in app.markdown if "**" in one.value and len(one.value) > 30)
    assert re.search(r"\d", lead), lead
    assert sum(len(one.value) for one in app.markdown) > 300  # and why
    assert any(one.label == "Again" for one in app.button)
    assert (best.read_bytes(), fingerprint(load_predictor(best).model)) == before
    assert list(app.warning) == [] or name == "size"  # a batch of one has its reason there


def test_a_link_opens_an_experiment_with_its_choices(page, trained):
    app = page(trained[1], m="6 Poisoning", m_poison="blank images", m_forwards="10")
    assert "After 10 forwards of 64 blank images" in texts(app)
    app.query_params["m_forwards"] = "7000"
    app.run()
    assert not app.exception


def test_a_model_without_such_layers_is_told_what_fits_and_offered_one(page, trained, tmp_path):
    app = page(trained[2])
    words = texts(app)
    assert "has no BatchNorm and no Dropout" in words
    assert "What works with it: Warming up, Dropout, With and without, During training, eval or no_grad" in words
    button(app, "Train a fitting model").click().run()
    assert not app.exception
    newest = list_runs(tmp_path / "runs")[0]
    assert (newest.model, newest.dataset) == ("lab_cnn", "mnist_sample")
    core.execution.process.get_trainer().stop(newest.run_id)


def test_without_a_model_the_page_offers_to_train_one(app):
    app.run()
    wait_for_job("warm-up")
    app.switch_page("modes/page.py").run()
    assert not app.exception
    assert "No model can answer yet" in texts(app)


def test_an_experiment_can_be_stopped_and_taken_up_again(page, trained):
    app = page(trained[1])
    app.get_by_key("m").set_value("twins").run()
    app.get_by_key("m_steps").set_value(800).run()
    button(app, "Train the twins").click().run()
    assert any(one.label == "Stop" for one in app.button)
    button(app, "Stop").click().run()
    settled(app)
    assert "Stopped; what was measured until then is below." in texts(app)
    button(app, "Again").click().run()
    assert any(one.label == "Stop" for one in app.button)
    app.switch_page("train/page.py").run()  # nobody waits for it any more
    name = app.session_state["modes_job"][1]
    wait_for_job(name)


def change_weights(path, change):
    """Rewrite a checkpoint with other weights."""
    content = load_weights(path)
    change(content["weights"])
    save_weights(path, content["weights"], content["config"], content["step"], None)


def test_broken_statistics_are_named(page, trained, tmp_path):
    page_folder = tmp_path / "runs" / trained[1]

    def opened_with(change):
        app = page(trained[1])
        change_weights(page_folder / "best.pt", change)
        app.run()
        return settled(app)

    app = opened_with(lambda weights: weights["norm2.running_mean"].__setitem__(3, torch.nan))
    assert "is NaN or infinite in channel 3" in app.warning[0].value
    assert "answers in eval mode are wrong, or no answers at all" in app.warning[0].value


def test_a_missing_counter_is_filled_in_and_another_architecture_refused(page, trained, tmp_path):
    app = page(trained[1])
    path = tmp_path / "runs" / trained[1] / "best.pt"
    change_weights(path, lambda weights: weights.pop("norm1.num_batches_tracked"))
    app.run()
    assert "num\\_batches\\_tracked missing" in texts(settled(app))
    change_weights(path, lambda weights: weights.pop("conv1.weight"))
    app.run()
    assert not app.exception
    assert "conv1.weight is missing" in texts(app).replace("\\", "")


def test_weights_from_a_file_become_a_run_that_pages_ask(page, trained, tmp_path):
    from core.transfer.weights_out import WeightFormat, packed

    app = page(trained[1])
    content = load_weights(tmp_path / "runs" / trained[1] / "best.pt")
    count = len(list_runs(tmp_path / "runs"))
    uploader = next(one for one in app.get("file_uploader") if one.label == "Or weights from a file")
    uploader.upload("<b>*x*</b>.pt", b"hello", "application/octet-stream").run()
    assert not app.exception
    assert "no file with weights" in texts(app)
    assert len(list_runs(tmp_path / "runs")) == count
    uploader = next(one for one in app.get("file_uploader") if one.label == "Or weights from a file")
    whole = packed(WeightFormat.STATE_DICT, content["weights"], content["config"])
    uploader.upload("mine.pt", whole, "application/octet-stream").run()
    settled(app)
    newest = list_runs(tmp_path / "runs")[0]
    assert (newest.imported, newest.model) == ("mine.pt", "lab_cnn")
    assert "imported from mine" in texts(app)
    assert fingerprint(load_predictor(tmp_path / "runs" / newest.run_id / "best.pt").model) == fingerprint(
        load_predictor(tmp_path / "runs" / trained[1] / "best.pt").model
    )
    app.switch_page("train/page.py").run()
    assert not app.exception
    assert "not trained here" in texts(app)
