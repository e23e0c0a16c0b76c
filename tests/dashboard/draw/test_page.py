"""The Draw page under AppTest: the real core behind it, a small trained model, no browser."""

import io
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import core.execution.process
from core.data.sources import load_sample
from core.drawing.pins import add_pin, load_pins
from core.drawing.read import read
from core.drawing.strokes import Drawing, Stroke
from core.errors import RunError
from core.model.predictor import fingerprint, load_predictor
from core.runs.info import list_runs
from core.status import RunStatus
from tests.helpers.draw_page import answer, opened, upload
from tests.helpers.pages import button, texts
from tests.helpers.picture_files import PICTURES, saved
from tests.helpers.pictures import KINDS
from tests.helpers.shapes import arc, drawing
from tests.helpers.waits import wait_for, wait_for_status


def html(app):
    return " ".join(one.proto.body for one in app.get("html"))


def panel(app, name):
    app.get_by_key("draw_panel").set_value(name).run()
    assert not app.exception
    return texts(app)


def test_without_a_model_the_page_offers_to_train_one(app, runs):
    opened(app)
    assert "No model can answer yet" in texts(app)
    button(app, "Train a model now").click().run()
    assert not app.exception
    (run,) = list_runs(runs)
    assert (run.model, run.dataset) == ("small_cnn", "mnist_sample")
    core.execution.process.get_trainer().stop(run.run_id)


def test_a_drawing_is_answered_by_the_run_and_its_origin_is_told(page, trained):
    app = page(drawing(7))
    (image,) = read(drawing(7)).digits
    predictor = load_predictor(trained[0] / trained[1] / "best.pt")
    (expected,) = predictor.predict(image.model_input[None])
    assert answer(app) == expected.digit
    info = list_runs(trained[0])[0]
    assert f"step {predictor.step}" in texts(app)
    assert f"test accuracy {info.test_accuracy:.2%}" in texts(app)
    assert "eval mode" in texts(app)


def test_an_empty_canvas_asks_for_a_drawing_and_clear_empties_the_answer(page):
    app = page(drawing(7))
    assert answer(app) is not None
    button(app, "Clear").click().run()
    assert not app.exception
    assert answer(app) is None
    assert "Draw a digit with mouse, pen or finger" in texts(app)
    assert button(app, "Undo").disabled


def test_undo_takes_one_stroke(page):
    app = page(drawing(4))
    button(app, "Undo").click().run()
    assert not app.exception
    assert len(app.session_state["draw_content"]["objects"]) == 1


@pytest.mark.parametrize(
    ("words", "strokes"),
    [
        ("That is a dot", [Stroke(np.array([[90.0, 90.0], [90.2, 90.1]]), 16)]),
        ("one above the other", [Stroke(arc(140, 60, 30, 40), 8), Stroke(arc(140, 200, 30, 40), 8)]),
    ],
)
def test_what_is_no_digit_is_said(page, words, strokes):
    app = page(Drawing(tuple(strokes), 280, 280))
    assert words in texts(app)
    assert answer(app) is None


def test_train_mode_is_loud_works_on_a_copy_and_does_not_stay(page, runs, trained):
    app = page(drawing(3))
    best = runs / trained[1] / "best.pt"
    before = fingerprint(load_predictor(best).model)
    app.get_by_key("draw_mode").set_value("train").run()
    assert not app.exception
    shown = texts(app)
    assert "**train mode**" in shown
    assert "shares a batch with others" in shown
    for kind in ("one_class", "blank", "drawings", "mixed"):
        app.get_by_key("draw_company").set_value(kind).run()
        assert not app.exception
        assert answer(app) is not None
    app.get_by_key("draw_batch").set_value(1).run()
    assert not app.exception
    assert fingerprint(load_predictor(best).model) == before
    app.switch_page("train/page.py").run()
    app.switch_page("draw/page.py").run()
    assert "**eval mode**" in texts(app)
    assert answer(app) is not None  # and the drawing is still there


