"""The drawings that a lesson teaches, kept in its run's folder."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.data.sources import Digits
from core.errors import RunError
from core.runs.folder import DRAWINGS
from core.storage.archives import ArchiveError, read_archive

MAX_DRAWINGS = 10
_MAX_FILE_BYTES, _MAX_ARRAY_BYTES = 2**18, 2**16


def save_drawings(run: Path, drawings: Digits) -> None:
    """Keep a lesson's drawings in its run's folder. Raises RunError."""
    try:
        np.savez_compressed(run / DRAWINGS, images=drawings.images, labels=drawings.labels)
    except OSError as error:
        raise RunError(f"The drawings of run {run.name} cannot be saved: {error.strerror or error}.") from error


def load_drawings(run: Path) -> Digits | None:
    """The drawings of a lesson; None for a run that is none. Raises RunError when they are damaged or no such drawings."""
    path = run / DRAWINGS
    if not path.exists():
        return None
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise RunError(f"The drawings of run {run.name} cannot be read: the file is larger than {MAX_DRAWINGS} drawings.")
        entries = read_archive(path.read_bytes(), _limit_of, max_entries=2, max_bytes=2 * _MAX_ARRAY_BYTES)
        images, labels = (_array(entries[name]) for name in ("images.npy", "labels.npy"))
        return checked_drawings(images, labels)
    except (ArchiveError, OSError, ValueError, KeyError, EOFError) as error:
        raise RunError(f"The drawings of run {run.name} cannot be read: {str(error) or type(error).__name__}.") from error


def _limit_of(name: str) -> int | None:
    return _MAX_ARRAY_BYTES if name in ("images.npy", "labels.npy") else None


def _array(content: bytes) -> npt.NDArray[Any]:
    """A .npy file whose header was looked at before numpy makes room for what it claims. Raises ValueError."""
    try:
        return _checked_array(io.BytesIO(content), len(content))
    except Exception as error:  # numpy's header parser raises many kinds
        raise ValueError(f"an array cannot be read ({type(error).__name__}: {error})") from error


def _checked_array(stream: io.BytesIO, size: int) -> npt.NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array has format version {version}")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream, max_header_size=1000)
    if dtype.hasobject or dtype.itemsize * math.prod(shape) != size - stream.tell():
        raise ValueError("an array does not hold what its header says")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False, max_header_size=1000)


def checked_drawings(images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Digits:
    """Drawings as Digits. Raises ValueError unless they are uint8 (n, 1, 28, 28) and int64 (n,), 0 to 9."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (1, 28, 28):
        raise ValueError(f"images are {images.dtype} {images.shape}, where uint8 (n, 1, 28, 28) belong")
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise ValueError(f"labels are {labels.dtype} {labels.shape}, where one whole number a drawing belongs")
    if not 1 <= len(labels) <= MAX_DRAWINGS:
        raise ValueError(f"there are {len(labels)} drawings, where 1 to {MAX_DRAWINGS} belong")
    if not ((labels >= 0) & (labels <= 9)).all():
        raise ValueError(f"a label is {labels[(labels < 0) | (labels > 9)][0]}, where 0 to 9 belong")
    return Digits(images.copy(), labels.astype(np.int64))
