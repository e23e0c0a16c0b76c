"""Train mode and eval mode side by side, always on a deep copy: what BatchNorm and Dropout do to an answer."""

import contextlib
import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.answers import answers_of
from core.data.batches import normalise
from core.data.sources import SPLIT_SEED, Digits, stratified
from core.errors import BatchOfOneError, ModelChangedError
from core.model.networks import reseed_dropout
from core.model.predictor import Images, Prediction, fingerprint
from core.randomness import seed_for
from core.status import Progress

BatchOrder = Literal["shuffled", "by_class", "stored"]
BATCH_ORDERS: tuple[BatchOrder, ...] = ("shuffled", "by_class", "stored")
BatchNorm = nn.modules.batchnorm._BatchNorm
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Switch:
    """Which kinds of layers behave as in train mode; the others behave as in eval mode."""

    batchnorm: bool
    dropout: bool


EVAL, TRAIN = Switch(False, False), Switch(True, True)
BATCHNORM_ONLY, DROPOUT_ONLY = Switch(True, False), Switch(False, True)


@dataclass(frozen=True)
class ModeLayers:
    """How many layers of a model behave differently in train mode."""

    batchnorm: int
    dropout: int

    @property
    def any(self) -> bool:
        """True when the mode matters at all."""
        return bool(self.batchnorm or self.dropout)


def mode_layers(model: nn.Module) -> ModeLayers:
    """Count BatchNorm layers, and Dropout layers that drop something."""
    modules = list(model.modules())
    return ModeLayers(
        sum(isinstance(module, BatchNorm) for module in modules),
        sum(isinstance(module, nn.Dropout) and module.p > 0 for module in modules),
    )


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Check that parameters, buffers and mode are the same after the block. Raises ModelChangedError."""
    before = fingerprint(model), model.training
    yield
    if (fingerprint(model), model.training) != before:
        raise ModelChangedError("This experiment changed the model's weights or buffers. Please report it.")


def copy_in_mode(model: nn.Module, switch: Switch) -> nn.Module:
    """A deep copy whose BatchNorm and Dropout layers are in the modes asked for, without gradients."""
    # A deep copy: a forward in train mode moves running statistics, under no_grad too, and the run must not notice.
    copied = copy.deepcopy(model).eval().requires_grad_(False)
    for module in copied.modules():
        if isinstance(module, BatchNorm):
            module.train(switch.batchnorm)
        elif isinstance(module, nn.Dropout):
            module.train(switch.dropout)
    return copied


def some_digits(digits: Digits, count: int) -> Digits:
    """The same `count` digits of a split each time, each class in its share; all of them when there are fewer."""
    return digits if count >= len(digits) else digits.take(stratified(digits.labels, count, SPLIT_SEED)[0])


def batches_of(order: BatchOrder, labels: Indices, size: int, seed: int = 0) -> list[Indices]:
    """Indices of all digits in batches of `size`, the last one smaller: shuffled, sorted by class, or as stored."""
    indices = np.arange(len(labels))
    if order == "shuffled":
        indices = np.random.default_rng(seed_for(seed, "batches")).permutation(len(labels))
    elif order == "by_class":
        indices = np.argsort(labels, kind="stable")
    return [indices[start : start + size] for start in range(0, len(indices), size)]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says about digits.

    Attributes:
        logits: float32 (n, 10), NaN where it gave none. labels: int64 (n,).
    """

    logits: npt.NDArray[np.float32]
    labels: Indices

    @property
    def digits(self) -> Indices:
        """int64 (n,): the answers; NO_ANSWER where a logit is not finite."""
        return answers_of(self.logits)

    @property
    def accuracy(self) -> float:
        """In [0, 1]; what is not answered is wrong."""
        return float((self.digits == self.labels).mean())

    @property
    def loss(self) -> float:
        """Mean cross-entropy in nats; NaN when a logit is."""
        return float(F.cross_entropy(torch.from_numpy(self.logits), torch.from_numpy(self.labels)))

    def probabilities(self, place: int) -> npt.NDArray[np.float32]:
        """float32 (10,) of one digit."""
        return torch.from_numpy(self.logits[place]).softmax(0).numpy()


def ask(copied: nn.Module, digits: Digits, batches: Sequence[Indices], *, seed: int = 0) -> Generator[int, None, Answers]:
    """Ask a model in whatever mode it is, batch by batch; yields how many digits are done, returns the answers.

    Raises:
        BatchOfOneError: see `forward`.
    """
    logits = np.full((len(digits), 10), np.nan, np.float32)
    done = 0
    for number, batch in enumerate(batches):
        # Masks by the batch's number: the same experiment gives the same figures, whoever asks and whenever.
        reseed_dropout(copied, seed, number)
        logits[batch] = forward(copied, normalise(torch.from_numpy(digits.images[batch]))).numpy()
        done += len(batch)
        yield done
    return Answers(logits, digits.labels)


def forward(copied: nn.Module, batch: Tensor) -> Tensor:
    """One forward without gradients.

    Raises:
        BatchOfOneError: a BatchNorm layer in train mode sees one value a channel.
    """
    try:
        with torch.no_grad():
            return copied(batch)
    except ValueError as error:
        if len(batch) > 1:
            raise
        raise BatchOfOneError(
            "In train mode BatchNorm subtracts the batch's mean and divides by its standard deviation. With one "
            f"image there is one value a channel, and no deviation to divide by (PyTorch says: {error}). Take a "
            "batch of 2 or more, or eval mode, which uses the running statistics."
        ) from error


def answer_in_train_mode(model: nn.Module, image: Images, mates: Images, *, passes: int = 1, seed: int = 0) -> list[Prediction]:
    """What a copy of the model answers for one image in train mode, in a batch with others.

    BatchNorm normalises with this batch's own mean and variance; Dropout draws a mask for each pass. The copy's running
    statistics move, the model's do not.

    Args:
        image: (1, 1, 28, 28), normalised. mates: (n, 1, 28, 28), the rest of the batch.
        passes: forwards, each with other dropout masks.

    Raises:
        BatchOfOneError: the model has a BatchNorm layer that sees one value a channel.
    """
    copied = copy_in_mode(model, TRAIN)
    batch = torch.from_numpy(np.concatenate([image, mates]))
    answers = []
    for number in range(passes):
        reseed_dropout(copied, seed, number)
        logits = forward(copied, batch)[0]
        answers.append(Prediction(logits.softmax(0).numpy(), logits.numpy()))
    return answers


LARGE_BATCH = 250  # eval mode's answer does not depend on the batch


def asked_in_mode(
    model: nn.Module, switch: Switch, digits: Digits, batches: Sequence[Indices], words: str, seed: int
) -> Generator[Progress, None, Answers]:
    """Ask a copy about digits batch by batch, with some kinds of layers in train mode. Gives progress; returns the answers."""
    steps = ask(copy_in_mode(model, switch), digits, batches, seed=seed)
    while True:
        try:
            done = next(steps)
        except StopIteration as end:
            return end.value
        yield Progress(done, len(digits), words, "digits")
