"""Weights as files for other programs, and files from elsewhere as weights: nothing in them is executed.

Three ways out, each with the lines that load it without this project: a state_dict (the recommended one), the whole model
(pickled, so whoever loads it runs what is in it), and safetensors (no code at all, other languages read it too).
"""

import functools
import hashlib
import io
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from core.config import MODEL_NAMES, TrainConfig
from core.errors import CheckpointError
from core.models import Dropout, build_model, outline
from core.safe_load import MoreThanWeightsError, load_plain

MAX_FILE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20
_WRAPPERS = ("state_dict", "model_state_dict", "weights", "model")
_PREFIXES = ("module", "_orig_mod")  # of DataParallel and of torch.compile


class WeightFormat(StrEnum):
    """The ways to take weights along."""

    STATE_DICT = "state_dict"
    WHOLE_MODEL = "whole_model"
    SAFETENSORS = "safetensors"


FILE_NAMES = {
    WeightFormat.STATE_DICT: "weights.pt",
    WeightFormat.WHOLE_MODEL: "model.pt",
    WeightFormat.SAFETENSORS: "weights.safetensors",
}


def packed(kind: WeightFormat, weights: dict[str, Tensor], config: TrainConfig) -> bytes:
    """The bytes of a file: weights with buffers, on the CPU."""
    weights = {name: value.contiguous() for name, value in weights.items()}
    if kind == WeightFormat.SAFETENSORS:
        # The format has no checksum of its own: without one a flipped byte would go unnoticed.
        metadata = {"format": "pt", "model": config.model, "sha256": tensors_digest(weights)}
        return safetensors.torch.save(weights, metadata)
    target = io.BytesIO()
    torch.save(plain_model(config, weights) if kind == WeightFormat.WHOLE_MODEL else weights, target)
    return target.getvalue()


def plain_model(config: TrainConfig, weights: dict[str, Tensor]) -> nn.Module:
    """The network in eval mode, of PyTorch's own classes only, so that no file of this project is needed to load it."""
    model = build_model(config)
    for name, module in model.named_children():
        if isinstance(module, Dropout):
            setattr(model, name, nn.Dropout(module.p))
    model.load_state_dict(weights)
    return model.eval()


def network_source(config: TrainConfig) -> str:
    """The network as Python code that needs torch alone: an expression of nn.Sequential."""
    layers = [f'        ("{name}", nn.{module}),' for name, module in outline(config).named_children()]
    return "nn.Sequential(\n    OrderedDict([\n" + "\n".join(layers) + "\n    ])\n)"


@functools.lru_cache(maxsize=32)
def loading_lines(kind: WeightFormat, config: TrainConfig) -> str:
    """A plain script that loads such a file and answers for one image; torch alone (and safetensors) is needed."""
    name = FILE_NAMES[kind]
    if kind == WeightFormat.WHOLE_MODEL:
        head = "import torch\n"
        load = (
            "# weights_only=False runs whatever the file holds: only for files you trust.\n"
            f'model = torch.load("{name}", weights_only=False)\n'
        )
    else:
        head = "from collections import OrderedDict\n\nimport torch\nfrom torch import nn\n"
        load = f"model = {network_source(config)}\n"
        if kind == WeightFormat.SAFETENSORS:
            head = head.replace("import torch\n", "import torch\nfrom safetensors.torch import load_file\n", 1)
            load += f'model.load_state_dict(load_file("{name}"))\n'
        else:
            load += f'model.load_state_dict(torch.load("{name}", weights_only=True))\n'
    return head + f"""
{load}model.eval()

image = torch.zeros(1, 1, 28, 28)  # pixels from 0 to 1; here a black image
with torch.no_grad():
    print(model((image - 0.1307) / 0.3081).softmax(1))
"""  # fmt: skip


def tensors_digest(weights: dict[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


# --- files from elsewhere ----------------------------------------------------------------------------------------------


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
    DataParallel and torch.compile.

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
    tensors = _plain_names(_tensors(loaded, shown), notes)
    return _fitted(tensors, config, step, shown, notes)


def _is_safetensors(content: bytes) -> bool:
    length = int.from_bytes(content[:8], "little")
    return 2 <= length <= len(content) - 8 and content[8:9] == b"{"


def _safetensors(content: bytes, shown: str) -> dict[str, Any]:
    try:
        tensors = safetensors.torch.load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except (safetensors.SafetensorError, ValueError, AttributeError, RuntimeError, KeyError) as error:
        raise CheckpointError(f"{shown} is a damaged safetensors file ({error}).") from error
    if metadata.get("sha256") not in (None, tensors_digest(tensors)):
        raise CheckpointError(f"{shown} was altered or damaged: its digest does not fit its content.")
    return tensors


def _torch_file(content: bytes, shown: str, allow_pickle: bool) -> Any:
    if not content.startswith((b"PK", b"\x80")):  # a zip archive, or a pickle of older versions
        raise CheckpointError(f"{shown} is no file with weights: it begins with none of PyTorch's marks.")
    try:
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
    try:
        return TrainConfig.from_dict(loaded["config"]), int(loaded["step"])
    except Exception:
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


def _plain_names(tensors: dict[str, Tensor], notes: list[str]) -> dict[str, Tensor]:
    """Without the parts that DataParallel and torch.compile put into names, wherever they stand."""
    named = {".".join(part for part in name.split(".") if part not in _PREFIXES): value for name, value in tensors.items()}
    if named.keys() != tensors.keys():
        notes.append("The prefixes module. and _orig_mod. (DataParallel, torch.compile) were taken off the names.")
    return named


def _fitted(tensors: dict[str, Tensor], config: TrainConfig | None, step: int, shown: str, notes: list[str]) -> FoundWeights:
    names = (config.model,) if config is not None else MODEL_NAMES
    problems: dict[str, list[str]] = {}
    for model in names:
        expected = dict(build_model(TrainConfig(model=model)).state_dict())
        counters = [key for key in expected if key.endswith("num_batches_tracked") and key not in tensors]
        filled = tensors | {key: torch.zeros_like(expected[key]) for key in counters}
        found = _differences(filled, expected)
        if not found:
            if counters:
                notes.append("num_batches_tracked was missing and is taken as 0; only momentum None needs it.")
            weights = {key: filled[key].to(expected[key].dtype) for key in expected}
            if bad := [key for key, value in weights.items() if not bool(torch.isfinite(value).all())]:
                notes.append(f"Not finite: {', '.join(bad[:3])}.")
            return FoundWeights(weights, config or replace(TrainConfig(), model=model), step, tuple(notes))
        problems[model] = found
    model, found = min(problems.items(), key=lambda entry: len(entry[1]))
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    raise CheckpointError(
        f"The weights in {shown} fit none of the networks here. Closest is {model}: {'; '.join(found[:4])}{more}."
    )


def _differences(found: dict[str, Tensor], expected: dict[str, Tensor]) -> list[str]:
    differing = [f"{name[:60]!r} is not known" for name in found if name not in expected]
    differing += [f"{name} is missing" for name in expected if name not in found]
    return differing + [
        f"{name} is {tuple(found[name].shape)} instead of {tuple(value.shape)}"
        for name, value in expected.items()
        if name in found and found[name].shape != value.shape
    ]
