"""One slider over a run's kept weights: mistakes, filters and pinned drawings at any of those steps."""

import zlib
from functools import lru_cache
from typing import cast

import numpy as np
import streamlit as st

from core.answers import NO_ANSWER
from core.drawing.pins import Pin, as_inputs, load_pins
from core.errors import DrawingError
from core.insight.looking_back import SCORED, Moment
from core.runs.folder import RunFolder, runs_root
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import theme, wording
from dashboard.shell import pictures, torch_ready
from dashboard.train import session as train_session
from dashboard.train.wrong import wrong_answers

LAST = "last scoring"


def step_slider(view: RunView) -> int | None:
    """The choice of a step; None for the last scoring."""
    run_id = view.info.run_id
    steps = list(RunFolder.of(run_id).snapshots())
    # While it trains it keeps more and more weights, and asking them all each time would slow it down.
    if len(steps) < 2 or view.info.status.is_active or not torch_ready.has_torch():
        return None
    chosen = train_session.looked_at(run_id)
    options: list[int | str] = [*steps, LAST]
    key = f"look_{run_id}_{zlib.crc32(repr(steps).encode()):x}"  # one for each list of steps
    st.select_slider(
        "At step",
        options,
        chosen if chosen in options else LAST,
        key=key,
        format_func=lambda step: f"{step:,}" if isinstance(step, int) else step,
        on_change=train_session.look_at,
        args=(run_id, key),
        help="The weights that were kept along the run: what they got wrong, the first layer's filters, and their answers to "
        "your pinned drawings. A line in the curves marks the step.",
    )
    return chosen if chosen in options and isinstance(chosen, int) else None


def moment_section(view: RunView, step: int) -> None:
    """The run as it was after a step."""
    pins = _pinned()
    job = train_session.looking_back(view, as_inputs(pins))
    found = cast("tuple[Moment, ...]", job.results[-1]) if job.results else ()
    moments = {one.step: one for one in found}
    if step not in moments:
        if job.status.is_active:
            st.progress(job.progress.share, text=f"{job.progress.message} …")
        else:
            why = job.reason if job.status == RunStatus.FAILED else "The weights of this step cannot be read."
            st.caption(wording.plain(why))
            st.button(
                "Try again", icon=":material/replay:", key="look_again", on_click=train_session.look_again, args=(job.name,)
            )
        return
    moment, asked = moments[step], min(SCORED, view.config.split_sizes()[1])
    st.markdown(
        f"After step {step:,}: **{wording.percent(moment.evaluation.accuracy)}** of {asked:,} validation digits right, loss "
        f"{wording.number(moment.evaluation.loss)}."
    )
    wrong_answers(moment.evaluation, theme.VALIDATION)
    if len(moment.filters):
        st.markdown("**What the first layer looks for**: its weights, light where they are positive")
        st.html(_filters(moment))
    if len(moment.answers):
        _drawings(moment, pins)


@lru_cache(maxsize=64)
def _filters(moment: Moment) -> str:
    """Each filter as a picture, all on one scale, so that they can be compared."""
    largest = float(np.abs(moment.filters).max()) or 1.0
    return "".join(
        pictures.figure(np.nan_to_num(0.5 + 0.5 * one / largest), f"{number}", f"Filter {number}", 56)
        for number, one in enumerate(moment.filters)
    )


def _pinned() -> tuple[Pin, ...]:
    """A person's pinned drawings; none where their file cannot be read (the Draw page says so)."""
    try:
        return load_pins(runs_root())
    except DrawingError:
        return ()


def _said(label: int, answer: int) -> str:
    return "no answer" if answer == NO_ANSWER else f"{'✓' if answer == label else '✗'} {answer}"


def _drawings(moment: Moment, pins: tuple[Pin, ...]) -> None:
    st.markdown("**Your pinned drawings**")
    pairs = zip(pins, moment.answers.tolist(), strict=False)
    st.html("".join(pictures.figure(pin.image, _said(pin.label, answer), f"Meant as {pin.label}", 72) for pin, answer in pairs))
