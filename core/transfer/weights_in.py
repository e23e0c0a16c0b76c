"""Weights as files for other programs, and files from elsewhere as weights: nothing in them is executed.

Three ways out, each with the lines that load it without this project: a state_dict (the recommended one), the whole model
(pickled, so whoever loads it runs what is in it), and safetensors (no code at all, other languages read it too).
"""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.errors import CheckpointError, CoreError
from core.model.checkpoint_file import MAX_STEP
from core.model.fit import COUNTER, counters_note, differences, weights_problems, with_counters
from core.model.networks import outline
from core.storage.torch_files import MoreThanWeightsError, load_plain
from core.transfer.weights_out import tensors_digest

MAX_FILE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20
_MAX_HEADER_BYTES = 2**20  # of safetensors: JSON that is read before anything else
_WRAPPERS = ("state_dict", "model_state_dict", "weights", "model")
MAX_NAME = 300
_PREFIXES = ("module", "_orig_mod")  # of DataParallel and of torch.compile


@dataclass(frozen=True, eq=False)
class FoundWeights:
    """Weights from a file, fitting one of our networks.

    Attributes:
        config: names the network; other settings are defaults unless the file says them. step: updates made, 0 when unknown.
        notes: what was taken off, filled in or could not be checked, in words.
    """

    weights: dict[str, Tensor]
    config: TrainConfig
    step: int
    notes: tuple[str, ...]


def read_weights(content: bytes, name: str, *, allow_pickle: bool = False) -> FoundWeights:
    """Read a file that somebody gave: a checkpoint of ours, a state_dict, safetensors; from any device, with the prefixes of
    DataParallel, torch.compile and Lightning, or under other names in the same order (see `_fitted`).

    Args:
        name: what the file is called, for messages only; it is never used as a path.
        allow_pickle: run what a whole-model file holds; only when the person who runs the server has allowed it.

    Raises:
        CheckpointError: too large, damaged, no weights, or of another architecture (says which keys and shapes differ).
    """
    shown = repr(name)[1:-1][:60]
    if not content:
        raise CheckpointError(f"{shown} is empty.")
    if len(content) > MAX_FILE_BYTES:
        raise CheckpointError(f"{shown} has {len(content):,} bytes; at most {MAX_FILE_BYTES:,} are read.")
    notes: list[str] = []
    loaded = _safetensors(content, shown) if _is_safetensors(content) else _torch_file(content, shown, allow_pickle)
    config, step = _origin(loaded)
    tensors = _plain_names(_tensors(loaded, shown), shown, notes)
    return _fitted(tensors, config, step, shown, notes)


def _is_safetensors(content: bytes) -> bool:
    length = int.from_bytes(content[:8], "little")
    return 2 <= length <= len(content) - 8 and content[8:9] == b"{"


def _safetensors(content: bytes, shown: str) -> dict[str, Any]:
    length = int.from_bytes(content[:8], "little")
    if length > _MAX_HEADER_BYTES:
        raise CheckpointError(f"{shown} has a header of {length:,} bytes; at most {_MAX_HEADER_BYTES:,} are read.")
    try:
        tensors = safetensors.torch.load(content)
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except (safetensors.SafetensorError, ValueError, AttributeError, RuntimeError, KeyError) as error:
        raise CheckpointError(f"{shown} is a damaged safetensors file ({error}).") from error
    if not isinstance(metadata, dict) or metadata.get("sha256") not in (None, tensors_digest(tensors)):
        raise CheckpointError(f"{shown} was altered or damaged: its digest does not fit its content.")
    return tensors


def _torch_file(content: bytes, shown: str, allow_pickle: bool) -> Any:
    if not content.startswith((b"PK", b"\x80")):  # a zip archive, or a pickle of older versions
        raise CheckpointError(f"{shown} is no file with weights: it begins with none of PyTorch's marks.")
    try:
        if allow_pickle and not content.startswith(b"PK"):
            return _unpickled(content, shown)
        return load_plain(content, shown, limit=MAX_UNPACKED_BYTES)
    except MoreThanWeightsError as error:
        if allow_pickle:
            return _unpickled(content, shown)
        raise CheckpointError(
            f"{shown} holds more than weights (a whole model, or objects of other classes). Loading it would run code from the "
            "file, so it is refused. Save model.state_dict() instead; or, for files you trust, let the person who runs this "
            "server set DIGIT_LAB_ALLOW_PICKLE=1."
        ) from error


def _unpickled(content: bytes, shown: str) -> Any:
    try:
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    except Exception as error:
        raise CheckpointError(f"{shown} cannot be loaded ({type(error).__name__}: {error}).") from error
    return loaded.state_dict() if isinstance(loaded, nn.Module) else loaded


def _origin(loaded: Any) -> tuple[TrainConfig | None, int]:
    """The settings and the step that a checkpoint of ours names."""
    if not isinstance(loaded, dict) or not str(loaded.get("format", "")).startswith("digit-lab-"):
        return None, 0
    step = loaded.get("step")
    try:
        return TrainConfig.from_dict(loaded["config"]), step if type(step) is int and 0 <= step <= MAX_STEP else 0
    except (CoreError, KeyError, TypeError):
        return None, 0


def _tensors(loaded: Any, shown: str) -> dict[str, Tensor]:
    """The dictionary of tensors within what was loaded, out of the usual wrappings."""
    for _ in range(3):
        if not isinstance(loaded, dict):
            break
        if loaded and all(isinstance(value, Tensor) for value in loaded.values()):
            return {str(name): value.detach() for name, value in loaded.items()}
        loaded = next((loaded[key] for key in _WRAPPERS if isinstance(loaded.get(key), dict)), None)
    raise CheckpointError(f"{shown} holds no dictionary of weights. Save model.state_dict().")


