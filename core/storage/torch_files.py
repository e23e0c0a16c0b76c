"""Read a file of torch.save that anybody may have made: nothing in it is executed, and it takes no more memory than its size
lets expect.

`weights_only=True` alone lets a file of 60 bytes ask for many GiB (it may call bytearray), and unpacks a compressed archive
whatever becomes of it. So the archive is read here, its pickle looked at without unpickling, and torch gets an archive that was
written anew from what was checked: there is no second reader who could see something else in the file.
"""

import io
import math
import pickle
import pickletools
import re
from typing import Any

import torch
from torch import Tensor

from core.errors import CheckpointError
from core.storage.archives import ArchiveError, read_archive, rewritten

MAX_UNPACKED_BYTES = 512 * 2**20
_ZIP_MARK, _OLD_MARK = b"PK\x03\x04", b"\x80"  # by these four bytes, and one, torch itself tells its two formats apart
_MAX_PARTS, _MAX_VALUES, _MAX_DEPTH = 10_000, 200_000, 50
# A state of the largest network here has some 4,000 operations in its pickle.
_MAX_PICKLE_BYTES, _MAX_OPERATIONS, _MAX_SMALL_BYTES = 8 * 2**20, 300_000, 4096
_PART = re.compile(
    r"(?P<pickle>data\.pkl)|(?P<storage>data/\d{1,9})|(?P<small>version|byteorder|\.format_version|\.storage_alignment|"
    r"\.data/serialization_id)",
    re.ASCII,
)
_CONTAINERS = {"collections OrderedDict", "torch Size"}
_REBUILT = {f"torch._utils _rebuild_{kind}" for kind in ("tensor", "tensor_v2", "tensor_v3", "parameter")}
_NUMBERS = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_ALLOWED = _CONTAINERS | _REBUILT | {f"torch {kind}Storage" for kind in _NUMBERS} | {"torch.storage UntypedStorage"}
# These name things in a way that cannot be read without running the pickle.
_HIDDEN = {"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX"}
_DTYPES = {
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
}


class MoreThanWeightsError(CheckpointError):
    """The file holds objects of other classes: loading it would run code from it."""


def load_plain(content: bytes, shown: str, *, limit: int = MAX_UNPACKED_BYTES) -> Any:
    """Tensors on the CPU and plain values, in dictionaries, lists and tuples.

    Args:
        shown: what the file is called, for messages only.
        limit: bytes that it may unpack to.

    Raises:
        MoreThanWeightsError: see there. CheckpointError: damaged, too large when unpacked, or no file of torch.save.
    """
    if content[:1] == _OLD_MARK:
        raise CheckpointError(
            f"{shown} is in PyTorch's format from before version 1.6 (2020), which is not read here: such a "
            "file can ask for memory that it does not fill. Load it with PyTorch and save its state_dict() "
            "again."
        )
    if content[:4] != _ZIP_MARK:
        raise CheckpointError(f"{shown} is damaged or no PyTorch file: it begins with none of PyTorch's marks.")
    try:
        parts = _read_parts(content, shown, limit)
        loaded = torch.load(io.BytesIO(rewritten(parts)), map_location="cpu", weights_only=True)
        _check_values(loaded, shown, limit)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise MoreThanWeightsError(f"{shown} holds more than weights ({error}).") from error
    except Exception as error:  # torch raises at least five kinds for damaged files
        raise CheckpointError(f"{shown} is damaged or no PyTorch file ({type(error).__name__}).") from error
    return loaded


def _read_parts(content: bytes, shown: str, limit: int) -> dict[str, bytes]:
    """The archive's parts by name. Raises MoreThanWeightsError, CheckpointError."""
    strange: list[str] = []

    def limit_of(name: str) -> int:
        match = _PART.fullmatch(name.partition("/")[2])
        if match is None:  # TorchScript has its code there
            strange.append(name)
            return limit
        return _MAX_PICKLE_BYTES if match["pickle"] else _MAX_SMALL_BYTES if match["small"] else limit

    try:
        parts = read_archive(content, limit_of, max_entries=_MAX_PARTS, max_bytes=limit)
    except ArchiveError as error:
        raise CheckpointError(f"{shown} is damaged or no PyTorch file: {error}.") from error
    if strange:
        raise MoreThanWeightsError(f"{shown} holds more than weights (a part called {strange[0]!r:.60}).")
    if len({name.partition("/")[0] for name in parts}) != 1:
        raise CheckpointError(f"{shown} is damaged or no PyTorch file: its parts lie in several folders.")
    for name, data in parts.items():
        if name.endswith("data.pkl"):
            _check_pickle(data, shown)
    return parts


def _check_pickle(data: bytes, shown: str) -> None:
    """Look at what a pickle would call, and at how much it would make, without unpickling it."""
    for number, (operation, argument, _) in enumerate(pickletools.genops(data)):
        if number >= _MAX_OPERATIONS:
            raise CheckpointError(f"{shown} holds more values than any network here has.")
        if operation.name in _HIDDEN:
            raise pickle.UnpicklingError(f"it names things by {operation.name}")
        if operation.name == "GLOBAL" and (named := str(argument)) not in _ALLOWED and not _is_dtype(named):
            raise pickle.UnpicklingError(f"it names {named.replace(' ', '.'):.60}")


def _is_dtype(named: str) -> bool:
    module, _, name = named.partition(" ")
    return module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)


def _check_values(loaded: Any, shown: str, limit: int) -> None:
    """Refuse views that are larger than what they show, kinds of values that no file here has, and values nested or repeated
    without end."""
    todo, values, total = [(loaded, 0)], 0, 0
    while todo:
        value, depth = todo.pop()
        values += 1
        if isinstance(value, Tensor):
            if value.layout != torch.strided or value.dtype not in _DTYPES or value.is_quantized:
                raise CheckpointError(
                    f"{shown} holds a tensor of a kind that no network here has ({str(value.dtype).removeprefix('torch.')})."
                )
            size = math.prod(value.shape) * value.element_size()
            total += size
            if size > value.untyped_storage().nbytes():
                raise CheckpointError(f"{shown} holds a tensor of {tuple(value.shape)} without the numbers for it.")
        elif isinstance(value, dict):
            todo += [(one, depth + 1) for entry in value.items() for one in entry]
        elif isinstance(value, list | tuple):
            todo += [(one, depth + 1) for one in value]
        elif not (
            value is None
            or isinstance(value, str | float | bool | torch.dtype)
            or (isinstance(value, int) and abs(value) < 2**63)
        ):
            raise CheckpointError(f"{shown} holds a value that no file here has ({type(value).__name__}).")
        if total > limit or values > _MAX_VALUES or depth > _MAX_DEPTH:
            raise CheckpointError(f"{shown} holds more values than any network here has.")
