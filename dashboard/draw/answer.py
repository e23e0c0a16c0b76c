"""The answer to a drawing: the digit, how sure, ten bars in both modes, and which model says so in which mode."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.data.sources import data_root, load_pool
from core.drawing.diagnosis import confidence_words
from core.drawing.digit_image import Reading
from core.drawing.pins import as_digits, load_pins
from core.errors import CoreError
from core.model.predictor import Prediction, Predictor
from core.modes.batch_mates import BATCH_MATES, BatchMates, batch_mates
from core.modes.copies import answer_in_train_mode, mode_layers
from dashboard import theme, wording
from dashboard.charts.live_chart import plot
from dashboard.draw import session as draw_session
from dashboard.draw.charts import probability_figure
from dashboard.draw.pins import pin_row
from dashboard.models import model_session
from dashboard.models.model_row import model_words
from dashboard.models.model_session import Chosen
from dashboard.shell import pictures
from dashboard.shell.policy_session import pins_root

_MATES_WORDS: dict[BatchMates, str] = {
    "mixed": "mixed test digits",
    "one_class": "digits of one class",
    "blank": "blank images",
    "drawings": "my drawings",
}
PASSES = 20


def choose_mode() -> None:
    """The switch between eval and train mode, always in sight; every visit begins in eval mode."""
    st.segmented_control(
        "Mode of the model",
        ["eval", "train"],
        default="eval",
        required=True,
        key=draw_session.MODE_KEY,
        help="eval(): BatchNorm uses its running statistics, Dropout does nothing. train(): BatchNorm "
        "uses this batch's mean and variance, Dropout drops at random. Always on a copy.",
    )


def answers(chosen: Chosen, second: Chosen | None, reading: Reading, behind: Callable[[], None]) -> list[Prediction]:
    """Ask about each digit, draw the answer and return the predictions of eval mode.

    Args:
        second: a model to ask beside the chosen one. behind: draws the way from ink to image, between answer and bars.
    """
    predictor, mode = chosen.predictor, draw_session.mode()
    assert predictor is not None
    inputs = np.stack([image.model_input for image in reading.digits])
    in_eval = predictor.predict(inputs)
    place = picked(reading)
    headline = st.container()
    if mode == "eval":  # at once: what follows takes longer
        _headline(headline, in_eval, place, mode, (), reading)
    beside = _second_answer(second, inputs, place)
    _pick(reading, in_eval, mode)
    behind()
    bars, controls = st.container(), st.container(horizontal=True, vertical_alignment="bottom")
    with controls:
        choose_mode()
        pin_row(reading.digits[place], in_eval[place])
    in_train = [] if beside and mode == "eval" else _train_mode(predictor, inputs[place : place + 1], mode)
    if mode == "train":
        mean = np.mean([one.probabilities for one in in_train or in_eval[place : place + 1]], axis=0)
        shown = [*in_eval[:place], Prediction(mean, in_eval[place].logits), *in_eval[place + 1 :]]
        # Without an answer of train mode this is eval mode's, and says so.
        _headline(headline, shown, place, mode if in_train else "eval", in_train, reading)
    with bars:
        words = _bars_words(in_eval[place], in_train, beside)
        plot(probability_figure(in_eval[place], in_train, beside), key="draw_bars", alt=words)
    return in_eval


def _second_answer(second: Chosen | None, inputs: np.ndarray, place: int) -> tuple[str, Prediction] | None:
    """What a second model reads, in a line below the answer, and (its name, its answer for the digit that is looked at)."""
    if second is None:
        return None
    if second.predictor is None:
        st.caption(model_words(second))
        return None
    said = second.predictor.predict(inputs)
    name = wording.MODEL_WORDS[second.predictor.config.model]
    least = min(said, key=lambda one: one.confidence)
    sure = f"{confidence_words(least.confidence)}: {_rounded_down(least)}" if least.is_answer else "no answer: NaN or infinity"
    st.html(
        f'<div role="status" style="line-height:1.3"><b class="digit-lab-second" style="font-size:1.5rem;color:'
        f'{theme.SECOND_MODEL}">{"".join(map(spoken, said))}</b> from the second model, {name} ({sure})</div>'
    )
    return f"second model: {name}", said[place]


def picked(reading: Reading) -> int:
    """Which of several digits is looked at closely."""
    place = draw_session.picked_digit()
    return place if place < len(reading.digits) else 0


def _pick(reading: Reading, predictions: Sequence[Prediction], mode: str) -> None:
    count = len(reading.digits)
    if count == 1:
        return
    boxes, whole = [digit.box for digit in reading.digits], reading.whole
    st.html(
        (pictures.boxed(whole, boxes, theme.VALIDATION, 96) if whole is not None else "")
        + "".join(
            pictures.answered(image.centred, one.probabilities, theme.EVAL_MODE, f"Digit {number} from the left: {spoken(one)}")
            for number, (image, one) in enumerate(zip(reading.digits, predictions, strict=True), 1)
        )
    )
    if mode == "train":
        st.caption("The strip above is eval mode's; train mode's answer is that of the digit chosen here.")
    st.segmented_control(
        "Look closely at",
        list(range(count)),
        default=0,
        required=True,
        key=draw_session.PICK_KEY,
        format_func=lambda place: f"{place + 1}: {spoken(predictions[place])}",
    )


def spoken(prediction: Prediction) -> str:
    """The digit, or a question mark where the network gave none."""
    return str(prediction.digit) if prediction.is_answer else "?"


def _headline(
    place: DeltaGenerator, shown: Sequence[Prediction], chosen: int, mode: str, in_train: Sequence[Prediction], reading: Reading
) -> None:
    """What was read, all of it, and how sure the least sure digit is."""
    color = theme.EVAL_MODE if mode == "eval" else theme.TRAIN_MODE
    read, least = "".join(map(spoken, shown)), min(shown, key=lambda one: one.confidence)
    passes = f", mean of {len(in_train)} passes" if len(in_train) > 1 else ""
    modes = f"in train mode{passes}" if mode == "train" else "in eval mode"
    if mode == "train" and len(shown) > 1:
        modes = f"digit {chosen + 1} {modes}, the others in eval mode"
    sure, second = _how_sure(shown, least, reading)
    # The ink, all of it, tells one drawing from another: by it a test sees which drawing an answer belongs to.
    ink = reading.digits[chosen].drawn if reading.whole is None else reading.whole
    size = "4.5rem" if len(read) < 3 else "3.25rem" if len(read) < 6 else "2.25rem"
    place.html(
        f'<div style="display:flex;flex-wrap:wrap;align-items:center;gap:4px 16px" role="status" '
        f'aria-label="The answer is {read}" id="digit-lab-answer-{ink.sum():.2f}">'
        f'<span class="digit-lab-answer" style="font-size:{size};line-height:1;font-weight:700;color:{color};min-width:'
        f'1ch">{read}</span><span>{sure}<br><span style="opacity:0.75">{second}</span><br>'
        f'<span style="opacity:0.75">{modes}</span></span></div>'
    )


def _how_sure(shown: Sequence[Prediction], least: Prediction, reading: Reading) -> tuple[str, str]:
    """(how sure, what else it could be), as HTML of our own words."""
    if not least.is_answer:
        return "<b>No answer</b>", "the network gives NaN or infinity: its weights or statistics are broken"
    share = float(least.probabilities[least.second])
    second = f"second guess {least.second} ({share:.1%})" if share >= 0.0005 else "no second guess"
    sure = _rounded_down(least)
    if any(image.touching for image in reading.digits):
        return f"<b>Two digits that touch?</b> {sure}", "leave a gap between them: as one they are like no digit"
    words = confidence_words(least.confidence).capitalize()
    if any(image.parted for image in reading.digits):
        return f"<b>Taken apart by guess</b>: {sure} for the {least.digit}", "leave a gap between digits that touch"
    if reading.lined:
        return f"<b>Read between the paper's lines</b>: {sure}", "where a line crosses the digit, ink may be missing"
    if reading.turned:
        return f"<b>Light and dark taken the other way round</b>: {sure}", "a guess; <i>Turn light and dark round</i> undoes it"
    if len(shown) > 1:
        return f"<b>{words}</b>: {sure} for the {least.digit}, the least sure of them", second
    return f"<b>{words}</b>: {sure}", second


def _rounded_down(prediction: Prediction) -> str:
    """Its probability; 89.96 is not 90."""
    return f"{math.floor(1000 * prediction.confidence) / 1000:.1%}" if prediction.confidence < 0.9995 else "over 99.9%"


def _train_mode(predictor: Predictor, image: np.ndarray, mode: str) -> list[Prediction]:
    """The same image in train mode beside batch mates, or why there is no such answer."""
    layers = mode_layers(predictor.model)
    if not layers.any:
        st.caption(
            "This model has no BatchNorm and no Dropout, so both modes give the same answer. The preset *For train and "
            "eval* on the Train page has both."
        )
        return []
    kind, size, label = draw_session.batch_mates_chosen()
    if mode == "train":
        kind, size, label = _choose_mates(kind, size, label)
    dataset = predictor.config.dataset
    ready, problem = model_session.digits_ready(dataset)
    if not ready and kind in ("mixed", "one_class"):
        st.caption(problem or "Reading digits for company in train mode …")
        return []
    digits = load_pool(dataset, data_root())[1] if ready else as_digits(())
    try:
        # `batch_mates` takes blank images where there are no drawings.
        own = as_digits(load_pins(pins_root())).images[:, 0] if kind == "drawings" else None
        if own is not None and not len(own):
            st.caption("No drawing is pinned yet, so blank images take their place.")
        mates = batch_mates(kind, size - 1, digits, label=label, drawings=own)
        passes = PASSES if mode == "train" and layers.dropout else 1
        return answer_in_train_mode(predictor.model, image, mates, passes=passes)
    except CoreError as error:
        st.warning(wording.plain(str(error)))
        return []


def _choose_mates(kind: BatchMates, size: int, label: int) -> tuple[BatchMates, int, int]:
    st.markdown(":material/warning: **Train mode.** The drawing shares a batch with others, and they change its answer.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.selectbox(
            "In a batch with",
            BATCH_MATES,
            key="draw_company",
            format_func=_MATES_WORDS.__getitem__,
            width=200,
            persist_state="session",
        )
        if kind == "one_class":
            label = st.selectbox("Class", range(10), key="draw_company_class", width=90, persist_state="session")
        size = st.select_slider(
            "Batch size", (1, 2, 4, 8, 16, 32, 64, 128), 32, key="draw_batch", width=200, persist_state="session"
        )
    return kind, size, label


def _bars_words(in_eval: Prediction, in_train: Sequence[Prediction], second: tuple[str, Prediction] | None) -> str:
    words = f"Probabilities of the ten digits; eval mode says {spoken(in_eval)} with {in_eval.confidence:.0%}"
    if in_train:
        words += f", train mode {spoken(in_train[0])} with {in_train[0].confidence:.0%}"
    return words + (f", the {second[0]} {spoken(second[1])} with {second[1].confidence:.0%}" if second else "")
