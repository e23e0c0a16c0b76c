"""The same weights asked in both modes: what forgetting eval() costs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import nn

from core.data.sources import Digits
from core.modes.copies import (
    BATCHNORM_ONLY,
    DROPOUT_ONLY,
    EVAL,
    LARGE_BATCH,
    TRAIN,
    Answers,
    BatchOrder,
    Indices,
    asked_in_mode,
    batches_of,
    mode_layers,
    unchanged,
)
from core.status import Progress


@dataclass(frozen=True, eq=False)
class OneSwitch:
    """The same weights asked about the same digits: in eval mode, in train mode, and with one kind of layer switched."""

    eval: Answers
    train: Answers
    batchnorm: Answers
    dropout: Answers

    @property
    def changed(self) -> Indices:
        """Places of the digits that eval mode and train mode answer differently."""
        return np.flatnonzero(self.eval.digits != self.train.digits)


def one_switch(
    model: nn.Module, digits: Digits, *, size: int, order: BatchOrder, seed: int = 0
) -> Iterator[Progress | OneSwitch]:
    """Accuracy and loss of eval mode, train mode, BatchNorm alone and Dropout alone in train mode.

    Args:
        size: batch size, 1 or more. order: which digits share a batch.
    """
    layers, batches = mode_layers(model), batches_of(order, digits.labels, size, seed)
    with unchanged(model):
        # In large batches, since they are quicker: in eval mode no answer depends on who else is in the batch.
        in_eval = yield from asked_in_mode(
            model, EVAL, digits, batches_of("stored", digits.labels, LARGE_BATCH), "Eval mode", seed
        )
        batchnorm = dropout = in_eval
        if layers.batchnorm:
            batchnorm = yield from asked_in_mode(model, BATCHNORM_ONLY, digits, batches, "BatchNorm in train mode", seed)
        if layers.dropout:
            dropout = yield from asked_in_mode(model, DROPOUT_ONLY, digits, batches, "Dropout in train mode", seed)
        # With one kind of layer train mode is that kind alone: not asked a second time.
        train = batchnorm if layers.batchnorm else dropout
        if layers.batchnorm and layers.dropout:
            train = yield from asked_in_mode(model, TRAIN, digits, batches, "Train mode", seed)
    yield OneSwitch(in_eval, train, batchnorm, dropout)
