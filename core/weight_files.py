"""Weights as files for other programs, and files from elsewhere as weights: nothing in them is executed.

Three ways out, each with the lines that load it without this project: a state_dict (the recommended one), the whole model
(pickled, so whoever loads it runs what is in it), and safetensors (no code at all, other languages read it too).
"""

import functools
import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from core.checkpoints import MAX_STEP
from core.config import MODEL_NAMES, TrainConfig
from core.errors import CheckpointError, CoreError
from core.model_fit import COUNTER, counters_note, differences, weights_problems, with_counters
from core.models import Dropout, build_model, outline
from core.safe_load import MoreThanWeightsError, load_plain

MAX_FILE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20
_MAX_HEADER_BYTES = 2**20  # of safetensors: JSON that is read before anything else
_WRAPPERS = ("state_dict", "model_state_dict", "weights", "model")
MAX_NAME = 300
_PREFIXES = ("module", "_orig_mod")  # of DataParallel and of torch.compile


class WeightFormat(StrEnum):
    """The ways to take weights along."""

    STATE_DICT = "state_dict"
    WHOLE_MODEL = "whole_model"
    SAFETENSORS = "safetensors"
    TUTORIAL = "tutorial"


FILE_NAMES = {
    WeightFormat.STATE_DICT: "weights.pt",
    WeightFormat.WHOLE_MODEL: "model.pt",
    WeightFormat.SAFETENSORS: "weights.safetensors",
    WeightFormat.TUTORIAL: "model_weights.pth",
}
# The network of many PyTorch guides, written as they write it: the same layers as simple_cnn under other names. (Pooling after
# ReLU there and before it here give the same values.)
TUTORIAL_NAMES = {
    "conv1.weight": "features.0.weight",
    "conv1.bias": "features.0.bias",
    "conv2.weight": "features.3.weight",
    "conv2.bias": "features.3.bias",
    "output.weight": "classifier.weight",
    "output.bias": "classifier.bias",
}
_TUTORIAL_SOURCE = """class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(64 * 7 * 7, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))
"""


def formats_of(config: TrainConfig) -> list[WeightFormat]:
    """The ways in which a network's weights can leave: the guides' names fit one network only."""
    return [kind for kind in WeightFormat if kind != WeightFormat.TUTORIAL or config.model == "simple_cnn"]


def packed(kind: WeightFormat, weights: dict[str, Tensor], config: TrainConfig) -> bytes:
    """The bytes of a file: weights with buffers, on the CPU."""
    weights = {name: value.contiguous() for name, value in weights.items()}
    if kind == WeightFormat.SAFETENSORS:
        # The format has no checksum of its own: without one a flipped byte would go unnoticed.
        metadata = {"format": "pt", "model": config.model, "sha256": tensors_digest(weights)}
        return safetensors.torch.save(weights, metadata)
    if kind == WeightFormat.TUTORIAL:
        weights = {other: weights[name] for name, other in TUTORIAL_NAMES.items()}
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
        if kind == WeightFormat.TUTORIAL:
            head, load = "import torch\nfrom torch import nn\n", f"\n{_TUTORIAL_SOURCE}\n\nmodel = SimpleCNN()\n"
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
    known = {name for model in MODEL_NAMES for name in outline(TrainConfig(model=model)).state_dict()}
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
            raise CheckpointError(f"{shown} holds two tensors that would both be called {plain[:60]!r}: "
                                  f"{by_plain[plain][:60]!r} and {name[:60]!r}. Save one model's state_dict().")  # fmt: skip
        by_plain[plain] = name
    return {plain: tensors[name] for plain, name in by_plain.items()}


def _common_part(names: Iterable[str]) -> str:
    """The first part of all names when they share it and each has more parts; else ""."""
    firsts = {name.partition(".")[0] if "." in name else "" for name in names}
    return firsts.pop() if len(firsts) == 1 else ""


def _fitted(tensors: dict[str, Tensor], config: TrainConfig | None, step: int, shown: str, notes: list[str]) -> FoundWeights:
    """The network that tensors belong to, by their names; failing that, by their shapes and order. Raises CheckpointError."""
    names = (config.model,) if config is not None else MODEL_NAMES
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
            notes.append("Matched by shape and order, since the names are others: "
                         + ", ".join(f"{ours} is {theirs}" for ours, theirs in match.items())
                         + ". Whether the layers between them do the same cannot be seen from a file: look at the accuracy on "
                           "test digits.")  # fmt: skip
            filled, missing = with_counters({ours: tensors[theirs] for ours, theirs in match.items()}, expected)
            weights = _as_expected(filled, expected, shown, notes)
            return FoundWeights(weights, config or replace(TrainConfig(), model=model), step,
                                (*notes, *counters_note(missing)))  # fmt: skip
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
                raise CheckpointError(f"{name} in {shown} holds {_dtype(value)} where {_dtype(wanted)} belongs: these are no "
                                      "weights of this network (quantised ones cannot be read).")  # fmt: skip
            changed.append(f"{name} ({_dtype(value)})")
        weights[name] = value.to(wanted.dtype)
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        notes.append(f"Number formats were changed to those of the network: {', '.join(changed[:3])}{more}.")
    notes += weights_problems(weights)
    return weights


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