def _plain_names(tensors: dict[str, Tensor], shown: str, notes: list[str]) -> dict[str, Tensor]:
    """Without the parts that wrappers put into names: DataParallel and torch.compile anywhere, others (Lightning's `model.`)
    before all of them. Raises CheckpointError when two names would become one."""
    if longest := next((name for name in tensors if len(name) > MAX_NAME), None):
        raise CheckpointError(
            f"{shown} has a tensor whose name has {len(longest):,} characters; at most {MAX_NAME} belong there."
        )
    without = {name: ".".join(part for part in name.split(".") if part not in _PREFIXES) for name in tensors}
    if list(without) != list(without.values()):
        notes.append("The prefixes module. and _orig_mod. (DataParallel, torch.compile) were taken off the names.")
    known = {name for model in MODELS for name in outline(TrainConfig(model=model)).state_dict()}
    shorter, taken = without, ""
    while not known & set(shorter.values()) and (first := _common_part(shorter.values())):
        shorter = {name: plain.partition(".")[2] for name, plain in shorter.items()}
        taken += f"{first}."
    if taken and known & set(shorter.values()):
        without = shorter
        notes.append(f"The prefix {taken} before all names was taken off.")
    by_plain: dict[str, str] = {}
    for name, plain in without.items():
        if plain in by_plain:
            raise CheckpointError(
                f"{shown} holds two tensors that would both be called {plain[:60]!r}: "
                f"{by_plain[plain][:60]!r} and {name[:60]!r}. Save one model's state_dict()."
            )
        by_plain[plain] = name
    return {plain: tensors[name] for plain, name in by_plain.items()}


def _common_part(names: Iterable[str]) -> str:
    """The first part of all names when they share it and each has more parts; else ""."""
    firsts = {name.partition(".")[0] if "." in name else "" for name in names}
    return firsts.pop() if len(firsts) == 1 else ""


def _fitted(tensors: dict[str, Tensor], config: TrainConfig | None, step: int, shown: str, notes: list[str]) -> FoundWeights:
    """The network that tensors belong to, by their names; failing that, by their shapes and order. Raises CheckpointError."""
    names = (config.model,) if config is not None else tuple(MODELS)
    problems: dict[str, list[str]] = {}
    for model in names:
        expected = dict(outline(TrainConfig(model=model)).state_dict())
        filled, missing = with_counters(tensors, expected)
        found = differences(filled, expected)
        if not found:
            chosen = config or replace(TrainConfig(), model=model)
            return FoundWeights(_as_expected(filled, expected, shown, notes), chosen, step, (*notes, *counters_note(missing)))
        problems[model] = found
    for model in names:
        expected = dict(outline(TrainConfig(model=model)).state_dict())
        if match := _by_shape(tensors, expected):
            notes.append(
                "Matched by shape and order, since the names are others: "
                + ", ".join(f"{ours} is {theirs}" for ours, theirs in match.items())
                + ". Whether the layers between them do the same cannot be seen from a file: look at the accuracy on "
                "test digits."
            )
            filled, missing = with_counters({ours: tensors[theirs] for ours, theirs in match.items()}, expected)
            weights = _as_expected(filled, expected, shown, notes)
            return FoundWeights(weights, config or replace(TrainConfig(), model=model), step, (*notes, *counters_note(missing)))
    model, found = min(problems.items(), key=lambda entry: len(entry[1]))
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    raise CheckpointError(
        f"The weights in {shown} fit none of the networks here. Closest is {model}: {'; '.join(found[:4])}{more}."
    )


def _by_shape(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, str]:
    """Our name -> the file's, where the last part of the name and the shape agree, in the order of the file; {} when they
    are not the same tensors."""
    wanted = {name: value for name, value in expected.items() if not name.endswith(COUNTER)}
    given = {name: value for name, value in tensors.items() if not name.endswith(COUNTER)}

    def grouped(some: dict[str, Tensor]) -> dict[tuple[str, torch.Size], list[str]]:
        groups: dict[tuple[str, torch.Size], list[str]] = {}
        for name, value in some.items():
            groups.setdefault((name.rpartition(".")[2], value.shape), []).append(name)
        return groups

    ours, theirs = grouped(wanted), grouped(given)
    if {key: len(names) for key, names in ours.items()} != {key: len(names) for key, names in theirs.items()}:
        return {}
    return {name: other for key, names in ours.items() for name, other in zip(names, theirs[key], strict=True)}


def _as_expected(tensors: dict[str, Tensor], expected: dict[str, Tensor], shown: str, notes: list[str]) -> dict[str, Tensor]:
    """In the order and the number formats of the network; what changes is noted, what cannot be meant is refused."""
    weights, changed = {}, []
    for name, wanted in expected.items():
        value = tensors[name]
        if value.dtype != wanted.dtype:
            if wanted.is_floating_point() != value.is_floating_point():
                raise CheckpointError(
                    f"{name} in {shown} holds {_dtype(value)} where {_dtype(wanted)} belongs: these are no "
                    "weights of this network (quantised ones cannot be read)."
                )
            changed.append(f"{name} ({_dtype(value)})")
        weights[name] = value.to(wanted.dtype)
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        notes.append(f"Number formats were changed to those of the network: {', '.join(changed[:3])}{more}.")
    notes += weights_problems(weights)
    return weights


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
