"""A lesson: a run that starts from another run's weights and sees a person's drawings among the training digits."""

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from core.config.train_config import TrainConfig
from core.data.sources import Digits
from core.training.state import TrainState, new_state


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a run starts from, and what it is to learn besides its data set.

    Attributes:
        parent: the run's id. parent_step: updates behind the weights. weights: parameters and buffers.
        drawings: the labelled drawings, at least one.
    """

    parent: str
    parent_step: int
    weights: dict[str, Tensor]
    drawings: Digits

    @property
    def first_step(self) -> int:
        """Its own steps begin at 0: its schedule, batches and optimizer are new."""
        return 0

    def first_state(self, config: TrainConfig, *, beside_pages: bool) -> TrainState:
        """The parent's weights; everything else new."""
        state = new_state(config, beside_pages=beside_pages)
        state.model.load_state_dict(self.weights)
        return state

    def drawings_for(self, runs_root: Path) -> Digits | None:
        """What it teaches."""
        return self.drawings


def lesson_config(parent: TrainConfig, steps: int, learning_rate: float) -> TrainConfig:
    """The settings of a lesson: the parent's network and data, a constant low rate for so many steps. Raises ConfigError."""
    whole = replace(parent, train_size=None).split_sizes()[0]
    wanted = steps * parent.batch_size * parent.accumulation_steps
    train_size = min(whole, wanted)
    epochs = -(-wanted // train_size)
    return replace(
        parent,
        train_size=train_size,
        epochs=epochs,
        learning_rate=learning_rate,
        schedule="constant",
        warmup_steps=0,
        early_stopping_patience=None,
        validations_per_epoch=1,
        order="shuffled",
        optimizer="adam",
        weight_decay=0.0,
        schedule_start=0,  # a parent's schedule may begin after more steps than a lesson has
    ).validate()
