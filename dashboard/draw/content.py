"""The Draw page once PyTorch is there: source on the left, answer on the right, what lies behind it below."""

from collections.abc import Sequence

import streamlit as st

from core.drawing.digit_image import NOTHING_DRAWN, Reading
from core.drawing.read import read
from core.model.predictor import Prediction
from core.runs.info import RunInfo
from dashboard import wording
from dashboard.draw import session as draw_session
from dashboard.draw.answer import answers, choose_mode, picked
from dashboard.draw.panels import looks, time_travel, why, xray
from dashboard.draw.pins import pins_panel
from dashboard.draw.source import choose_source
from dashboard.models import model_session
from dashboard.models.model_row import model_row, model_warning, nothing_yet
from dashboard.models.model_session import Chosen

PANELS = {"why": "Why?", "looks": "Where it looks", "travel": "Over training", "pins": "My test set"}


def draw_page(choices: list[RunInfo]) -> None:
    """Everything; called at each stroke and each refresh. `choices`: the runs that can answer."""
    chosen = model_session.chosen_model(choices)
    # The answer is worked out first, and the rest of the page around it afterwards: it is what a person waits for.
    top = st.container()
    left, right = st.columns([4, 9], gap="medium")
    with left:
        source = choose_source(chosen)
    reading = read(source, draw_session.steps()) if source is not None else None
    predictions: Sequence[Prediction] = ()
    with right:
        if chosen is None:
            nothing_yet(
                "Train one first: the quick preset trains for one epoch, and you can watch it learn your drawing while "
                "it trains.",
                "fast99",
            )
        elif reading is None or not reading.digits:
            _ask_to_draw(reading)
            choose_mode()
        elif chosen.predictor is not None:
            shown, image = reading, reading.digits[picked(reading)]
            predictions = answers(chosen, model_session.second_model(choices), reading, lambda: xray(shown, image, source))
    if chosen is None:
        return
    with top:
        model_row(chosen, choices, f" · **{draw_session.mode()} mode**", compares=True)
        model_warning(chosen)
    if chosen.predictor is None:
        return
    if reading is not None and predictions:
        _panels(chosen, reading, predictions, source)
    else:
        pins_panel(chosen)


def _ask_to_draw(reading: Reading | None) -> None:
    if reading is None:
        words = "Choose a picture or a test digit; the answer appears here."
    elif reading.refusal == NOTHING_DRAWN:
        words = "Draw a digit with mouse, pen or finger. The answer appears when you lift it."
    else:
        words = wording.plain(reading.refusal)
    st.info(words, icon=":material/draw:")


def _panels(chosen: Chosen, reading: Reading, predictions: Sequence[Prediction], source: object) -> None:
    place, predictor = picked(reading), chosen.predictor
    image, prediction = reading.digits[place], predictions[place]
    assert predictor is not None
    panel = st.segmented_control(
        "Behind the answer",
        list(PANELS),
        default="why",
        required=True,
        key="draw_panel",
        format_func=PANELS.__getitem__,
        persist_state="session",
    )
    if panel == "looks":
        looks(image, prediction, predictor)
    elif panel == "travel":
        time_travel(image, chosen.info.run_id)
    elif panel == "pins":
        pins_panel(chosen)
    else:
        why(image, prediction, predictor, source)
