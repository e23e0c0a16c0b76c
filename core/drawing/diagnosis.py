"""Why an answer may be wrong, in words with the numbers behind them, and which step would mend it."""

import math
from dataclasses import replace

from core.drawing.digit_image import INK_USUAL, DigitImage, Preprocessing
from core.drawing.measures import Measures
from core.finding import Finding, Verdict
from core.model.predictor import Prediction

# What 9 of 10 MNIST digits keep to (pen, in pixels of 28x28) and all of them (offset from the middle).
PEN_USUAL = (1.5, 3.6)
_FAR_OFF, _FAR_OFF_DRAWN = 2.0, 3.5
_SMALL = 16.0
_WIDE = 1.5  # of MNIST's digits one in a hundred is more than 1.4 times as wide as high, one in a thousand more than 1.7
FAIRLY_SURE = 0.9


def findings(image: DigitImage, steps: Preprocessing, prediction: Prediction) -> tuple[Finding, ...]:
    """What stands out about an image and its answer: problems first, then what was mended, then notes. A remedy names the
    `Preprocessing` to switch on."""
    found = [
        *_offset(image, steps),
        *_pen(image, steps),
        *_size(image, steps),
        *_polarity(image, steps),
        *_ink(image.as_seen),
        *_shape(image),
        *_pieces(image),
        *_doubt(prediction),
    ]
    if not steps.normalise:
        found.append(
            _problem(
                "normalisation",
                "The pixels are not normalised: the model was trained on values of mean 0 and gets values from 0 to 1.",
                "normalise",
            )
        )
    found = [
        replace(one, remedy={name: value for name, value in one.remedy.items() if getattr(steps, name) != value})
        for one in found
    ]
    return tuple(sorted(found, key=lambda one: list(Verdict).index(one.verdict)))


def _problem(name: str, evidence: str, *steps: str, advice: str = "") -> Finding:
    """What spoils the image that the model sees, and the steps that take it out."""
    return Finding(name, evidence, Verdict.FAIL, advice, dict.fromkeys(steps, True))


def _mended(name: str, evidence: str) -> Finding:
    return Finding(name, evidence, Verdict.MENDED)


def _note(name: str, evidence: str, advice: str = "") -> Finding:
    return Finding(name, evidence, Verdict.NOTE, advice)


def _offset(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = math.hypot(*image.as_drawn.offset), math.hypot(*image.as_seen.offset)
    if seen > _FAR_OFF:
        evidence = (
            f"The ink lies {seen:.1f} px off the middle of the 28x28; MNIST's own never more than "
            "0.7 px. A network that has not seen shifted digits has learned their place, too."
        )
        return [_problem("position", evidence, "centre", "crop", "fit")]
    if drawn > _FAR_OFF_DRAWN and steps.centre:
        return [_mended("position", f"Drawn {drawn:.1f} px off the middle (in pixels of 28x28): centring moved it.")]
    return []


def _pen(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = image.as_drawn.pen, image.as_seen.pen
    low, high = PEN_USUAL
    if not low - 0.2 <= seen <= high + 0.4:
        return [_problem("pen", f"The pen is {seen:.1f} px wide where MNIST has 2.2 (most digits {low} to {high}).", "ink")]
    if steps.ink and not low - 0.2 <= drawn <= high + 0.4:
        evidence = (
            f"Shrunk as drawn, the pen would be {drawn:.1f} px wide where MNIST has 2.2: the ink was brought to MNIST's width."
        )
        return [_mended("pen", evidence)]
    return []


def _size(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = image.as_drawn.longest, image.as_seen.longest
    if seen < _SMALL:
        return [_problem("size", f"The digit is {seen:.0f} px large where MNIST's are 20.", "crop", "ink")]
    if seen > 23:
        return [_problem("size", f"The digit fills {seen:.0f} px where MNIST's are 20 with a margin.", "fit")]
    if steps.crop and drawn < _SMALL:
        return [_mended("size", f"Drawn {drawn:.0f} px large (in pixels of 28x28) where MNIST's are 20: it was enlarged.")]
    return []


def _polarity(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    if image.inverted:
        return [_mended("polarity", "Dark on light was turned into light on dark, as MNIST is.")]
    if not steps.ink and image.as_seen.ink > 784 / 2:
        return [_problem("polarity", "The image is light with dark ink; MNIST is black with light ink.", "ink")]
    return []


def _ink(seen: Measures) -> list[Finding]:
    low, high = INK_USUAL
    if low * 0.7 <= seen.ink <= high * 1.3 or seen.ink > 784 / 2:
        return []
    much = "little" if seen.ink < low else "much"
    evidence = (
        f"There is {much} ink: {seen.ink:.0f} white pixels' worth, where nine of ten MNIST digits have {low:.0f} to {high:.0f}."
    )
    return [_note("ink", evidence)]


def _shape(image: DigitImage) -> list[Finding]:
    wide = image.as_seen.wide
    if image.touching or wide <= _WIDE:
        return []
    evidence = f"It is {wide:.1f} times as wide as high; of MNIST's digits one in a hundred passes 1.4."
    return [_note("shape", evidence, "Are these two digits, or one that lies on its side?")]


def _pieces(image: DigitImage) -> list[Finding]:
    if image.touching:
        evidence = "It looks like two digits that touch, and no place was found to take them apart."
        return [_problem("pieces", evidence, advice="Leave a gap between them.")]
    if image.blobs < 2:
        return []
    evidence = (
        f"The ink is in {image.blobs} pieces; nearly all MNIST digits are one. A gap in a line can turn "
        "a 9 into a 4, or an 8 into a 3."
    )
    return [_note("pieces", evidence)]


def _doubt(prediction: Prediction) -> list[Finding]:
    if not prediction.is_answer:
        evidence = "The network gives NaN or infinity instead of numbers: its weights or BatchNorm's statistics are broken."
        return [_problem("answer", evidence)]
    second = float(prediction.probabilities[prediction.second])
    if second > 0.2:
        evidence = f"A close call: {prediction.digit} with {prediction.confidence:.0%}, {prediction.second} with {second:.0%}."
        return [_note("answer", evidence)]
    if prediction.confidence < FAIRLY_SURE:
        return [_note("answer", f"The model is unsure: no digit has more than {prediction.confidence:.0%}.")]
    return []


def confidence_words(confidence: float) -> str:
    """A probability in plain words."""
    if confidence >= 0.99:
        return "sure"
    if confidence >= FAIRLY_SURE:
        return "fairly sure"
    return "in doubt" if confidence >= 0.6 else "guessing"
