"""Fresh models trained side by side: BatchNorm warming up, and twins with and without a layer.

Nothing of a run is touched: each model is new, from a seed, and is thrown away.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.batch_statistics import doubles, norm_layers
from core.batches import make_batches
from core.config import BATCHNORM_MODELS, DATASETS, TrainConfig
from core.data import Digits, load_splits
from core.errors import TrainingError
from core.evaluation import finish
from core.events import Progress, StepDone, StepsEnded, Validated
from core.modes import BATCHNORM_ONLY, EVAL, ask, batches_of, some_digits, switched
from core.train_loop import TrainState, new_state, take_pending, train, update

BATCH = 64
_VALIDATIONS = 10


# --- warming up --------------------------------------------------------------------------------------------------------


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
        dataset=dataset, model=model if model in BATCHNORM_MODELS else "lab_cnn", batchnorm_momentum=momentum,
        train_size=steps * BATCH, validation_size=500, epochs=1, batch_size=BATCH, validations_per_epoch=0, seed=seed,
        device="cpu",
    ).validate()  # fmt: skip


def warming_up(config: TrainConfig, data_root: Path) -> Iterator[Progress | WarmUpStep]:
    """Train a fresh model and look at both modes as it goes.

    Args:
        config: see `warm_up_config`; a model with BatchNorm.
    """
    yield Progress(0, config.total_steps(), "Reading the digits", "steps")
    splits = load_splits(config, data_root)
    scored = some_digits(splits.validation, 500)
    state = new_state(config, shared=True)
    state.model.train()
    first, seen = next(iter(norm_layers(state.model).values())), []
    for batch in make_batches(config, splits.train, state.device).epoch(0):
        seen.clear()
        hook = first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
        update(state, [batch])
        hook.remove()
        x = seen[0].double().transpose(0, 1).flatten(1)
        marked = _is_marked(state.step, config.total_steps())
        yield WarmUpStep(
            state.step, _accuracy(state, scored, train_mode=False) if marked else None,
            _accuracy(state, scored, train_mode=True) if marked else None,
            x.mean(1).numpy(), x.var(1, correction=1).numpy(), doubles(first.running_mean), doubles(first.running_var),
        )  # fmt: skip
        yield Progress(state.step, config.total_steps(), "A fresh model warms up", "steps")


def _is_marked(step: int, last: int) -> bool:
    """Every step at first, then fewer: about 18 of 50."""
    return step <= 10 or step % 5 == 0 or step == last


def _accuracy(state: TrainState, digits: Digits, *, train_mode: bool) -> float:
    twin = switched(state.model, BATCHNORM_ONLY if train_mode else EVAL)
    return finish(ask(twin, digits, batches_of("stored", digits.labels, BATCH))).accuracy


# --- with and without --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TwinLosses:
    """Losses of some steps of one twin: int64 and float32 (k,)."""

    name: str
    steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float32]


@dataclass(frozen=True)
class TwinScore:
    """Validation accuracy of one twin after a step, in [0, 1], eval mode."""

    name: str
    step: int
    accuracy: float


@dataclass(frozen=True)
class TwinEnded:
    """One twin has ended; `reason` says why when it was not the end of the budget."""

    name: str
    step: int
    reason: str = ""


def twin_configs(
    dataset: str, optimizer: str, learning_rate: float, dropout: float, steps: int, seed: int = 0
) -> dict[str, TrainConfig]:
    """The same two convolutions plain, with BatchNorm, with Dropout, and with both: same seed, digits, order and budget.

    Raises ConfigError.
    """
    most = (DATASETS[dataset][0] - 500) // BATCH  # steps that one epoch can have
    epochs = math.ceil(steps / most)
    plain = TrainConfig(
        dataset=dataset, model="simple_cnn", optimizer=optimizer, learning_rate=learning_rate,
        train_size=math.ceil(steps / epochs) * BATCH, validation_size=500, epochs=epochs, batch_size=BATCH, seed=seed,
        device="cpu", validations_per_epoch=max(1, _VALIDATIONS // epochs),
    )  # fmt: skip
    normed = replace(plain, model="cnn_batchnorm")
    twins = {"plain": plain, "BatchNorm": normed, "Dropout": replace(plain, dropout=dropout),
             "BatchNorm and Dropout": replace(normed, dropout=dropout)}  # fmt: skip
    return {name: config.validate() for name, config in twins.items()}


def twin_trainings(
    twins: Mapping[str, TrainConfig], data_root: Path
) -> Iterator[Progress | TwinLosses | TwinScore | TwinEnded]:
    """Train all twins step by step in turn, so that their curves grow side by side."""
    total = sum(config.total_steps() for config in twins.values())
    yield Progress(0, total, "Reading the digits", "steps")
    running = {}
    splits = load_splits(next(iter(twins.values())), data_root)
    for name, config in twins.items():
        state = new_state(config, shared=True)
        batches = make_batches(config, splits.train, state.device)
        # The twins are scored on validation digits; the test split stays out of it.
        running[name] = state, train(state, batches, splits.validation, splits.validation)
    done = dict.fromkeys(twins, 0)
    while running:
        for name, (state, events) in list(running.items()):
            ended = None
            try:
                for event in events:
                    if isinstance(event, StepsEnded):
                        yield _losses(name, event)
                    elif isinstance(event, Validated):
                        yield TwinScore(name, event.step, event.evaluation.accuracy)
                    elif isinstance(event, StepDone) and state.step > done[name]:
                        break
                else:
                    ended = TwinEnded(name, state.step)
            except TrainingError as error:
                if report := take_pending(state):
                    yield _losses(name, report)
                ended = TwinEnded(name, state.step, str(error))
            if ended is not None:
                yield ended
                del running[name]
            done[name] = state.step
            yield Progress(sum(done.values()), total, "Twins train in turn", "steps")


def _losses(name: str, report: StepsEnded) -> TwinLosses:
    return TwinLosses(name, report.steps["step"].astype(np.int64), report.steps["loss"].copy())
