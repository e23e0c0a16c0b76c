"""A person's own test set: drawings pinned with the digit that was meant, asked again and again, and taught."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import streamlit as st

from core.drawing.digit_image import DigitImage
from core.drawing.pins import MAX_PINS, Pin, as_csv, as_inputs, as_zip, load_pins
from core.errors import CoreError
from core.execution.process import get_readers
from core.insight.time_travel import travel
from core.model.predictor import Prediction, Predictor, load_predictor
from core.runs.folder import DRAWINGS, RunFolder, runs_root
from core.runs.info import RunInfo, read_info
from dashboard import wording
from dashboard.charts.live_chart import plot
from dashboard.draw import session as draw_session
from dashboard.draw.charts import own_test_figure
from dashboard.models.model_session import Chosen
from dashboard.shell import pictures
from dashboard.shell.policy_session import pins_root


def pin_row(image: DigitImage, prediction: Prediction) -> None:
    """Keep this drawing with the digit that was meant."""
    key = f"pin_label_{prediction.digit}"
    label = st.selectbox("It is meant as a", range(10), prediction.digit if prediction.is_answer else None, key=key, width=130)
    st.button(
        "Pin this drawing",
        icon=":material/push_pin:",
        key="pin",
        on_click=draw_session.pin,
        args=(image.pixels, label),
        disabled=label is None,
    )
    if problem := draw_session.pin_problem():
        st.warning(wording.plain(problem))


def pins_panel(chosen: Chosen) -> None:
    """The pinned drawings, what the model says of them, their accuracy over the run, and the lesson."""
    if problem := draw_session.pins_problem():
        st.warning(wording.plain(problem))
    try:
        pins = load_pins(pins_root())
    except CoreError as error:
        st.error(wording.plain(str(error)))
        return
    if not pins:
        st.markdown(
            f"**My own test set**: pin up to {MAX_PINS} drawings above, each with the digit you meant. They are asked "
            "again as a run trains, their accuracy becomes a curve, and what goes wrong can be taught."
        )
        return
    assert chosen.predictor is not None
    inputs = as_inputs(pins)
    answers = chosen.predictor.predict(inputs)
    right = sum(one.digit == pin.label for one, pin in zip(answers, pins, strict=True))
    st.markdown(f"**My own test set**: {right} of {len(pins)} right at step {chosen.predictor.step:,}")
    with st.container(horizontal=True, gap="small"):
        for pin, answer in zip(pins, answers, strict=True):
            _card(pin, answer)
    _curve(chosen, pins, inputs)
    _compare(chosen.info, pins, answers, inputs)
    _teach(chosen)
    with st.container(horizontal=True):
        st.download_button("Drawings (CSV)", lambda: as_csv(pins), "my-digits.csv", "text/csv", on_click="ignore")
        st.download_button("Drawings (PNG)", lambda: as_zip(pins), "my-digits.zip", "application/zip", on_click="ignore")


def _card(pin: Pin, answer: Prediction) -> None:
    with st.container(width=112, border=True, key=f"pin_{pin.pin_id}"):
        mark = "✓" if answer.digit == pin.label else "✗"
        said = f"{answer.digit} · {answer.confidence:.0%}" if answer.is_answer else "no answer"
        st.html(pictures.figure(pin.image, f"{mark} {said}", f"Meant as {pin.label}, answered {said}", 72))
        key = f"relabel_{pin.pin_id}_{pin.label}"
        st.selectbox(
            "Meant as", range(10), pin.label, key=key, on_change=draw_session.relabel, args=(pin.pin_id, key, pin.label)
        )
        st.button(
            "Remove",
            icon=":material/close:",
            key=f"unpin_{pin.pin_id}",
            on_click=draw_session.unpin,
            args=(pin.pin_id,),
            type="tertiary",
        )


def _curve(chosen: Chosen, pins: Sequence[Pin], inputs: np.ndarray) -> None:
    run_id = chosen.info.run_id
    try:
        past = travel(RunFolder.of(run_id).path, inputs)
        snapshot = get_readers().read(runs_root(), run_id)
    except CoreError as error:
        st.caption(wording.plain(str(error)))
        return
    plot(
        own_test_figure(snapshot, past, [pin.label for pin in pins]),
        key="draw_own_test",
        alt="Accuracy on my drawings over the run, beside train and validation accuracy",
    )


def _compare(info: RunInfo, pins: Sequence[Pin], answers: Sequence[Prediction], inputs: np.ndarray) -> None:
    """For a model that was taught: before and after, on the drawings and on the test split."""
    if info.parent is None or not (RunFolder.of(info.run_id).path / DRAWINGS).exists():
        return
    try:
        parent = read_info(RunFolder.of(info.parent).path)
        before = _weights_of(RunFolder.of(info.parent).path, info.parent_step).predict(inputs)
    except CoreError as error:
        st.caption(f"The parent run cannot be asked any more: {wording.plain(str(error))}")
        return
    labels = [pin.label for pin in pins]
    counts = [sum(one.digit == label for one, label in zip(side, labels, strict=True)) for side in (before, answers)]
    tested = [_percent(parent.test_accuracy), _percent(info.test_accuracy)]
    st.table(
        {
            "": ["before the lesson", "after it"],
            "my drawings": [f"{count} of {len(pins)}" for count in counts],
            "test split": tested,
        },
        hide_index=True,
    )


def _weights_of(folder: Path, step: int | None) -> Predictor:
    """The weights of a run after a step: the best, the last, or a snapshot. Raises CheckpointError when all are gone."""
    others = [RunFolder(folder).last, *([path] if (path := RunFolder(folder).snapshots().get(step or 0)) else [])]
    for path in others:
        if path.exists() and (found := load_predictor(path)).step == step:
            return found
    return load_predictor(RunFolder(folder).best)


def _percent(value: float | None) -> str:
    return f"{value:.2%}" if value is not None else "not tested yet"


def _teach(chosen: Chosen) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        count = st.select_slider(
            "Steps", (10, 20, 50, 100, 200, 500), 50, key="lesson_steps", width=180, persist_state="session"
        )
        rate = st.select_slider(
            "Learning rate",
            (1e-4, 3e-4, 1e-3, 3e-3),
            3e-4,
            key="lesson_rate",
            width=180,
            format_func=lambda value: f"{value:g}",
            persist_state="session",
        )
        st.button(
            "Teach it these drawings",
            icon=":material/school:",
            key="teach",
            on_click=draw_session.start_lesson,
            args=(chosen.info.run_id, chosen.kind, count, rate),
            disabled=chosen.is_live,
        )
    st.caption(
        "A copy of this model trains on, a quarter of each batch your drawings, the rest training digits. It becomes a "
        "new run whose parent is this one." + (" Wait until this run has ended." if chosen.is_live else "")
    )
    if problem := draw_session.lesson_problem():
        st.warning(wording.plain(problem))
