"""The learning rate as a function of the step: one formula for training, preview and resume."""

import math

import numpy as np
import numpy.typing as npt

from core.config.train_config import TrainConfig

# Shape of the one-cycle schedule (Smith and Topin 2017): where it starts and ends relative to its peak.
ONE_CYCLE_RISE = 0.25
ONE_CYCLE_START = 0.04


def schedule_factor(config: TrainConfig, step: int) -> float:
    """The factor on `config.learning_rate` for the update that follows `step` updates.

    Args:
        config: checked settings.
        step: finished updates, 0 up to and including `config.total_steps()`; larger values count as the end.

    Returns:
        A number in [0, 1]. For "plateau" only the warm-up: the drops depend on the validations.
    """
    total = config.total_steps() - config.schedule_start
    step = min(max(0, step - config.schedule_start), total)
    if config.schedule == "one_cycle":
        rise = config.warmup_steps or max(1, round(ONE_CYCLE_RISE * total))
        if step < rise:
            return ONE_CYCLE_START + (1 - ONE_CYCLE_START) * (step + 1) / rise
        return max(0.0, (total - step) / max(1, total - rise + 1))
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    if config.schedule == "cosine":
        past = max(0, step - config.warmup_steps)
        return warmup * 0.5 * (1 + math.cos(math.pi * past / max(1, total - config.warmup_steps)))
    if config.schedule == "step":
        drops = step // (config.steps_per_epoch() * config.schedule_epochs)
        return warmup * config.schedule_factor**drops
    return warmup


def schedule_preview(config: TrainConfig, points: int = 200) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Learning rates at evenly spaced steps for a chart: (steps, rates), at most `points` long each."""
    total = config.total_steps()
    steps = np.unique(np.linspace(0, max(0, total - 1), min(points, total)).astype(np.int64))
    rates = np.array([config.learning_rate * schedule_factor(config, int(step)) for step in steps])
    return steps, rates
