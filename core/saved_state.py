"""A whole training state on disk, from which a run goes on bit for bit.

No generator is saved: every random number follows from the seed and the place in the run (core/randomness.py), so the place is
enough.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from core.checkpoints import read_checkpoint, write_checkpoint
from core.config import TrainConfig
from core.errors import CheckpointError
from core.run_store import saved_states
from core.train_loop import TrainState, copy_weights, new_state

FORMAT, VERSION = "digit-lab-training-state", 1
# What of a TrainState is a plain value.
_PLAIN = ("step", "epoch", "batch", "seconds", "skipped_updates", "lowest_loss", "validated_step", "stale_validations",
          "best_step")  # fmt: skip
_NEEDED = (*_PLAIN, "device", "precision", "threads", "model", "optimizer", "schedule", "plateau", "scaler", "best_score",
           "best_weights")  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedState:
    """What `load_state` read.

    Attributes:
        content: all of it; see `save_state`.
    """

    config: TrainConfig
    content: dict[str, Any]

    @property
    def step(self) -> int:
        """Finished updates."""
        return self.content["step"]


def save_state(path: Path, state: TrainState, *, durable: bool = True) -> None:
    """Write everything that training changes, and the device, precision and threads it was trained with.

    Call it between two events of `train`, after `take_pending`: steps that were not reported yet are not in it.

    Raises:
        CheckpointError: the file could not be written.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "config": state.config.to_dict(),
        "device": str(state.device),
        "precision": state.precision,
        "threads": state.threads,
        "model": copy_weights(state.model),
        "optimizer": _on_cpu(state.optimizer.state_dict()),
        "schedule": state.schedule.state_dict(),
        "plateau": state.plateau.state_dict() if state.plateau is not None else None,
        "scaler": state.scaler.state_dict(),
        "best_score": list(state.best_score),
        "best_weights": state.best_weights,
        **{name: getattr(state, name) for name in _PLAIN},
    }
    write_checkpoint(path, content, durable=durable)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _on_cpu(one) for key, one in value.items()}
    return [_on_cpu(one) for one in value] if isinstance(value, list) else value


def load_state(path: Path) -> SavedState:
    """Read a training state, checked. Raises CheckpointError."""
    content = read_checkpoint(path, FORMAT, VERSION, _NEEDED)
    return SavedState(content["config"], content)


def restored(saved: SavedState) -> TrainState:
    """The state as it was, on the device it was on, with its precision and threads.

    Raises:
        DeviceError: that device is not here. CheckpointError: the values do not fit the settings.
    """
    content, config = saved.content, saved.config
    exact = replace(config, device=content["device"], precision=content["precision"], threads=content["threads"])
    state = new_state(exact)
    state.config = config
    try:
        state.model.load_state_dict(content["model"])
        state.optimizer.load_state_dict(content["optimizer"])
        state.schedule.load_state_dict(content["schedule"])
        if state.plateau is not None:
            state.plateau.load_state_dict(content["plateau"])
        state.scaler.load_state_dict(content["scaler"])
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"The saved state of step {saved.step:,} does not fit its settings: {error}") from error
    state.best_score = tuple(content["best_score"])
    state.best_weights = content["best_weights"]
    for name in _PLAIN:
        setattr(state, name, content[name])
    return state


def newest_state(run: Path, up_to: int | None = None) -> SavedState:
    """The last state that is whole; `up_to`: of this step or before.

    Raises:
        CheckpointError: there is none, or all are damaged; says which and why.
    """
    problems = []
    for step, path in reversed(saved_states(run).items()):
        if up_to is not None and step > up_to:
            problems.append(f"{path.name} is of a step whose metrics are missing: they reach to step {up_to:,}. Fork it.")
            continue
        try:
            found = load_state(path)
            if found.step == step:
                return found
            problems.append(f"{path.name} holds the state of step {found.step:,}.")
        except CheckpointError as error:
            problems.append(str(error))
    raise CheckpointError(f"Run {run.name} keeps no state to go on from. {' '.join(problems)}".strip())


def thin_out(run: Path, keep: int, best_step: int = 0) -> None:
    """Delete all but the `keep` newest states; those a person asked for stay, and so does that of the best validation."""
    automatic = [
        path for step, path in saved_states(run).items() if not path.stem.endswith("-kept") and not 0 < step == best_step
    ]
    for path in automatic[: max(0, len(automatic) - keep)]:
        with suppress(OSError):  # it is in the way of nobody
            path.unlink()


def forget_after(run: Path, step: int) -> None:
    """Delete the states after a step that a run goes on from; those a person asked for stay.

    They are damaged, or of steps that are trained again, and would count as the newest.
    """
    for later, path in saved_states(run).items():
        if later > step and not path.stem.endswith("-kept"):
            with suppress(OSError):
                path.unlink()


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested dictionaries and lists as one dictionary with names such as state.0.exp_avg."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if entries is None:
        return {name: value}
    return {key: one for place, part in entries for key, one in flat(part, f"{name}.{place}".lstrip(".")).items()}
