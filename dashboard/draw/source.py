"""What is to be read: the canvas, an uploaded or pasted picture, or a test digit."""

import base64
import binascii
import json
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from core.data.sources import data_root, load_pool
from core.drawing.digit_image import TestDigit
from core.drawing.limits import MAX_BYTES
from core.drawing.picture import Picture, read_picture
from core.drawing.strokes import Drawing, drawing_from_canvas
from core.errors import DrawingError
from core.insight.hard_digits import DIFFICULTIES, Difficulty
from dashboard.draw import session as draw_session
from dashboard.models import model_session
from dashboard.models.model_session import Chosen

SIDE = 280
_DIFFICULTY_WORDS: dict[Difficulty, str] = {
    "any": "any of them",
    "wrong": "this model gets wrong",
    "doubt": "it is in doubt about",
}
_NONE_WORDS: dict[Difficulty, str] = {
    "any": "none is here",
    "wrong": "this model gets every one right",
    "doubt": "it is fairly sure of every one",
}
SOURCES = {"draw": "Draw", "picture": "Picture", "test": "Test digit"}

# Takes a picture out of the clipboard wherever on the page it is pasted.
# A pasted picture comes in one message, a third larger than it is, and those have a limit (.streamlit/config.toml).
MAX_PASTED = 6 * 2**20
_PASTE = """export default function ({ setTriggerValue, parentElement }) {
  const host = parentElement.querySelector(".digit-lab-paste");
  host.send = setTriggerValue;
  if (host.listening) return;
  const listen = (event) => {
    if (!host.isConnected) { document.removeEventListener("paste", listen); return; }
    // Text on its way into a field is not ours to take.
    const into = event.target, text = [...(event.clipboardData?.types ?? [])].some((one) => one.startsWith("text/"));
    if (text && into instanceof HTMLElement && (into.isContentEditable || ["INPUT", "TEXTAREA"].includes(into.tagName))) return;
    const item = [...(event.clipboardData?.items ?? [])].find((one) => one.type.startsWith("image/"));
    if (!item) return;
    const file = item.getAsFile(), reader = new FileReader();
    event.preventDefault();
    if (file.size > LIMIT) { host.send("pasted", "too large"); return; }
    reader.onload = () => host.send("pasted", reader.result);
    reader.readAsDataURL(file);
  };
  document.addEventListener("paste", listen);
  host.listening = true;
}"""


def choose_source(chosen: Chosen | None) -> "Drawing | Picture | TestDigit | None":
    """Draw the chosen source with its tools. None while there is nothing to read; errors are shown here."""
    # Mounted on every tab: a picture that is pasted anywhere on the page brings its own along.
    pasted = getattr(
        _paste_component()(key=draw_session.PASTE_KEY, on_pasted_change=draw_session.picture_was_pasted), "pasted", None
    )
    kind = st.segmented_control(
        "Source",
        list(SOURCES),
        default="draw",
        required=True,
        format_func=SOURCES.__getitem__,
        key=draw_session.SOURCE_KEY,
        persist_state="session",
        label_visibility="collapsed",
    )
    if kind != "draw":
        draw_session.canvas_is_gone()
    try:
        if kind == "picture":
            return _picture(pasted)
        return _test_digit(chosen) if kind == "test" else _canvas()
    except DrawingError as error:
        st.error(str(error))
        return None


def _canvas() -> Drawing:
    # Imported here: the package can only be imported inside a running app.
    from streamlit_drawable_canvas import st_canvas

    pen = draw_session.pen()
    with st.container(key="draw_canvas", width=SIDE + 8):
        result = st_canvas(
            stroke_width=pen,
            stroke_color="#ffffff",
            background_color="#000000",
            width=SIDE,
            height=SIDE,
            drawing_mode="freedraw",
            initial_drawing=draw_session.canvas_start(),
            key="canvas",
        )
    content = draw_session.take_drawing(result.json_data)
    drawn = bool(content and content.get("objects"))
    with st.container(horizontal=True):
        st.button(
            "Clear",
            icon=":material/delete:",
            key="draw_clear",
            on_click=draw_session.clear_drawing,
            disabled=not drawn,
            shortcut="Delete",
        )
        st.button("Undo", icon=":material/undo:", key="draw_undo", on_click=draw_session.undo_stroke, disabled=not drawn)
        with st.popover("Pen", icon=":material/line_weight:"):
            st.slider(
                "Pen width",
                2,
                40,
                pen,
                key=draw_session.PEN_KEY,
                persist_state="session",
                width=220,
                help="Any width will do: strokes are drawn again as MNIST's pen would.",
            )
    text = ""
    try:
        drawing = drawing_from_canvas(content, SIDE, SIDE)
        text = json.dumps(content) if drawn else ""
    finally:
        # Here in any case: it also takes the canvas's own toolbar away.
        _keeper_component()(
            key=draw_session.KEEPER_KEY,
            on_restored_change=draw_session.restore_drawing,
            on_undone_change=draw_session.undo_stroke,
            data={"content": text, "asks": draw_session.may_restore()},
        )
    return drawing


