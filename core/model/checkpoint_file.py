"""Weights on disk: plain values only, written beside and renamed, with a digest over everything that was saved."""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.config.train_config import TrainConfig
from core.errors import CheckpointError, ConfigError
from core.storage.atomic import replace_bytes
from core.storage.torch_files import load_plain

MAX_BYTES = 512 * 2**20
MAX_STEP = 2**53


def write_checkpoint(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Write plain values and CPU tensors beside the file with a digest over them, and rename it over.

    Raises CheckpointError when the disk does not take it; an earlier file is then whole.
    """
    content = {**content, "digest": content_digest(content)}
    packed = io.BytesIO()
    torch.save(content, packed)  # in memory first: on a full disk torch's own writer names a place in its source, not the cause
    try:
        path.parent.mkdir(exist_ok=True)
        replace_bytes(path, packed.getbuffer(), durable=durable)
    except OSError as error:
        raise CheckpointError(
            f"{path.name} could not be saved in {path.parent}: {error.strerror or error}. An earlier one is whole."
        ) from error


def read_checkpoint(path: Path, expected: str, versions: Sequence[int], needed: Sequence[str]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote, checked, on the CPU; "config" becomes a TrainConfig.

    Args:
        expected, versions: what "format" must be, and "version" may be.
        needed: names that it must hold besides; "step" as a whole number.

    Raises:
        CheckpointError: missing, too large, damaged, altered, or another kind of file; nothing in it is executed.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CheckpointError(f"{path.name} has {size:,} bytes; the limit is {MAX_BYTES:,}.")
        packed = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    content = load_plain(packed, path.name, limit=MAX_BYTES)
    # By kind first: comparing a tensor gives a tensor, not an answer.
    if not isinstance(content, dict) or not isinstance(kind := content.get("format"), str) or kind != expected:
        raise CheckpointError(f"{path.name} is not a checkpoint of this dashboard.")
    if type(found := content.get("version")) is not int or found not in versions:
        known = " and ".join(map(str, versions))
        raise CheckpointError(f"{path.name} has format version {found!r:.20}; this one reads {known}.")
    try:
        fits = _same_text(content.pop("digest", None), content_digest(content))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path.name} holds values that no checkpoint of this dashboard has ({error}).") from error
    if not fits:
        raise CheckpointError(f"{path.name} was altered or damaged: its digest does not fit its content.")
    missing = [name for name in ("config", *needed) if name not in content]
    if missing or type(content["step"]) is not int or not 0 <= content["step"] <= MAX_STEP:
        raise CheckpointError(f"{path.name} holds no usable {missing[0] if missing else 'step'}.")
    try:
        content["config"] = TrainConfig.from_dict(content["config"])
    except ConfigError as error:
        raise CheckpointError(f"{path.name} holds settings that do not fit this version: {error}") from error
    return content


def _same_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def content_digest(content: Any) -> str:
    """SHA-256 over every value, whatever is nested in what: plain ones as JSON; dtype, shape and bytes of tensors."""
    digest = hashlib.sha256()
    _take(digest, content)
    return digest.hexdigest()


def _take(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(f"{{{key!r}".encode())
            _take(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"[{len(value)}".encode())
        for one in value:
            _take(digest, one)
    elif isinstance(value, Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    else:
        digest.update(json.dumps(value).encode())
