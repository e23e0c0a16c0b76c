"""Many points to few, with spikes, gaps and ends kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[Any]

# Buckets in one line of a chart: twice as many points, since each bucket keeps its smallest and largest value.
MAX_BUCKETS = 320


@dataclass(frozen=True, eq=False)
class Thinned:
    """The part of a line that a chart draws.

    Attributes:
        rows: int64 indices into the full column, rising; buckets of `bucket` rows give two each (the smallest and the
            largest value, in the order they came), or one each when `bucket` is 1.
        bucket: rows a bucket covers, a power of two.
    """

    rows: npt.NDArray[np.int64]
    bucket: int


def bucket_size(count: int, buckets: int = MAX_BUCKETS) -> int:
    """The smallest power of two by which `count` rows fit into `buckets` buckets.

    Powers of two: while a run grows, a bucket that is full never changes until all of them are merged in pairs.
    """
    size = 1
    while size * buckets < count:
        size *= 2
    return size


def thin(values: Column, first_bucket: int = 0, buckets: int = MAX_BUCKETS) -> Thinned:
    """Choose the rows of a column that a chart shows, so that no spike is lost. Non-finite values are passed over
    where a bucket has finite ones; `StepHistory.nonfinite_rows` gives their places.

    Args:
        values: (N,) numbers; NaN and infinities allowed.
        first_bucket: leave out the buckets before this one; a live chart has them already.
        buckets: budget; at most twice as many rows are chosen.
    """
    size = bucket_size(len(values), buckets)
    start = min(first_bucket * size, len(values))
    if size == 1:
        return Thinned(np.arange(start, len(values)), 1)
    part = values[start:]
    finite = np.isfinite(part)
    clean = bool(finite.all())
    low = part if clean else np.where(finite, part, np.inf)
    high = part if clean else np.where(finite, part, -np.inf)
    whole = len(part) // size * size
    offsets = np.arange(0, whole, size) + start
    least = low[:whole].reshape(-1, size).argmin(axis=1) + offsets
    most = high[:whole].reshape(-1, size).argmax(axis=1) + offsets
    if whole < len(part):
        least = np.append(least, low[whole:].argmin() + start + whole)
        most = np.append(most, high[whole:].argmax() + start + whole)
    return Thinned(np.stack([np.minimum(least, most), np.maximum(least, most)], axis=1).reshape(-1), size)
