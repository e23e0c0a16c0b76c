"""What the Draw page remembers of a person: the drawing, the picture, what is looked at. With the other `*session.py` files
the only ones that touch Streamlit's state."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.data.sources import data_root, load_pool
from core.drawing.strokes import check_canvas
from core.errors import CoreError, DrawingError
from core.execution.process import get_trainer
from core.runs.folder import runs_root
from dashboard.models import model_session
from dashboard.shell import run_session, widget_session
from dashboard.shell.policy_session import controlled, pins_root
from dashboard.shell.start_session import started_once

if TYPE_CHECKING:
    from core.drawing.digit_image import Preprocessing
    from core.insight.hard_digits import Difficulty
    from core.model.predictor import Predictor
    from core.modes.batch_mates import BatchMates


def canvas_start() -> dict[str, Any]:
    """The drawing the canvas begins with. It stays the same while the canvas is on the page: a changed one is loaded, and
    strokes that were not sent yet would be lost."""
    if not st.session_state.get("draw_mounted"):
        st.session_state.draw_mounted = True
        _show_content(st.session_state.get("draw_content"))
    return st.session_state.draw_start


PEN_KEY = "draw_pen"
_LONGEST_KEPT = 1_000_000


def pen() -> int:
    """The pen's width in pixels of the canvas."""
    return st.session_state.get(PEN_KEY, 16)


def canvas_is_gone() -> None:
    """The canvas is not on the page in this run: the next time it begins with what was drawn."""
    st.session_state.draw_mounted = False


