"""A network's weights on disk: written beside, checked, renamed; read with a digest and without code."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from core.config.train_config import TrainConfig
from core.errors import CheckpointError
from core.model.checkpoint_file import read_checkpoint, write_checkpoint

FORMAT = "digit-lab-checkpoint"
VERSION = 2


def save_weights(
    path: Path, weights: dict[str, Tensor], config: TrainConfig, step: int, accuracy: float | None, *, durable: bool = True
) -> None:
    """Write a model's weights with what is needed to use them. A crash leaves the old file or the new one, whole.

    Args:
        path: the file to write.
        weights: parameters and buffers, on the CPU (`copy_weights`).
        config: the run's settings; they name the architecture.
        step: updates made. accuracy: on the validation split, in [0, 1]; None when it was not scored.
        durable: wait until the disk has it, so that a power cut cannot take it either (some 10 ms).

    Raises:
        CheckpointError: the file could not be written.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "config": config.to_dict(),
        "step": step,
        "validation_accuracy": accuracy,
        "weights": {name: value.contiguous() for name, value in weights.items()},
    }
    write_checkpoint(path, content, durable=durable)


def load_weights(path: Path) -> dict[str, Any]:
    """Read what `save_weights` wrote, checked, on the CPU.

    Returns:
        "config" (a TrainConfig), "step", "validation_accuracy" and "weights".

    Raises:
        CheckpointError: missing, too large, damaged, altered, or not a checkpoint of ours; nothing in it is executed.
    """
    content = read_checkpoint(path, FORMAT, (VERSION,), ("step", "validation_accuracy", "weights"))
    weights = content["weights"]
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in weights.items()
    ):
        raise CheckpointError(f"{path.name} holds no dictionary of weights.")
    return content


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers as independent CPU tensors: `state_dict()` itself would change with the next step."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