def test_the_naive_way_is_found_out_and_mended(page):
    app = page(drawing(5, scale=0.35, x=80, y=70, pen=3))
    told = panel(app, "why")
    assert "where MNIST" in told
    assert not any(one.label == "Mend" for one in app.button)
    button(app, "Naive shrink").click().run()
    assert not app.toggle(key="step_crop_off").value
    assert "Some steps of the image are switched off" in texts(app)
    panel(app, "why")
    mends = [one for one in app.button if one.label == "Mend"]
    assert len(mends) >= 3
    while any(one.label == "Mend" for one in app.button):
        button(app, "Mend").click().run()
        assert not app.exception
    assert "px wide where MNIST has 2.2: the ink" in texts(app)  # now told as mended
    assert all(app.toggle(key=f"step_{name}_on").value for name in ("ink", "crop", "fit", "centre"))
    app.toggle(key="step_centre_on").set_value(False).run()
    assert not app.exception
    app.get_by_key("draw_source").set_value("picture").run()  # the switches leave the page
    app.get_by_key("draw_source").set_value("draw").run()
    assert not app.toggle(key="step_centre_off").value
    assert app.toggle(key="step_ink_on").value


@pytest.mark.parametrize("name", ["why", "looks", "travel", "pins"])
def test_every_panel_works_for_drawings_and_test_digits(page, name):
    app = page(drawing(2))
    assert len(panel(app, name)) > 100
    app.get_by_key("draw_source").set_value("test").run()
    assert not app.exception
    assert answer(app) is not None
    app.selectbox(key="draw_test_class").set_value(8).run()
    button(app, "Another one").click().run()
    assert not app.exception
    app.get_by_key("draw_source").set_value("draw").run()
    assert answer(app) is not None


def test_a_test_digit_that_the_model_gets_wrong_is_found_and_explained(page):
    app = page()
    app.get_by_key("draw_source").set_value("test").run()
    app.selectbox(key="draw_test_which").set_value("wrong").run()
    assert not app.exception
    wanted, index = app.session_state["draw_test"]
    test = load_sample()[1]
    assert wanted.difficulty == "wrong"
    assert answer(app) != test.labels[index]
    assert f"The label says **{test.labels[index]}**" in panel(app, "why")
    button(app, "Another one").click().run()
    assert answer(app) != test.labels[app.session_state["draw_test"][1]]


def test_a_second_model_answers_beside_the_first_until_it_is_gone(page, runs, trained):
    other = shutil.copytree(runs / trained[1], runs / "20200101-000000-aaaa")
    (found,) = [info for info in list_runs(runs) if info.run_id == other.name]
    app = page(drawing(7))
    assert "from the second model" not in texts(app) + html(app)
    app.selectbox(key="second_model").set_value(found.run_id).run()
    assert not app.exception
    assert f"{answer(app)}</b> from the second model" in html(app)
    button(app, "Clear").click().run()
    assert not app.exception
    shutil.rmtree(other)
    app.run()
    assert not app.exception
    assert "from the second model" not in html(app)


def test_feature_maps_come_on_demand(page):
    app = page(drawing(2))
    panel(app, "looks")
    app.toggle(key="draw_features").set_value(True).run()
    assert not app.exception
    assert "`conv1`: 32 maps of 28 x 28" in texts(app)


def test_a_digit_between_the_papers_lines_is_never_called_sure(page):
    sample = KINDS["ruled_60"][1](load_sample()[1], np.random.default_rng(5))
    shown = " ".join(one.proto.body for one in upload(page(), sample.content, "ruled.jpg").get("html"))
    assert "Read between the paper's lines" in shown
    assert "where a line crosses the digit, ink may be missing" in shown


def test_a_guess_about_light_and_dark_is_never_called_sure(page):
    """A digit with a pen so thick that what it leaves free looks more like one."""
    digit = np.asarray(Image.fromarray(load_sample()[1].images[110, 0]).resize((280, 280), Image.Resampling.BICUBIC)) > 100
    sheet = np.full((720, 960), 200, np.uint8)
    sheet[20::50] = sheet[21::50] = 150
    sheet[200:480, 300:580][ndimage.binary_dilation(digit, iterations=20)] = 30
    shown = " ".join(one.proto.body for one in upload(page(), saved(Image.fromarray(sheet)), "fat.png").get("html"))
    assert "Light and dark taken the other way round" in shown


def test_an_uploaded_picture_is_read(page):
    app = upload(page(), PICTURES["phone photo"], "photo.jpg")
    assert answer(app) is not None
    assert "Dark on light was turned" in panel(app, "why")
    button(app, "Remove the picture").click().run()
    assert answer(app) is None


