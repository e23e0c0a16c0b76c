"""Read a file of torch.save that anybody may have made: nothing in it is executed, and it takes no more memory than its size
lets expect.

`weights_only=True` alone lets a file of 60 bytes ask for many GiB (it may call bytearray), and unpacks a compressed archive
whatever becomes of it.
"""

import io
import math
import pickle
import pickletools
import zipfile
from typing import Any

import torch
from torch import Tensor

from core.errors import CheckpointError

MAX_UNPACKED_BYTES = 512 * 2**20
_MAX_PARTS, _MAX_VALUES, _MAX_DEPTH = 10_000, 200_000, 50
_LEGACY_PICKLES = 5  # before PyTorch 1.6: a magic number, the version, the machine, the content, names of storages
_CONTAINERS = {"collections OrderedDict", "torch Size"}
_REBUILT = {f"torch._utils _rebuild_{kind}" for kind in ("tensor", "tensor_v2", "tensor_v3", "parameter")}
_NUMBERS = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_ALLOWED = _CONTAINERS | _REBUILT | {f"torch {kind}Storage" for kind in _NUMBERS} | {"torch.storage UntypedStorage"}


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
    try:
        if zipfile.is_zipfile(io.BytesIO(content)):
            _check_archive(content, shown, limit)
        else:
            _check_pickles(io.BytesIO(content), _LEGACY_PICKLES)
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        _check_sizes(loaded, shown, limit)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise MoreThanWeightsError(f"{shown} holds more than weights ({error}).") from error
    except Exception as error:  # torch raises at least five kinds for damaged files
        raise CheckpointError(f"{shown} is damaged or no PyTorch file ({type(error).__name__}).") from error
    return loaded


def _check_archive(content: bytes, shown: str, limit: int) -> None:
    """Refuse bombs before anything is unpacked, and damage that PyTorch would load without a word."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > limit or len(entries) > _MAX_PARTS:
            raise CheckpointError(f"{shown} unpacks to {unpacked:,} bytes in {len(entries):,} parts; at most {limit:,} bytes "
                                  "are read.")  # fmt: skip
        if archive.testzip() is not None:
            raise CheckpointError(f"{shown} is damaged: the checksum of one of its parts does not fit.")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                _check_pickles(io.BytesIO(archive.read(entry)), 1)


def _check_pickles(stream: io.BytesIO, count: int) -> None:
    """Look at what pickles would call, without unpickling them."""
    for _ in range(count):
        for operation, argument, _ in pickletools.genops(stream):
            named = str(argument)
            if operation.name == "GLOBAL" and named not in _ALLOWED and not _is_dtype(named):
                raise pickle.UnpicklingError(f"it names {named.replace(' ', '.'):.60}")


def _is_dtype(named: str) -> bool:
    module, _, name = named.partition(" ")
    return module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)


def _check_sizes(loaded: Any, shown: str, limit: int) -> None:
    """Refuse views that are larger than what they show, and values nested or repeated without end."""
    todo, values, total = [(loaded, 0)], 0, 0
    while todo:
        value, depth = todo.pop()
        values += 1
        if isinstance(value, Tensor):
            size = math.prod(value.shape) * value.element_size()
            total += size
            if value.layout != torch.strided or size > value.untyped_storage().nbytes():
                raise CheckpointError(f"{shown} holds a tensor of {tuple(value.shape)} without the numbers for it.")
        elif isinstance(value, dict):
            todo += [(one, depth + 1) for entry in value.items() for one in entry]
        elif isinstance(value, list | tuple):
            todo += [(one, depth + 1) for one in value]
        if total > limit or values > _MAX_VALUES or depth > _MAX_DEPTH:
            raise CheckpointError(f"{shown} holds more values than any network here has.")
