"""What every train/eval experiment is given, and what an experiment is made of."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import streamlit as st

from core.answers import answers_of
from core.data.sources import Digits, data_root, load_pool
from core.model.predictor import Predictor
from core.modes.copies import BATCH_ORDERS, ModeLayers, mode_layers, some_digits
from core.status import Progress
from dashboard.models import model_session
from dashboard.models.model_session import LIVE, Chosen
from dashboard.modes import session as modes_session

DIGITS = 2000
Params = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Lab:
    """The model that is looked at and the digits it is asked about.

    Attributes:
        test: the same digits of the test split each time, `DIGITS` at most. train: the digits it may learn from.
    """

    chosen: Chosen
    predictor: Predictor
    test: Digits
    train: Digits
    layers: ModeLayers

    @property
    def identity(self) -> tuple[object, ...]:
        """Which weights these are."""
        return self.chosen.info.run_id, self.chosen.kind, self.predictor.step


@dataclass(frozen=True)
class Experiment(Generic[Result]):
    """One question, one picture, one sentence.

    Attributes:
        title: on its button. question: its heading. needs: "batchnorm", "dropout", "either" or "" (any model will do).
        controls: draws the choices and returns them. steps: the experiment itself, in a thread: progress, and
            results of which each holds all that came before it.
        show: draws a result, finished or not, and returns the answer in words, its point first. code: the PyTorch lines that
            give its figures.
        begins: what takes long does not begin by itself: the words of its button, and what it will do; None for the others.
        measured: said once it is done.
    """

    title: str
    question: str
    needs: str
    controls: Callable[[Lab], Params]
    steps: Callable[[Lab, Params], Iterator[Progress | Result]]
    show: Callable[[Lab, Params, Result], str]
    code: Callable[[Lab, Params], str]
    begins: tuple[str, str] | None = None
    measured: str = "Measured on a copy; a hash says the model is unchanged."

    def fits(self, layers: ModeLayers) -> bool:
        """True when the model has what the experiment is about."""
        has = {"batchnorm": layers.batchnorm > 0, "dropout": layers.dropout > 0, "either": layers.any}
        return has.get(self.needs, True)


def make_lab(chosen: Chosen) -> Lab | None:
    """The laboratory for a model; None while its digits are being read. A model in training is looked at as it was when
    it was first asked for, until a person wants newer weights."""
    held = modes_session.memory("live")
    if chosen.kind == LIVE:
        chosen = held.setdefault(chosen.info.run_id, chosen) if chosen.predictor is not None else chosen
    predictor = chosen.predictor
    if predictor is None or not model_session.digits_ready(predictor.config.dataset)[0]:
        return None
    test, train = _digits(predictor.config.dataset)
    return Lab(chosen, predictor, test, train, mode_layers(predictor.model))


def newer_weights(run_id: str) -> None:
    """Look at a training model's newest weights from now on."""
    modes_session.memory("live").pop(run_id, None)


@lru_cache(maxsize=2)
def _digits(dataset: str) -> tuple[Digits, Digits]:
    pool, test = load_pool(dataset, data_root())
    return some_digits(test, DIGITS), some_digits(pool, 3000)


@lru_cache(maxsize=8)
def doubtful(predictor: Predictor, digits: Digits) -> int:
    """The place of a digit that eval mode gets right, but only just: one that company and masks can turn over."""
    import torch

    from core.data.batches import normalise

    images = normalise(torch.from_numpy(digits.images[:500])).numpy()
    shares = np.stack([one.probabilities for one in predictor.predict(images)])
    right = answers_of(shares) == digits.labels[:500]
    return int(np.where(right, shares.max(1), 2).argmin())


def choose_digit(lab: Lab) -> int:
    """Which of the digits is looked at closely."""
    start = doubtful(lab.predictor, lab.test)
    return int(
        st.number_input(
            "Digit looked at",
            0,
            len(lab.test) - 1,
            start,
            key="m_digit",
            bind="query-params",
            width=150,
            help="Its number among the digits of this page. It begins with one that the model gets right, but only just.",
        )
    )


def points(share: float) -> str:
    """A difference of two accuracies in percentage points: +1.2 or −40.3; too small a one is said to be none."""
    if abs(share) < 0.0005:
        return "no difference"
    return f"{100 * share:+.1f} points".replace("-", "−")


def percent(share: float, count: int = DIGITS) -> str:
    """0.9912 -> 99.12 %, with no more decimals than `count` digits can tell apart."""
    decimals = 2 if count >= 1000 else 1 if count >= 200 else 0
    return f"{100 * share:.{decimals}f} %"


def layer_words(layers: ModeLayers) -> str:
    """What of this model behaves differently in train mode, as the subject of a sentence."""
    batchnorm = "BatchNorm takes its mean and variance from each batch instead of from the whole training"
    dropout = "Dropout throws activations away"
    return " and ".join([batchnorm] * bool(layers.batchnorm) + [dropout] * bool(layers.dropout)) or "no layer does"


def point_first(words: str) -> tuple[str, str]:
    """An answer as its point, one sentence with what matters in bold, and the rest that says why."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z*`])", words)
    bold = next((place for place, one in enumerate(sentences) if "**" in one), None)
    if bold is None:
        return (f"**{sentences[0]}**" if words else ""), " ".join(sentences[1:])
    return " ".join(sentences[: bold + 1]), " ".join(sentences[bold + 1 :])


def table(rows: list[dict[str, str]]) -> None:
    """A small table of words."""
    st.table({name: [row[name] for row in rows] for name in rows[0]}, hide_index=True)


ORDER_WORDS = {"shuffled": "shuffled", "by_class": "sorted by class", "stored": "as stored"}


def choose_order(key: str = "m_make") -> str:
    """In which order the digits come."""
    return st.segmented_control(
        "Order of the digits",
        BATCH_ORDERS,
        default="shuffled",
        required=True,
        key=key,
        format_func=ORDER_WORDS.__getitem__,
        bind="query-params",
    )


# Differences in accuracy that are not worth a story.
NO_EFFECT = 0.005
FRESH_WEIGHTS = "Trained from fresh weights, which are thrown away."
