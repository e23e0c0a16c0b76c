"""Running statistics from their first values, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.sources import Digits, load_splits
from core.modes.copies import BATCHNORM_ONLY, EVAL, ask, batches_of, copy_in_mode, some_digits
from core.modes.inside_layer import doubles
from core.modes.norm_layers import norm_layers
from core.modes.with_and_without import BATCH
from core.status import Progress, result_of
from core.training.loop import make_update
from core.training.state import TrainState, new_state


@dataclass(frozen=True, eq=False)
class WarmUpStep:
    """A fresh model after one step. Statistics are those of the first BatchNorm layer, float64 (c,).

    Attributes:
        eval, train: accuracy in both modes, in [0, 1]; None for steps that are not scored.
        batch_mean, batch_variance: of the batch of this step, the variance divided by n - 1, as it enters the running one.
        running_mean, running_variance: after this step.
    """

    step: int
    eval: float | None
    train: float | None
    batch_mean: npt.NDArray[np.float64]
    batch_variance: npt.NDArray[np.float64]
    running_mean: npt.NDArray[np.float64]
    running_variance: npt.NDArray[np.float64]


def warm_up_config(model: str, dataset: str, momentum: float | None, steps: int, seed: int = 0) -> TrainConfig:
    """Adam at 1e-3 for so many steps of 64 digits; a model without BatchNorm is replaced by the small one that has it."""
    return TrainConfig(
        dataset=dataset,
        model=model if MODELS[model].has_batchnorm else "lab_cnn",
        batchnorm_momentum=momentum,
        train_size=steps * BATCH,
        validation_size=500,
        epochs=1,
        batch_size=BATCH,
        validations_per_epoch=0,
        seed=seed,
        device="cpu",
    ).validate()


def warming_up(config: TrainConfig, data_root: Path) -> Iterator[Progress | tuple[WarmUpStep, ...]]:
    """Train a fresh model and look at both modes as it goes. Gives the steps so far.

    Args:
        config: see `warm_up_config`; a model with BatchNorm.
    """
    yield Progress(0, config.total_steps(), "Reading the digits", "steps")
    splits = load_splits(config, data_root)
    scored = some_digits(splits.validation, 500)
    state = new_state(config, beside_pages=True)
    state.model.train()
    first, seen = next(iter(norm_layers(state.model).values())), []
    steps: tuple[WarmUpStep, ...] = ()
    for batch in make_batches(config, splits.train, state.device).epoch(0):
        seen.clear()
        # Before the layer, not after: what comes in is what the statistics are of.
        hook = first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
        make_update(state, [batch])
        hook.remove()
        x = seen[0].double().transpose(0, 1).flatten(1)
        marked = _is_marked(state.step, config.total_steps())
        step = WarmUpStep(
            state.step,
            _accuracy(state, scored, train_mode=False) if marked else None,
            _accuracy(state, scored, train_mode=True) if marked else None,
            x.mean(1).numpy(),
            x.var(1, correction=1).numpy(),
            doubles(first.running_mean),
            doubles(first.running_var),
        )
        steps = (*steps, step)
        yield steps
        yield Progress(state.step, config.total_steps(), "A fresh model warms up", "steps")


def _is_marked(step: int, last: int) -> bool:
    """Every step at first, then fewer: about 18 of 50."""
    return step <= 10 or step % 5 == 0 or step == last


def _accuracy(state: TrainState, digits: Digits, *, train_mode: bool) -> float:
    # BatchNorm alone: Dropout's chance would hide the difference that this experiment is about.
    copied = copy_in_mode(state.model, BATCHNORM_ONLY if train_mode else EVAL)
    return result_of(ask(copied, digits, batches_of("stored", digits.labels, BATCH))).accuracy
