"""A fork: a run that goes on from another run's whole training state, with some settings changed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from core.config.text import format_value
from core.config.train_config import TrainConfig, settings
from core.data.sources import Digits
from core.errors import CheckpointError, ConfigError, DeviceError, RunError
from core.runs.drawings import load_drawings
from core.training.saved_state import PLATEAU_STATE, SavedState, copied, optimizer_state
from core.training.state import TrainState, new_state

# What happens to the learning rate when a run is made longer.
RateChoice = Literal["hold", "stretch", "restart"]
# A state is a network of one shape, in the middle of one split of the digits.
FIXED = ("dataset", "model", "train_size", "validation_size")
# With these unchanged a plateau schedule goes on where it stood; another start means that it begins anew.
_PLATEAU = ("learning_rate", "schedule", "schedule_epochs", "schedule_factor", "schedule_start")
_MACHINE = ("device", "precision", "threads")
CHANGEABLE = tuple(name for name in settings() if name not in FIXED)


@dataclass(frozen=True, eq=False)
class Fork:
    """What a forked run starts from.

    Attributes:
        parent: the run's id. saved: the parent's state. config: the settings from here on; see `fork`.
    """

    parent: str
    saved: SavedState
    config: TrainConfig

    @property
    def parent_step(self) -> int:
        """Updates behind the state, counted as the parent does."""
        return self.saved.step

    @property
    def first_step(self) -> int:
        """The same place counted with these settings; another number when the batch size changes."""
        epoch, batch = _place(self.saved, self.config)
        return epoch * self.config.steps_per_epoch() + -(-batch // self.config.accumulation_steps)

    def first_state(self, config: TrainConfig, *, beside_pages: bool) -> TrainState:
        """See `forked`; `config` is this fork's own."""
        return forked(self, beside_pages=beside_pages)

    def drawings_for(self, runs_root: Path) -> Digits | None:
        """A fork of a lesson goes on with the same drawings among the digits."""
        return load_drawings(runs_root / self.parent)


def fork(parent: str, saved: SavedState, config: TrainConfig) -> Fork:
    """A fork of a run.

    Raises:
        ConfigError: the settings cannot be used, or differ where a state is fixed. RunError: nothing is left to train.
    """
    config.validate()
    if wrong := [name for name in FIXED if getattr(config, name) != getattr(saved.config, name)]:
        raise ConfigError(
            {
                name: f"a fork keeps its parent's, {format_value(getattr(saved.config, name)) or 'the default'}. Start a new "
                "run to change it"
                for name in wrong
            }
        )
    made = Fork(parent, saved, config)
    if made.first_step >= config.total_steps():
        raise RunError(
            f"At step {saved.step:,} of run {parent} all {config.epochs} epochs are trained, so nothing is left for "
            "a fork. Give it more epochs, or choose an earlier state."
        )
    return made


def longer(saved: SavedState, config: TrainConfig, rate: RateChoice) -> TrainConfig:
    """Settings whose learning rate does, from the state on, what `rate` says. Raises ConfigError.

    Args:
        config: with the new number of epochs.
        rate: "hold" stays at the rate of the state's next update, or at a learning rate that is changed. "stretch" follows the
            schedule as if the run had always been so long. "restart" lets the schedule run once more, from its beginning,
            over what is left.
    """
    if rate == "hold":
        held = config.learning_rate
        if held == saved.config.learning_rate:
            held = saved.content["optimizer"]["param_groups"][0]["lr"]
        return replace(config, schedule="constant", warmup_steps=0, schedule_start=0, learning_rate=held).validate()
    if rate == "restart":
        first = Fork("", saved, config).first_step
        return replace(config, schedule_start=first).validate()
    return config.validate()


def carries_optimizer(before: TrainConfig, after: TrainConfig) -> bool:
    """True when the optimizer keeps its memory (momentum, squared gradients): another rule could not use it."""
    return before.optimizer == after.optimizer


def forked(made: Fork, *, beside_pages: bool) -> TrainState:
    """The state of a fork before its first update: with unchanged settings it continues its parent bit for bit.

    Scores start anew: the best weights of a fork are its own.

    Raises:
        DeviceError: the device is not here. CheckpointError: the state does not fit its settings.
    """
    saved, config = made.saved, made.config
    before = saved.config
    same_machine = all(getattr(config, name) == getattr(before, name) for name in _MACHINE)
    try:
        here = replace(config, **{name: saved.content[name] for name in _MACHINE}) if same_machine else config
        state = new_state(here, beside_pages=beside_pages)
    except DeviceError:
        if not same_machine or config.device != "auto":
            raise
        state = new_state(config, beside_pages=beside_pages)  # trained on a device that is not here: "auto" takes what is
    state.config = config
    try:
        state.model.load_state_dict(saved.content["model"])
        if carries_optimizer(before, config):
            groups = state.optimizer.state_dict()["param_groups"]
            state.optimizer.load_state_dict({**optimizer_state(saved.content["optimizer"], state), "param_groups": groups})
        if saved.content["precision"] == state.precision:
            state.scaler.load_state_dict(copied(saved.content["scaler"]))
        state.step = made.first_step
        _take_over_plateau(state, saved)
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"The saved state of step {saved.step:,} does not fit its settings: {error}") from error
    state.epoch, state.batch = _place(saved, config)
    state.validated_step = saved.content["validated_step"] if state.step == saved.step else state.step
    return state


def _place(saved: SavedState, config: TrainConfig) -> tuple[int, int]:
    """Epoch and batch from which to go on: of an epoch in progress as many digits count as seen as fill whole updates."""
    before, epoch, batch = saved.config, saved.content["epoch"], saved.content["batch"]
    if before.steps_per_epoch() == config.steps_per_epoch() and before.batch_size == config.batch_size:
        return epoch, batch
    if batch >= before.batches_per_epoch():
        return epoch + 1, 0
    seen = batch * before.batch_size // config.batch_size
    return epoch, seen // config.accumulation_steps * config.accumulation_steps


def _take_over_plateau(state: TrainState, saved: SavedState) -> None:
    """A plateau schedule goes on where it stood when nothing of it was changed."""
    if any(getattr(state.config, name) != getattr(saved.config, name) for name in _PLATEAU):
        return
    for name in PLATEAU_STATE:
        setattr(state, name, saved.content[name])
    if state.config.validations_per_epoch != saved.config.validations_per_epoch:
        state.plateau_stale = 0  # patience counts validations, and those come at other times now
