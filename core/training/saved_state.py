"""A whole training state on disk, from which a run goes on bit for bit.

No generator is saved: every random number follows from the seed and the place in the run (core/randomness.py), so the place is
enough.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from core.config.train_config import PRECISIONS, TrainConfig
from core.errors import CheckpointError, DeviceError
from core.events import DEVICE, MAX_THREADS
from core.model.checkpoint_file import read_checkpoint, write_checkpoint
from core.model.fit import differences
from core.model.weights import copy_weights
from core.training.nonfinite import MAX_SKIPPED_UPDATES
from core.training.state import TrainState, new_state

FORMAT, VERSION = "digit-lab-training-state", 2
# New in version 2; version 1 held the state_dicts of two schedulers instead.
PLATEAU_STATE = ("plateau_factor", "plateau_best", "plateau_stale")
# What of a TrainState is a plain value.
_PLAIN = (
    "step",
    "epoch",
    "batch",
    "seconds",
    "skipped_updates",
    "lowest_loss",
    "validated_step",
    "stale_validations",
    "best_step",
    *PLATEAU_STATE,
)
_NEEDED = (
    *_PLAIN,
    "device",
    "precision",
    "threads",
    "model",
    "optimizer",
    "scaler",
    "best_score",
    "best_weights",
)


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
        "optimizer": copied(state.optimizer.state_dict()),
        "scaler": state.scaler.state_dict(),
        "best_score": list(state.best_score),
        "best_weights": state.best_weights,
        **{name: getattr(state, name) for name in _PLAIN},
    }
    write_checkpoint(path, content, durable=durable)


def copied(value: Any) -> Any:
    """Nested plain values with every tensor as an independent copy on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    return type(value)(copied(one) for one in value) if isinstance(value, list | tuple) else value


def load_state(path: Path) -> SavedState:
    """Read a training state, every plain value checked for its kind and range, as a form's would be. Raises CheckpointError."""
    content = read_checkpoint(path, FORMAT, (1, VERSION), [name for name in _NEEDED if name not in PLATEAU_STATE])
    content = {**_plateau_of_version_1(content), **content}
    if missing := [name for name in PLATEAU_STATE if name not in content]:
        raise CheckpointError(f"{path.name} holds no {missing[0]}.")
    if problem := _problem(content, content["config"]):
        raise CheckpointError(f"{path.name} holds {problem}.")
    return SavedState(content["config"], content)


def _plateau_of_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """What the schedulers of a state of version 1 had kept, as version 2 names it; {} for a later one."""
    if content["version"] != 1:
        return {}
    plateau = given if isinstance(given := content.get("plateau"), dict) else {}
    groups = content["optimizer"].get("param_groups") if isinstance(content["optimizer"], dict) else None
    group = groups[0] if isinstance(groups, list) and groups and isinstance(groups[0], dict) else {}
    return {
        "plateau_factor": group.get("plateau_factor", 1.0),
        "plateau_best": plateau.get("best", math.inf),
        "plateau_stale": plateau.get("num_bad_epochs", 0),
    }


def _problem(content: dict[str, Any], config: TrainConfig) -> str:
    """What no state of a training has, in words; "" when all is well."""
    step = content["step"]
    whole = {
        "epoch": config.epochs,
        "batch": config.batches_per_epoch(),
        "skipped_updates": MAX_SKIPPED_UPDATES,
        "validated_step": step,
        "best_step": step,
        "stale_validations": step + 1,
        "plateau_stale": step + 1,
        "threads": MAX_THREADS,
    }
    for name, highest in whole.items():
        if type(value := content[name]) is not int or not 0 <= value <= highest:
            return f"{name} {value!r:.40}, where 0 to {highest:,} can be"
    if not content["threads"]:
        return "threads 0, where 1 or more can be"
    if not _is_number(content["seconds"], least=0.0) or not math.isfinite(content["seconds"]):
        return f"seconds {content['seconds']!r:.40}, where a time can be"
    if not _is_number(content["plateau_factor"], least=0.0) or content["plateau_factor"] > 1:
        return f"plateau_factor {content['plateau_factor']!r:.40}, where a share can be"
    if not _is_number(content["plateau_best"]):
        return f"plateau_best {content['plateau_best']!r:.40}, where a loss can be"
    if not _is_number(content["lowest_loss"]):
        return f"lowest_loss {content['lowest_loss']!r:.40}, where a loss can be"
    if not isinstance(device := content["device"], str) or not DEVICE.fullmatch(device):
        return f"device {device!r:.40}, which no training has"
    if content["precision"] not in PRECISIONS[1:]:
        return f"precision {content['precision']!r:.40}, which no training has"
    if problem := _optimizer_problem(content["optimizer"]):
        return problem
    score = content["best_score"]
    if not isinstance(score, list) or len(score) != 2 or not all(map(_is_number, score)):
        return f"best_score {score!r:.40}, where accuracy and loss can be"
    for name in ("model", "best_weights"):
        if not isinstance(content[name], dict) or not all(isinstance(one, Tensor) for one in content[name].values()):
            return f"{name} that are no weights"
    if content["best_weights"] and differences(content["best_weights"], content["model"]):
        return "best_weights of another network"
    return ""