def take_drawing(sent: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep what the canvas sent and return what is to be read: until it has taken a drawing that was given to it, what it
    sent before is out of date."""
    state = st.session_state
    if sent == state.get("draw_outdated"):
        return state.draw_content
    state.draw_outdated = None
    state.draw_content = state.draw_sent = sent
    if sent and sent.get("objects"):
        state.draw_begun = True
    return sent


def clear_drawing() -> None:
    """An empty canvas."""
    _show_content(None)


def undo_stroke() -> None:
    """The canvas without its last stroke."""
    content = st.session_state.get("draw_content")
    if content and content.get("objects"):
        _show_content({**content, "objects": content["objects"][:-1]})


def _show_content(content: dict[str, Any] | None) -> None:
    """Give the canvas a drawing. The number makes it another one for it, even when it is empty once more. Too much of one is
    not sent back: the canvas begins empty."""
    try:
        check_canvas(content)
    except DrawingError:
        content = None
    state = st.session_state
    state.draw_revision = state.get("draw_revision", 0) + 1
    state.draw_outdated = state.get("draw_sent")
    state.draw_content = content
    state.draw_start = {**(content or {"objects": []}), "revision": state.draw_revision}


PASTE_KEY, SOURCE_KEY, KEEPER_KEY = "draw_paste", "draw_source", "draw_keeper"


def may_restore() -> bool:
    """True until this session has, or had, a drawing of its own: what the browser kept over a reload is welcome then."""
    return not st.session_state.get("draw_begun")


def restore_drawing() -> None:
    """Take the drawing that the browser kept, once. It is read with the same care as what the canvas sends."""
    state = st.session_state
    sent = getattr(state.get(KEEPER_KEY), "restored", None)
    if not may_restore() or not isinstance(sent, str) or len(sent) > _LONGEST_KEPT:
        return
    state.draw_begun = True
    with suppress(ValueError, RecursionError):
        content = json.loads(sent)
        if isinstance(content, dict):
            _show_content(content)


def picture_was_pasted() -> None:
    """Show the picture's tab, whichever was open."""
    st.session_state[SOURCE_KEY] = "picture"


def take_picture(content: bytes) -> None:
    """Keep a pasted picture."""
    st.session_state.draw_picture = content


def take_upload(file_id: str, content: bytes) -> None:
    """Keep an uploaded picture, once: the uploader still holds it when another one was pasted since."""
    if st.session_state.get("draw_upload_id") != file_id:
        st.session_state.draw_upload_id = file_id
        st.session_state.draw_picture = content


def upload_key() -> str:
    """The uploader's key; a new one empties it."""
    return f"draw_upload_{st.session_state.get('draw_uploads', 0)}"


def drop_picture() -> None:
    """Forget the picture, in the uploader too."""
    st.session_state.draw_picture = None
    st.session_state.draw_uploads = st.session_state.get("draw_uploads", 0) + 1


def picture() -> bytes | None:
    """The picture to read."""
    return st.session_state.get("draw_picture")


@dataclass(frozen=True)
class Wanted:
    """Which test digit is asked for.

    Attributes:
        label: its class; None for any. model: (run, weights) of the model it shall be hard for; empty when it need not be hard.
    """

    dataset: str
    label: int | None
    difficulty: "Difficulty"
    model: tuple[str, ...]


def test_index(wanted: Wanted, predictor: "Predictor") -> int | None:
    """Which test digit is shown, None when there is none such; another one when something else is asked for."""
    if st.session_state.get("draw_test", (None,))[0] != wanted:
        choose_test_digit(wanted, predictor)
    return st.session_state.draw_test[1]


def choose_test_digit(wanted: Wanted, predictor: "Predictor") -> None:
    """Show another test digit, at random among those that fit."""
    from core.insight.hard_digits import find_digit

    digits = load_pool(wanted.dataset, data_root())[1]
    st.session_state.draw_test = (wanted, find_digit(predictor, digits, wanted.difficulty, wanted.label))


def steps() -> "Preprocessing":
    """The switches of the X-ray."""
    from core.drawing.digit_image import ALL_STEPS

    return st.session_state.setdefault("draw_steps", ALL_STEPS)


def step_key(name: str) -> str:
    """The key of a step's switch. It holds the state, so that a switch that comes back to the page shows it."""
    return f"step_{name}_{'on' if getattr(steps(), name) else 'off'}"


def take_step(name: str, key: str) -> None:
    """Set a step as its switch says. Not merely turned over: a message from before the switch left the page counts as a
    change as well."""
    set_steps(**{name: bool(st.session_state[key])})


def set_steps(**changes: bool) -> None:
    """Set switches of the X-ray."""
    st.session_state.draw_steps = replace(steps(), **changes)


def set_all_steps(naive: bool) -> None:
    """All on, or the naive way."""
    from core.drawing.digit_image import ALL_STEPS, NAIVE

    st.session_state.draw_steps = NAIVE if naive else ALL_STEPS


PICK_KEY, MODE_KEY = "draw_pick", "draw_mode"


def picked_digit() -> int:
    """Which of several digits is looked at closely, from 0."""
    return st.session_state.get(PICK_KEY) or 0


def mode() -> str:
    """eval or train: the mode the answer is given in."""
    return st.session_state.get(MODE_KEY) or "eval"


def batch_mates_chosen() -> "tuple[BatchMates, int, int]":
    """(kind, batch size, class) of the batch that a drawing joins in train mode."""
    state = st.session_state
    return state.get("draw_company", "mixed"), state.get("draw_batch", 32), state.get("draw_company_class", 0)


@controlled
def start_lesson(run_id: str, kind: str, count: int, learning_rate: float) -> None:
    """Teach the pinned drawings to a copy of a model, as a new run that names its parent, and ask that one."""
    from core.drawing.pins import as_digits, load_pins
    from core.execution.lesson import Lesson, lesson_config

    st.session_state.lesson_problem = ""
    chosen = model_session.load_model(run_id, kind)
    if chosen.predictor is None:
        st.session_state.lesson_problem = chosen.problem or "The model has no weights yet."
        return
    try:
        parent = chosen.predictor
        config = lesson_config(parent.config, count, learning_rate)
        lesson = Lesson(run_id, parent.step, parent.model.state_dict(), as_digits(load_pins(pins_root())))
        new = started_once(
            (run_id, parent.step, config), lambda: get_trainer().start(config, data_root(), runs_root(), origin=lesson)
        )
    except CoreError as error:
        st.session_state.lesson_problem = str(error)
        return
    run_session.show_run(new)


def lesson_problem() -> str:
    """Why the last lesson did not start; "" when it did."""
    return st.session_state.get("lesson_problem", "")


def pin(image: Any, label: int) -> None:
    """Keep a drawing with the digit that was meant."""
    from core.drawing.pins import add_pin

    st.session_state.pin_problem = ""
    try:
        add_pin(pins_root(), image, label)
        st.toast(f"Pinned as a {label}. See *My test set*.")
    except CoreError as error:
        st.session_state.pin_problem = str(error)


def unpin(pin_id: str) -> None:
    """Drop a kept drawing."""
    from core.drawing.pins import remove_pin

    st.session_state.pins_problem = ""
    try:
        remove_pin(pins_root(), pin_id)
    except CoreError as error:
        st.session_state.pins_problem = str(error)


def pin_problem() -> str:
    """Why the last drawing was not kept; "" when it was."""
    return st.session_state.get("pin_problem", "")


def pins_problem() -> str:
    """Why the last change of a kept drawing failed; "" when it did not."""
    return st.session_state.get("pins_problem", "")


def relabel(pin_id: str, key: str, drawn: int) -> None:
    """Change which digit a kept drawing was meant as; the widget was drawn with `drawn`."""
    if widget_session.changed_choice(key, drawn) is None:
        return
    from core.drawing.pins import relabel_pin

    st.session_state.pins_problem = ""
    try:
        relabel_pin(pins_root(), pin_id, int(st.session_state[key]))
    except CoreError as error:
        st.session_state.pins_problem = str(error)
