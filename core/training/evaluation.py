"""Scoring a model: loss, accuracy, confusion matrix and worst mistakes over a split, each digit weighing the same."""

from collections.abc import Generator
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from core.answers import NO_ANSWER, answers_of
from core.data.batches import normalise
from core.data.sources import Digits
from core.events import Evaluation, Mistake, StepDone
from core.status import result_of

EVALUATION_BATCH = 1000
SHOWN_MISTAKES = 12


def evaluate(model: nn.Module, digits: Digits, device: torch.device, batch_size: int = EVALUATION_BATCH) -> Evaluation:
    """Score a model in eval mode over all digits, each weighing the same; the model's mode is put back.

    Float32 whatever the training's precision, so that scores can be compared.
    """
    return result_of(evaluating(model, digits, device, batch_size))


def evaluating(
    model: nn.Module, digits: Digits, device: torch.device, batch_size: int = EVALUATION_BATCH
) -> Generator[StepDone, None, Evaluation]:
    """`evaluate` with a place to stop after each batch."""
    began, was_training = perf_counter(), model.training
    # Kept for the worst mistakes; ten thousand digits are 0.4 MB, and a second pass for twelve pictures would cost seconds.
    probabilities = np.empty((len(digits), 10), np.float32)
    predicted = np.empty(len(digits), np.int64)
    loss_sum = 0.0
    try:
        for start in range(0, len(digits), batch_size):
            # At each batch: between two of them the caller may have trained on, which put the model back into train mode.
            model.eval()
            with torch.inference_mode():  # less than no_grad: not even version counters are kept
                images = torch.from_numpy(digits.images[start : start + batch_size].copy()).to(device)
                labels = torch.from_numpy(digits.labels[start : start + batch_size]).to(device)
                logits = model(normalise(images)).float()  # a loss of bfloat16 has three digits
                # Summed, and divided once at the end: in a mean of means the digits of a smaller last batch weigh more.
                loss_sum += F.cross_entropy(logits, labels, reduction="sum").item()
                predicted[start : start + batch_size] = answers_of(logits).cpu().numpy()
                probabilities[start : start + batch_size] = logits.softmax(1).cpu().numpy()
            yield StepDone()
    finally:
        model.train(was_training)
    confusion = confusion_of(digits.labels, predicted)
    return Evaluation(
        loss=loss_sum / len(digits),
        accuracy=float((predicted == digits.labels).mean()),
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
        mistakes=_worst_mistakes(digits, probabilities, predicted),
        seconds=perf_counter() - began,
        unanswered=int((predicted == NO_ANSWER).sum()),
        unanswered_by_label=tuple(np.bincount(digits.labels[predicted == NO_ANSWER], minlength=10).tolist()),
    )


def confusion_of(labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Digits counted by what they are and what was answered: int64 (10, 10), a row a label. Those without an answer are in no
    column."""
    answered = predicted != NO_ANSWER
    return np.bincount(labels[answered] * 10 + predicted[answered], minlength=100).reshape(10, 10)


def _worst_mistakes(digits: Digits, probabilities: Any, predicted: Any) -> tuple[Mistake, ...]:
    wrong = np.flatnonzero((predicted != digits.labels) & (predicted != NO_ANSWER))
    worst = wrong[np.argsort(-probabilities[wrong, predicted[wrong]], kind="stable")][:SHOWN_MISTAKES]
    return tuple(
        Mistake(
            int(index),
            int(digits.labels[index]),
            int(predicted[index]),
            float(probabilities[index, predicted[index]]),
            digits.images[index].tobytes(),
        )
        for index in worst
    )