def _is_number(value: Any, least: float = -math.inf) -> bool:
    """A float or whole number that is not NaN; infinities count."""
    return type(value) in (int, float) and value >= least


def restored(saved: SavedState) -> TrainState:
    """The state as it was, on the device it was on, with its precision and threads.

    Raises:
        DeviceError: that device is not here. CheckpointError: the values do not fit the settings.
    """
    content, config = saved.content, saved.config
    exact = replace(config, device=content["device"], precision=content["precision"], threads=content["threads"])
    try:
        state = new_state(exact)
    except DeviceError as error:
        raise DeviceError(
            f"This run was trained on {content['device']} with {content['threads']} threads, and goes on bit for "
            f"bit only so. {error} Or fork it: a fork goes on with what this machine "
            "has."
        ) from error
    state.config = config
    try:
        state.model.load_state_dict(content["model"])
        state.optimizer.load_state_dict(optimizer_state(content["optimizer"], state))
        state.scaler.load_state_dict(_of_same_kind(content["scaler"], state.scaler.state_dict()))
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"The saved state of step {saved.step:,} does not fit its settings: {error}") from error
    state.best_score = tuple(content["best_score"])
    state.best_weights = {name: value.clone() for name, value in content["best_weights"].items()}
    for name in _PLAIN:
        setattr(state, name, content[name])
    return state


def optimizer_state(given: Any, state: TrainState) -> dict[str, Any]:
    """An optimizer's saved state as a copy of its own (`load_state_dict` would keep the very tensors, and the next step would
    change them in the file's content, too), held against what this optimizer has. Raises ValueError."""
    fresh = state.optimizer.state_dict()
    parameters = list(state.model.parameters())
    groups = given["param_groups"]
    if len(groups) != len(fresh["param_groups"]):
        raise ValueError("the optimizer has another number of parameter groups")
    kept = [_of_same_kind(group, own) for group, own in zip(groups, fresh["param_groups"], strict=True)]
    for group, own in zip(kept, fresh["param_groups"], strict=True):
        if group["params"] != own["params"] or not 0 <= group["lr"] < math.inf:
            raise ValueError("the optimizer's groups are not those of this network")
    for index, values in given["state"].items():
        if type(index) is not int or not 0 <= index < len(parameters) or not isinstance(values, dict):
            raise ValueError(f"the optimizer keeps something for a parameter {index!r:.20}")
        for name, value in values.items():
            if isinstance(value, Tensor) and value.dim() and value.shape != parameters[index].shape:
                raise ValueError(f"the optimizer's {name} of parameter {index} is {tuple(value.shape)}")
    return {"state": copied(given["state"]), "param_groups": kept}


def _of_same_kind(given: Any, own: dict[str, Any]) -> dict[str, Any]:
    """Those values of a saved dictionary that the living one has too, of the same kinds. Raises ValueError."""
    if not isinstance(given, dict):
        raise ValueError(f"{type(given).__name__} where a dictionary belongs")
    for name, value in own.items():
        if name not in given:
            raise ValueError(f"{name} is missing")
        if not _alike(given[name], value):
            raise ValueError(f"{name} is {given[name]!r:.40}")
    return {name: copied(given[name]) for name in own}


def _optimizer_problem(optimizer: Any) -> str:
    groups = optimizer.get("param_groups") if isinstance(optimizer, dict) else None
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return "no state of an optimizer"
    rate = groups[0].get("lr")
    return (
        "" if isinstance(rate, int | float) and 0 <= rate < math.inf else f"a learning rate {rate!r:.40}, where a number can be"
    )


def _alike(value: Any, own: Any) -> bool:
    numbers = (bool, int, float, type(None))
    if isinstance(own, numbers):
        return isinstance(value, numbers)
    if isinstance(own, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(own)
        return same and all(map(_alike, value, own))
    return type(value) is type(own)
