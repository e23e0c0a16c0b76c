"""What lies behind an answer: the stages of the image, why it may be wrong, where the model looks, and its past."""

import numpy as np
import streamlit as st

from core.answers import NO_ANSWER
from core.data.sources import data_root, load_pool
from core.drawing.diagnosis import findings
from core.drawing.digit_image import ALL_STEPS, DigitImage, Reading, TestDigit
from core.errors import CoreError
from core.finding import Finding, Verdict
from core.insight.attribution import feature_maps, occlusion_map, saliency_map, shift_map
from core.insight.nearest import Likeness, nearest_findings
from core.insight.time_travel import travel
from core.model.predictor import Prediction, Predictor
from core.runs.folder import RunFolder
from dashboard import wording
from dashboard.charts.live_chart import plot
from dashboard.draw import session as draw_session
from dashboard.draw.charts import shift_figure, travel_figure
from dashboard.models import model_session
from dashboard.shell import pictures

_STAGES = (
    ("drawn", "As drawn", None),
    ("ink", "Ink", "ink"),
    ("cropped", "Cropped", "crop"),
    ("fitted", "20 x 20", "fit"),
    ("centred", "Centred 28 x 28", "centre"),
    ("normalised", "Normalised", "normalise"),
)
_SWITCHES = {"ink": "ink", "crop": "crop", "fit": "fit", "centre": "centre", "normalise": "norm."}
_HELP = {
    "ink": "Strokes drawn again at MNIST's pen width; in pictures, paper and shadows taken out. Off: as it came.",
    "crop": "Cut to the ink's bounding box. Off: the whole canvas.",
    "fit": "Shrunk to 20x20, which leaves MNIST's margin of 4. Off: all 28x28 are filled.",
    "centre": "Moved by whole pixels so that the centre of mass is in the middle. Off: the box is in the middle.",
    "normalise": "(pixel / 255 - 0.1307) / 0.3081, as in training. Off: the pixels from 0 to 1.",
}
_ICONS = {Verdict.FAIL: ":material/error:", Verdict.MENDED: ":material/build:", Verdict.NOTE: ":material/info:"}


def xray(reading: Reading, image: DigitImage, source: object) -> None:
    """What the model sees, from ink to 28x28, as thumbnails, each with the switch that turns its step off."""
    stored, used = isinstance(source, TestDigit), draw_session.steps()
    with st.container(horizontal=True, key="stages"):
        for name, title, step in _STAGES:
            picture = _normalised_picture(image) if name == "normalised" else getattr(image, name)
            with st.container(width=88, gap="xxsmall", key=f"stage_{name}"):
                st.html(pictures.figure(picture, title, f"The digit: {title}", 84))
                if step is not None:
                    key = draw_session.step_key(step)
                    st.toggle(
                        _SWITCHES[step],
                        getattr(used, step),
                        key=key,
                        help=_HELP[step],
                        on_change=draw_session.take_step,
                        args=(step, key),
                        disabled=stored and step != "normalise",
                    )
        st.button(
            "All steps on" if used != ALL_STEPS else "Naive shrink",
            icon=":material/done_all:" if used != ALL_STEPS else ":material/compress:",
            key="steps_all" if used != ALL_STEPS else "steps_naive",
            on_click=draw_session.set_all_steps,
            args=(used == ALL_STEPS,),
            help="Naive: what most demos do, the whole canvas shrunk to 28x28.",
            disabled=stored and used == ALL_STEPS,
        )
    if used != ALL_STEPS:
        st.caption(":material/warning: Some steps of the image are switched off.")
    if stored:
        st.caption("A test digit is MNIST's own image: only the last step is left to do.")
    for note in reading.notes:
        st.caption(f":material/info: {note}")


def _normalised_picture(image: DigitImage) -> np.ndarray:
    values = image.model_input[0]
    return (values - values.min()) / max(float(np.ptp(values)), 1e-6)


