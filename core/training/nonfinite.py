"""A loss or gradient that is not finite: the update is refused before it spoils the weights, and the cause is looked for."""

import math

import torch
from torch import Tensor

from core.data.batches import Batch
from core.errors import TrainingError
from core.training.reporting import note_step
from core.training.state import TrainState

# float16's gradient scaler begins too high on purpose and skips updates until it fits; more in a row are a failure.
MAX_SKIPPED_UPDATES = 30


def refuse_nonfinite(state: TrainState, group: list[Batch], loss: Tensor, norm: Tensor, correct: Tensor) -> bool:
    """Stop before an update that would ruin the weights; True when float16's scaler will skip it.

    Costs one wait for the device a step; on the CPU nothing. The step that failed is kept for the charts.
    """
    loss_value, norm_value = torch.stack([loss, norm.float()]).tolist()
    if math.isfinite(loss_value) and math.isfinite(norm_value):
        state.skipped_updates = 0
        return False
    if state.scaler.is_enabled() and math.isfinite(loss_value) and state.skipped_updates < MAX_SKIPPED_UPDATES:
        state.skipped_updates += 1  # the scaler skips this update and halves its factor
        return True
    rate = state.optimizer.param_groups[0]["lr"]
    note_step(state, group, loss, norm, correct)
    what = "loss" if not math.isfinite(loss_value) else "gradient"
    value = loss_value if what == "loss" else norm_value
    more = "" if state.config.detect_anomaly else " Detect anomaly names the operation."
    raise TrainingError(
        f"The {what} became {value} at step {state.step + 1:,}, with a learning rate of {rate:g}. "
        f"{not_made(state, group, rate)}{more}"
    )


def not_made(state: TrainState, group: list[Batch], rate: float) -> str:
    """What became of the weights, and what to do: by what was fed in, where that is the cause."""
    kept = f"The update was not made, so the weights are still those of step {state.step:,}."
    if bad := [number for images, _ in group for number, image in enumerate(images) if not bool(image.isfinite().all())]:
        return (
            f"{kept} The cause is the data: image {bad[0]} of the batch holds values that are not finite"
            f"{f', and so do {len(bad) - 1} more' if len(bad) > 1 else ''}. No learning rate mends that."
        )
    if bad := [name for name, value in state.model.named_parameters() if not bool(value.isfinite().all())]:
        return f"{kept} {bad[0]} was not finite before this step already: start from other weights."
    return (
        f"{kept} Try a learning rate ten times lower ({rate / 10:g}), gradient clipping at 1, or a warm-up; with float16, "
        "try bfloat16 or float32."
    )
