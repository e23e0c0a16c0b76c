"""The format of a run's folder: its version, and the rows of every version read and written as what they are.

A run keeps the version it was begun with; status.json says which (nothing said: 1). Whoever changes events.STEP_DTYPE or
REPORT_DTYPE, or adds a key to status.json or an event, raises VERSION and writes the new dtypes down here (a new setting does
not: an older Digit Lab says which settings it does not know). The
old entries stay, so that every older run is read, resumed and appended to; tests/data/runs holds a folder of each version.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import NewerFormatError
from core.events import REPORT_DTYPE, STEP_DTYPE
from core.runs.folder import REPORTS, STEPS

VERSION = 2

# By version and file. Written out, so that a change of today's rows cannot change what is read from an old file.
_STEPS_1 = np.dtype(
    [
        ("step", "<u8"),
        ("seconds", "<f8"),
        ("learning_rate", "<f8"),
        ("loss", "<f4"),
        ("gradient_norm", "<f4"),
        ("correct", "<u4"),
        ("images", "<u4"),
    ]
)
DTYPES: dict[int, dict[str, np.dtype[np.void]]] = {
    1: {
        STEPS: _STEPS_1,
        REPORTS: np.dtype(
            [
                ("step", "<u8"),
                ("seconds", "<f8"),
                ("duration", "<f8"),
                ("data_seconds", "<f8"),
                ("resident", "<u8"),
                ("allocated", "<u8"),
                ("reserved", "<u8"),
                ("peak", "<u8"),
                ("total", "<u8"),
            ]
        ),
    },
    2: {
        STEPS: _STEPS_1,
        REPORTS: np.dtype(
            [
                ("step", "<u8"),
                ("seconds", "<f8"),
                ("duration", "<f8"),
                ("data_seconds", "<f8"),
                ("sampled_steps", "<u4"),
                ("sampled_seconds", "<f8"),
                ("forward_seconds", "<f8"),
                ("backward_seconds", "<f8"),
                ("optimizer_seconds", "<f8"),
                ("cpu_period", "<f8"),
                ("cpu_wanted", "<f8"),
                ("cpu_delay", "<f8"),
                ("cpu_blocked", "<f8"),
                ("cpu_pages", "<f8"),
                ("cpu_elsewhere", "<f8"),
                ("resident", "<u8"),
                ("allocated", "<u8"),
                ("reserved", "<u8"),
                ("peak", "<u8"),
                ("total", "<u8"),
            ]
        ),
    },
}


def check_version(values: dict[str, Any], run_id: str) -> int:
    """The format version that a status says.

    Raises:
        NewerFormatError: a newer one, whose keys and rows are not known here. ValueError: no version at all.
    """
    version = values.get("format", 1)
    if type(version) is not int or version < 1:
        raise ValueError(f"its format is {version!r:.20}")
    if version > VERSION:
        raise NewerFormatError(
            f"Run {run_id} was written by a newer Digit Lab (folder format {version}; this one reads up to {VERSION}). "
            "Nothing is wrong with it: update Digit Lab to see it."
        )
    return version


def stored_dtype(name: str, version: int) -> np.dtype[np.void]:
    """What a row of "steps.bin" or "reports.bin" is in this version."""
    return DTYPES[version][name]


def current_dtype(name: str) -> np.dtype[np.void]:
    """What a row of this file is today."""
    return STEP_DTYPE if name == STEPS else REPORT_DTYPE


def converted(rows: npt.NDArray[np.void], dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Rows as another version has them: columns by name; what the rows do not have is NaN, or 0 in whole numbers."""
    if rows.dtype == dtype:
        return rows
    result = np.zeros(len(rows), dtype)
    for name in dtype.names or ():
        if name in (rows.dtype.names or ()):
            result[name] = rows[name]
        elif dtype[name].kind == "f":
            result[name] = np.nan
    return result
