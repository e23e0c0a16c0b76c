"""A trained model that answers for images. Always a copy of its own, in eval mode, so that no training is disturbed."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from core.checkpoints import content_digest, load_weights
from core.config import TrainConfig
from core.errors import CheckpointError
from core.models import build_model

Images = npt.NDArray[np.float32]
"""(n, 1, 28, 28), normalised."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says about one image.

    Attributes:
        probabilities: float32 (10,), sum 1.
        logits: float32 (10,), before softmax.
    """

    probabilities: npt.NDArray[np.float32]
    logits: npt.NDArray[np.float32]

    @property
    def digit(self) -> int:
        """The most probable digit."""
        return int(self.probabilities.argmax())

    @property
    def confidence(self) -> float:
        """Its probability, in [0, 1]."""
        return float(self.probabilities.max())

    @property
    def second(self) -> int:
        """The next most probable digit."""
        return int(np.argsort(self.probabilities, kind="stable")[-2])


class Predictor:
    """One set of weights on the CPU, float32, in eval mode. Safe to share: nothing here changes it.

    Args:
        weights: parameters and buffers; copied. config: names the architecture. step: updates made.

    Attributes:
        notes: what was missing and could be filled in, in words.

    Raises:
        CheckpointError: the weights do not fit the architecture; says which keys and shapes differ.
    """

    def __init__(self, weights: dict[str, Tensor], config: TrainConfig, step: int) -> None:
        self.config, self.step = config, step
        self.model = build_model(config)
        expected = self.model.state_dict()
        counters = [name for name in expected if name.endswith(".num_batches_tracked") and name not in weights]
        self.notes: tuple[str, ...] = ()
        if counters:
            weights = {**weights, **{name: torch.zeros_like(expected[name]) for name in counters}}
            self.notes = (f"{', '.join(counters)} missing: how many batches BatchNorm has averaged is unknown, taken as 0. "
                          "Only momentum None needs that number.",)  # fmt: skip
        differing = [
            f"{name} {tuple(value.shape)} instead of {tuple(expected[name].shape)}"
            for name, value in weights.items()
            if name in expected and value.shape != expected[name].shape
        ]
        differing += [f"{name} is missing" for name in expected if name not in weights]
        differing += [f"{name} is not known" for name in weights if name not in expected]
        if differing:
            raise CheckpointError(f"The weights do not fit {config.model}: {'; '.join(differing[:5])}.")
        self.model.load_state_dict(weights)
        self.model.eval().requires_grad_(False)

    def predict(self, images: Images) -> list[Prediction]:
        """Answer for (n, 1, 28, 28) normalised images in eval mode; each answer depends on its image alone."""
        if not len(images):
            return []
        with torch.inference_mode():
            logits = self.model(torch.from_numpy(images))
            probabilities = logits.softmax(1)
        return [Prediction(*pair) for pair in zip(probabilities.numpy(), logits.numpy(), strict=True)]


def fingerprint(model: nn.Module) -> str:
    """SHA-256 over all parameters and buffers: the same before and after means that nothing was changed."""
    return content_digest(dict(model.state_dict()))


def load_predictor(path: Path) -> Predictor:
    """The model of a checkpoint file, kept for the next question as long as the file stays the same.

    Raises:
        CheckpointError: missing, damaged, or of another architecture.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path.name} of run {path.parent.name} cannot be read: {error.strerror or error}.") from None
    return _load(path, status.st_mtime_ns, status.st_size)


# Time travel looks at some forty snapshots of a run again and again; a model has about 0.2 MB.
@lru_cache(maxsize=128)
def _load(path: Path, modified: int, size: int) -> Predictor:
    return read_predictor(path)


def read_predictor(path: Path) -> Predictor:
    """`load_predictor`, not kept: for a file that is looked at once."""
    content = load_weights(path)
    return Predictor(content["weights"], content["config"], content["step"])