@pytest.mark.parametrize("content", [b"no picture at all", PICTURES["jpeg"][:300]])
def test_an_unusable_picture_is_refused_and_nothing_else_is_lost(page, content):
    app = upload(page(drawing(7)), content)
    assert len(app.error) == 1
    assert answer(app) is None
    app.get_by_key("draw_source").set_value("draw").run()
    assert answer(app) is not None


def test_several_digits_are_answered_one_by_one(page):
    strokes = [stroke for place, digit in enumerate((2, 0)) for stroke in drawing(digit, 0.5, x=-70 + 130 * place).strokes]
    app = page(Drawing(tuple(strokes), 280, 280))
    (read_as,) = [one.proto.body for one in app.get("html") if 'role="status"' in one.proto.body]
    assert re.search(r'aria-label="The answer is \d\d"', read_as)  # the whole reading, not one digit of it
    app.get_by_key("draw_pick").set_value(1).run()
    assert not app.exception
    assert any("a box around each of 2 digits" in one.proto.body for one in app.get("html"))


def test_pins_are_kept_labelled_and_removed(page, runs):
    app = page(drawing(7))
    assert "pin up to 10" in panel(app, "pins")
    button(app, "Pin this drawing").click().run()
    (pin,) = load_pins(runs)
    (image,) = read(drawing(7)).digits
    assert np.array_equal(pin.image, image.pixels)
    app.selectbox(key=f"relabel_{pin.pin_id}_{pin.label}").set_value(1).run()
    assert not app.exception
    assert load_pins(runs)[0].label == 1
    assert "of 1 right" in texts(app)
    button(app, "Pin this drawing").click().run()
    assert "pinned as 1 already" in texts(app)
    for number in range(9):
        add_pin(runs, np.full((28, 28), number, np.uint8), number)
    button(app, "Pin this drawing").click().run()
    assert "Remove one first" in texts(app)
    button(app, "Remove").click().run()
    assert not app.exception
    assert len(load_pins(runs)) == 9


def test_a_pin_that_cannot_be_changed_says_so_without_a_drawing(page, runs, monkeypatch):
    add_pin(runs, np.full((28, 28), 9, np.uint8), 1)
    app = page(None)

    def full(*_):
        raise RunError("The disk is full.")

    monkeypatch.setattr("core.drawing.pins.remove_pin", full)
    button(app, "Remove").click().run()
    assert not app.exception
    assert "The disk is full." in texts(app)
    assert len(load_pins(runs)) == 1


def test_a_lesson_becomes_a_run_that_names_its_parent(page, runs, trained):
    app = page(drawing(7))
    button(app, "Pin this drawing").click().run()
    panel(app, "pins")
    app.get_by_key("lesson_steps").set_value(10).run()
    button(app, "Teach it these drawings").click().run()
    assert not app.exception
    child = next(run for run in list_runs(runs) if run.run_id != trained[1])
    assert child.parent == trained[1]
    wait_for_status(core.execution.process.get_trainer(), runs, child.run_id, RunStatus.FINISHED)
    wait_for(lambda: not core.execution.process.get_trainer().active())
    app.run()
    assert not app.exception
    assert f"started from run {trained[1]}" in texts(app)
    assert app.table[0].value.iloc[1, 2] == f"{list_runs(runs)[0].test_accuracy:.2%}"


def test_damaged_weights_are_told_and_the_page_goes_on(page, runs, trained):
    for name in ("best", "last"):
        path = runs / trained[1] / f"{name}.pt"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    app = page(drawing(7))
    assert "damaged" in texts(app)
    assert answer(app) is None


def test_a_large_png_is_refused_before_it_is_decoded(page):
    target = io.BytesIO()
    Image.new("L", (5000, 4000)).save(target, "PNG")
    app = upload(page(), target.getvalue())
    assert "at most 16 million" in app.error[0].value


@pytest.mark.parametrize("link", ["20200101-000000-abcd", "Your-password-has-leaked", "<b>x</b>", "../../etc"])
def test_a_link_to_a_run_that_is_gone_says_so_on_every_page(page, link):
    app = page()
    app.query_params["run"] = link
    for view in ("draw/page.py", "modes/page.py", "train/page.py"):
        app.switch_page(view)
        app.query_params["run"] = link
        app.run()
        assert not app.exception
        assert "not on this server" in texts(app)
        assert link not in texts(app).replace("\\", "")
