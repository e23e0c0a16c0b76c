"""Train mode and eval mode side by side, always on a deep copy: what BatchNorm and Dropout do to an answer."""

import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.batches import normalise
from core.data import Digits
from core.errors import CoreError
from core.models import reseed_dropout
from core.predictor import Images, Prediction
from core.randomness import generator_for

Company = Literal["mixed", "one_class", "blank", "drawings"]
COMPANIES: tuple[Company, ...] = ("mixed", "one_class", "blank", "drawings")


class BatchOfOneError(CoreError):
    """BatchNorm cannot normalise a single value by itself."""


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
        sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules),
        sum(isinstance(module, nn.Dropout) and module.p > 0 for module in modules),
    )


def company_of(kind: Company, count: int, digits: Digits, *, label: int = 0, drawings: npt.NDArray[np.uint8] | None = None,
               seed: int = 0) -> Images:  # fmt: skip
    """The images that share a batch with one drawing.

    Args:
        kind: "mixed" digits of all classes, "one_class" (all of `label`), "blank" black images, or "drawings", repeated.
        count: how many; 0 for none. digits: where they are drawn from. drawings: uint8 (m, 28, 28), for "drawings".

    Returns:
        float32 (count, 1, 28, 28), normalised.
    """
    generator = np.random.default_rng(int(torch.randint(2**31, (), generator=generator_for(seed, "company", count))))
    if kind == "blank":
        images = np.zeros((count, 1, 28, 28), np.uint8)
    elif kind == "drawings":
        own = np.zeros((1, 28, 28), np.uint8) if drawings is None or not len(drawings) else drawings
        images = own[np.arange(count) % len(own)][:, None]
    else:
        pool = np.flatnonzero(digits.labels == label) if kind == "one_class" else np.arange(len(digits))
        images = digits.images[generator.choice(pool, count, replace=count > len(pool))]
    return normalise(torch.from_numpy(np.ascontiguousarray(images))).numpy()


def answer_in_train_mode(
    model: nn.Module, image: Images, company: Images, *, passes: int = 1, seed: int = 0
) -> list[Prediction]:
    """What a copy of the model answers for one image in train mode, in a batch with others.

    BatchNorm normalises with this batch's own mean and variance; Dropout draws a mask for each pass. The copy's running
    statistics move, the model's do not.

    Args:
        image: (1, 1, 28, 28), normalised. company: (n, 1, 28, 28), the rest of the batch.
        passes: forwards, each with other dropout masks.

    Raises:
        BatchOfOneError: the model has a BatchNorm layer that sees one value a channel.
    """
    twin = copy.deepcopy(model).train()
    batch = torch.from_numpy(np.concatenate([image, company]))
    answers = []
    with torch.no_grad():
        for number in range(passes):
            reseed_dropout(twin, seed, number)
            try:
                logits = twin(batch)[0]
            except ValueError as error:
                raise BatchOfOneError(
                    "In train mode BatchNorm subtracts the batch's mean and divides by its standard deviation. With one "
                    f"image there is one value a channel, and no deviation to divide by (PyTorch says: {error}). Take a "
                    "batch of 2 or more, or eval mode, which uses the running statistics."
                ) from error
            answers.append(Prediction(logits.softmax(0).numpy(), logits.numpy()))
    return answers