def why(image: DigitImage, prediction: Prediction, predictor: Predictor, source: object) -> None:
    """Findings in words, and the nearest training digits."""
    ready, problem = model_session.digits_ready(predictor.config.dataset)
    found, likeness = list(findings(image, draw_session.steps(), prediction)), None
    if ready:
        train, test = load_pool(predictor.config.dataset, data_root())
        likeness = Likeness(image.centred, train)
        found.extend(nearest_findings(likeness, train, test, prediction))
    if not found:
        st.markdown(":material/check: Nothing stands out: place, size, pen and ink are as in MNIST, and the answer is clear.")
    for number, one in enumerate(found):
        _finding(number, one)
    if isinstance(source, TestDigit) and source.label != prediction.digit:
        st.markdown(f":material/error: The label says **{source.label}**.")
    if likeness is None:
        st.caption(problem or "Reading the training digits …")
        return
    if not prediction.is_answer:
        return
    other = source.label if isinstance(source, TestDigit) and source.label != prediction.digit else prediction.second
    st.markdown(
        f"**The most similar training digits**: {prediction.digit}s, then {other}s (distance 0 would be the same image)"
    )
    st.html(
        pictures.figure(image.centred, "yours", "The image the model sees", 72)
        + "".join(
            pictures.figure(near.image, f"{near.label} · {near.distance:.3f}", f"A training {near.label}", 72)
            for label in (prediction.digit, other)
            for near in likeness.nearest(label)
        )
    )


def _finding(number: int, one: Finding) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"{_ICONS[one.verdict]} {one.evidence} {one.advice}", width="stretch")
        if one.remedy:
            st.button(
                "Mend",
                key=f"mend_{number}",
                on_click=draw_session.set_steps,
                kwargs=dict(one.remedy),
                help="Switches on: " + ", ".join(one.remedy),
            )


def looks(image: DigitImage, prediction: Prediction, predictor: Predictor) -> None:
    """Occlusion, saliency, the answer under shifts, feature maps."""
    if not prediction.is_answer:
        st.info("The network gives no answer (NaN or infinity), so there is nothing that parts of the image could change.")
        return
    inputs, digit = image.model_input[None], prediction.digit
    left, right = st.columns([1, 1])
    with left:
        st.markdown(f"**Which parts make it a {digit}?**")
        covered, gradient = occlusion_map(predictor, inputs, digit), saliency_map(predictor, inputs, digit)
        st.html(
            pictures.figure(pictures.overlay(image.centred, covered), "covered", "Occlusion map", 200)
            + pictures.figure(pictures.overlay(image.centred, gradient), "gradient", "Saliency map", 200)
        )
        st.caption(
            f"Covered: orange where hiding 5x5 pixels takes probability from {digit} (at most {covered.max():.1%}), "
            f"blue where it adds some. Gradient: pixels that the score of {digit} reacts to most."
        )
    with right:
        st.markdown("**The answer when the image is moved**")
        plot(
            shift_figure(shift_map(predictor, inputs, digit), digit),
            key="draw_shifts",
            alt=f"The answer for each of 11 by 11 shifts of the image; {digit} in the middle",
        )
        st.caption(
            "Convolutions see a moved stroke as the same stroke; an MLP has learned each pixel's place. Compare two models."
        )
    if st.toggle("Feature maps of each layer", key="draw_features", persist_state="session"):
        for name, maps in feature_maps(predictor, inputs).items():
            columns = 16 if len(maps) > 16 else 8
            sheet = pictures.montage(maps, columns)
            st.caption(f"`{name}`: {maps.shape[0]} maps of {maps.shape[1]} x {maps.shape[2]}, each stretched to its own range")
            st.image(sheet, width=min(900, columns * 44), clamp=True, alt=f"Feature maps of layer {name}")


def _said(digit: int) -> str:
    return "nothing" if digit == NO_ANSWER else str(digit)


def time_travel(image: DigitImage, run_id: str) -> None:
    """The drawing through every snapshot of the run."""
    folder = RunFolder.of(run_id).path
    try:
        past = travel(folder, image.model_input[None])
    except CoreError as error:
        st.info(wording.plain(str(error)))
        return
    flips = past.flips()
    words = (
        "Its answer never changed."
        if not flips
        else (
            f"It has said {_said(flips[-1][2])} since step {flips[-1][0]:,} (before: {_said(flips[-1][1])}); {len(flips)} "
            f"change{'s' if len(flips) > 1 else ''} in all."
        )
    )
    st.markdown(f"**This drawing through the run's training.** {words}")
    plot(travel_figure(past), key="draw_travel", alt=f"Probabilities of ten digits over {len(past.steps)} snapshots. {words}")
    size = RunFolder(folder).disk_bytes()["snapshots"]
    st.caption(
        f"{len(past.steps)} snapshots, {size / 2**20:.1f} MiB on disk: after steps 0, 1, 2, 4, 8, … and "
        "ends of epochs (at most 20); writing one takes a few milliseconds."
    )
    for problem in past.damaged:
        st.caption(f":material/info: {wording.plain(problem)}")
