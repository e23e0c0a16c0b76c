"""A trained model that answers for images. Always a copy of its own, in eval mode, so that no training is disturbed."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from core.answers import NO_ANSWER, answers_of
from core.config.train_config import TrainConfig
from core.errors import CheckpointError
from core.model.checkpoint_file import content_digest
from core.model.fit import counters_note, differences, with_counters
from core.model.networks import build_model
from core.model.weights import load_weights

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
        """The most probable digit; NO_ANSWER when the network gave none."""
        return int(answers_of(self.probabilities[None])[0])

    @property
    def is_answer(self) -> bool:
        """False when a number that the network gave is NaN or infinite."""
        return self.digit != NO_ANSWER

    @property
    def confidence(self) -> float:
        """The digit's probability, in [0, 1]; 0 without an answer."""
        return float(self.probabilities.max()) if self.is_answer else 0.0

    @property
    def second(self) -> int:
        """The next most probable digit; NO_ANSWER without an answer."""
        return int(np.argsort(self.probabilities, kind="stable")[-2]) if self.is_answer else NO_ANSWER


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
        weights, missing = with_counters(weights, self.model.state_dict())
        self.notes = counters_note(missing)
        if differing := differences(weights, self.model.state_dict()):
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
