"""Why an answer may be wrong, in words with the numbers behind them, and which step would mend it."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from core.drawing.digit_image import INK_USUAL, DigitImage, Preprocessing
from core.drawing.measures import Measures
from core.model.predictor import Prediction

# What 9 of 10 MNIST digits keep to (pen, in pixels of 28x28) and all of them (offset from the middle).
PEN_USUAL = (1.5, 3.6)
_FAR_OFF, _FAR_OFF_DRAWN = 2.0, 3.5
_SMALL = 16.0
FAIRLY_SURE = 0.9


class Kind(StrEnum):
    """How much a finding matters."""

    PROBLEM = "problem"
    """Spoils the image that the model sees."""
    MENDED = "mended"
    """Would have spoiled it; a step took it out."""
    NOTE = "note"
    """Worth knowing; nothing to mend."""


@dataclass(frozen=True)
class Finding:
    """One reason.

    Attributes:
        words: one or two sentences with numbers. mend: the names of the `Preprocessing` to switch on, empty when none helps.
    """

    kind: Kind
    words: str
    mend: tuple[str, ...] = ()


def findings(image: DigitImage, steps: Preprocessing, prediction: Prediction) -> tuple[Finding, ...]:
    """What stands out about an image and its answer: problems first, then what was mended, then notes."""
    found = [
        *_offset(image, steps),
        *_pen(image, steps),
        *_size(image, steps),
        *_polarity(image, steps),
        *_ink(image.as_seen),
        *_pieces(image),
        *_doubt(prediction),
    ]
    if not steps.normalise:
        found.append(
            Finding(
                Kind.PROBLEM,
                "The pixels are not normalised: the model was trained on values of mean 0 and gets values from 0 to 1.",
                ("normalise",),
            )
        )
    found = [replace(one, mend=tuple(name for name in one.mend if not getattr(steps, name))) for one in found]
    return tuple(sorted(found, key=lambda one: list(Kind).index(one.kind)))


def _offset(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = math.hypot(*image.as_drawn.offset), math.hypot(*image.as_seen.offset)
    if seen > _FAR_OFF:
        return [
            Finding(
                Kind.PROBLEM,
                f"The ink lies {seen:.1f} px off the middle of the 28x28; MNIST's own never more than "
                "0.7 px. A network that has not seen shifted digits has learned their place, too.",
                ("centre", "crop", "fit"),
            )
        ]
    if drawn > _FAR_OFF_DRAWN and steps.centre:
        return [Finding(Kind.MENDED, f"Drawn {drawn:.1f} px off the middle (in pixels of 28x28): centring moved it.")]
    return []


def _pen(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = image.as_drawn.pen, image.as_seen.pen
    low, high = PEN_USUAL
    if not low - 0.2 <= seen <= high + 0.4:
        return [
            Finding(Kind.PROBLEM, f"The pen is {seen:.1f} px wide where MNIST has 2.2 (most digits {low} to {high}).", ("ink",))
        ]
    if steps.ink and not low - 0.2 <= drawn <= high + 0.4:
        return [
            Finding(
                Kind.MENDED,
                f"Shrunk as drawn, the pen would be {drawn:.1f} px wide where MNIST has 2.2: the ink was "
                "brought to MNIST's width.",
            )
        ]
    return []


def _size(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    drawn, seen = image.as_drawn.longest, image.as_seen.longest
    if seen < _SMALL:
        return [Finding(Kind.PROBLEM, f"The digit is {seen:.0f} px large where MNIST's are 20.", ("crop", "ink"))]
    if seen > 23:
        return [Finding(Kind.PROBLEM, f"The digit fills {seen:.0f} px where MNIST's are 20 with a margin.", ("fit",))]
    if steps.crop and drawn < _SMALL:
        return [Finding(Kind.MENDED, f"Drawn {drawn:.0f} px large (in pixels of 28x28) where MNIST's are 20: it was enlarged.")]
    return []


def _polarity(image: DigitImage, steps: Preprocessing) -> list[Finding]:
    if image.inverted:
        return [Finding(Kind.MENDED, "Dark on light was turned into light on dark, as MNIST is.")]
    if not steps.ink and image.as_seen.ink > 784 / 2:
        return [Finding(Kind.PROBLEM, "The image is light with dark ink; MNIST is black with light ink.", ("ink",))]
    return []


def _ink(seen: Measures) -> list[Finding]:
    low, high = INK_USUAL
    if low * 0.7 <= seen.ink <= high * 1.3 or seen.ink > 784 / 2:
        return []
    much = "little" if seen.ink < low else "much"
    return [
        Finding(
            Kind.NOTE,
            f"There is {much} ink: {seen.ink:.0f} white pixels' worth, where nine of ten MNIST digits have "
            f"{low:.0f} to {high:.0f}.",
        )
    ]


def _pieces(image: DigitImage) -> list[Finding]:
    if image.touching:
        return [
            Finding(
                Kind.PROBLEM,
                "It looks like two digits that touch, and no place was found to take them apart. Leave a gap between them.",
            )
        ]
    if image.blobs < 2:
        return []
    return [
        Finding(
            Kind.NOTE,
            f"The ink is in {image.blobs} pieces; nearly all MNIST digits are one. A gap in a line can turn "
            "a 9 into a 4, or an 8 into a 3.",
        )
    ]


def _doubt(prediction: Prediction) -> list[Finding]:
    if not prediction.is_answer:
        return [
            Finding(
                Kind.PROBLEM,
                "The network gives NaN or infinity instead of numbers: its weights or BatchNorm's statistics are broken.",
            )
        ]
    second = float(prediction.probabilities[prediction.second])
    if second > 0.2:
        return [
            Finding(
                Kind.NOTE,
                f"A close call: {prediction.digit} with {prediction.confidence:.0%}, {prediction.second} with {second:.0%}.",
            )
        ]
    if prediction.confidence < FAIRLY_SURE:
        return [Finding(Kind.NOTE, f"The model is unsure: no digit has more than {prediction.confidence:.0%}.")]
    return []


def confidence_words(confidence: float) -> str:
    """A probability in plain words."""
    if confidence >= 0.99:
        return "sure"
    if confidence >= FAIRLY_SURE:
        return "fairly sure"
    return "in doubt" if confidence >= 0.6 else "guessing"
