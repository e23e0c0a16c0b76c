"""Test digits that a model gets wrong, or is in doubt about, found at random."""

from random import Random
from typing import Literal, get_args

import numpy as np
import torch

from core.answers import answers_of
from core.data.batches import normalise
from core.data.sources import Digits
from core.drawing.diagnosis import FAIRLY_SURE
from core.model.predictor import Predictor

Difficulty = Literal["any", "wrong", "doubt"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
_CHUNK = 500


def find_digit(
    predictor: Predictor, digits: Digits, difficulty: Difficulty, label: int | None = None, random: Random | None = None
) -> int | None:
    """The place of a digit, each that fits as likely as any other; None when there is none.

    In random order until one fits: of a model that is right in 99 of 100 a chunk of 500 nearly always holds a wrong one, and
    only a model that gets all right is asked about every digit.

    Args:
        difficulty: "wrong": the answer is not the label, or there is none. "doubt": no digit has FAIRLY_SURE.
        label: of one class only.
    """
    places = np.flatnonzero(digits.labels == label) if label is not None else np.arange(len(digits))
    places = np.array((random or Random()).sample(places.tolist(), len(places)), np.int64)
    if difficulty == "any":
        return int(places[0]) if len(places) else None
    for start in range(0, len(places), _CHUNK):
        chunk = places[start : start + _CHUNK]
        with torch.inference_mode():
            probabilities = predictor.model(normalise(torch.from_numpy(digits.images[chunk]))).softmax(1).numpy()
        fits = (
            answers_of(probabilities) != digits.labels[chunk]
            if difficulty == "wrong"
            else ~(probabilities.max(1) >= FAIRLY_SURE)
        )
        if fits.any():
            return int(chunk[np.argmax(fits)])
    return None