@cache
def _keeper_component() -> Any:
    script = (Path(__file__).parent / "canvas_keeper.js").read_text(encoding="utf-8")
    return component("digit_lab_keeper", html='<div class="digit-lab-keeper"></div>', js=script, isolate_styles=False)


@cache
def _paste_component() -> Any:
    return component(
        "digit_lab_paste",
        html='<div class="digit-lab-paste"></div>',
        js=_PASTE.replace("LIMIT", str(MAX_PASTED)),
        isolate_styles=False,
    )


def _picture(pasted: str | None) -> Picture | None:
    # Any file: what it is is seen in its first bytes, and said.
    given = st.file_uploader(
        "Picture of one or more digits, PNG or JPEG",
        key=draw_session.upload_key(),
        max_upload_size=MAX_BYTES // 2**20,
        help="Dark on light or light on dark, a photo of paper too. It stays in this server's memory and is written nowhere.",
    )
    if pasted:
        draw_session.take_picture(_decoded(pasted))
    elif given is not None:
        draw_session.take_upload(given.file_id, given.getvalue())
    content = draw_session.picture()
    if content is None:
        st.caption("Or paste one from the clipboard (Ctrl+V).")
        return None
    st.button("Remove the picture", icon=":material/delete:", key="draw_drop", on_click=draw_session.drop_picture)
    picture = read_picture(content)
    st.image(picture.grey, width=SIDE, clamp=True, alt="The picture that is read, in grey")
    key = draw_session.step_key("invert")
    st.toggle(
        "Turn light and dark round",
        draw_session.steps().invert,
        key=key,
        on_change=draw_session.take_step,
        args=("invert", key),
        help="When ink was taken for paper.",
    )
    return picture


def _decoded(pasted: str) -> bytes:
    if pasted == "too large":
        raise DrawingError(f"The pasted picture is too large; at most {MAX_PASTED // 2**20} MiB are taken. Upload its file.")
    try:
        return base64.b64decode(pasted.partition(",")[2], validate=True)
    except (binascii.Error, ValueError) as error:
        raise DrawingError("What was pasted is no picture.") from error


def _test_digit(chosen: Chosen | None) -> TestDigit | None:
    if chosen is None or chosen.predictor is None:
        st.caption("Test digits come with a model: choose or train one first.")
        return None
    predictor, dataset = chosen.predictor, chosen.predictor.config.dataset
    ready, problem = model_session.digits_ready(dataset)
    if not ready:
        st.caption(problem or "Reading the digits …")
        return None
    with st.container(horizontal=True, width=SIDE + 8):
        label = st.selectbox("Digit", ["any", *range(10)], key="draw_test_class", persist_state="session", width=90)
        difficulty = st.selectbox(
            "Which",
            DIFFICULTIES,
            key="draw_test_which",
            persist_state="session",
            format_func=_DIFFICULTY_WORDS.__getitem__,
            width=180,
            help="Of the test digits, which the model has never seen: those it gets wrong teach the most.",
        )
    model = () if difficulty == "any" else (chosen.info.run_id, chosen.kind)
    wanted = draw_session.Wanted(dataset, None if label == "any" else int(label), difficulty, model)
    index = draw_session.test_index(wanted, predictor)
    test = load_pool(dataset, data_root())[1]
    if index is None:
        among = (
            f"the {int((test.labels == wanted.label).sum()):,} {label}s" if wanted.label is not None else f"all {len(test):,}"
        )
        st.info(f"There is none: of {among} of the test split, {_NONE_WORDS[difficulty]}.")
        return None
    st.image(
        test.images[index, 0],
        width=SIDE,
        alt=f"Test digit number {index}",
        caption=f"Number {index:,} of the test split; its label is {test.labels[index]}",
    )
    st.button(
        "Another one",
        icon=":material/casino:",
        key="draw_another",
        on_click=draw_session.choose_test_digit,
        args=(wanted, predictor),
    )
    return TestDigit(test.images[index, 0], int(test.labels[index]), index)
