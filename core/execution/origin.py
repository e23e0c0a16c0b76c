"""What a run may start from when it does not start anew: a fork's or a lesson's parent, and whatever comes."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.config.train_config import TrainConfig

if TYPE_CHECKING:
    from core.data.sources import Digits
    from core.training.state import TrainState


class Origin(Protocol):
    """The start of a run, complete: once it is written into the run's folder the parent is not needed any more."""

    @property
    def parent(self) -> str:
        """The id of the run whose weights these are."""
        ...

    @property
    def parent_step(self) -> int:
        """Updates behind the weights, counted as the parent does."""
        ...

    @property
    def first_step(self) -> int:
        """Updates that the new run counts as made: 0, or the place at which it goes on."""
        ...

    def first_state(self, config: TrainConfig, *, beside_pages: bool) -> "TrainState":
        """The state before the new run's first update. Raises CheckpointError, DeviceError."""
        ...

    def drawings_for(self, runs_root: Path) -> "Digits | None":
        """Drawings to be learned besides the data set; None for none. Raises RunError."""
        ...
