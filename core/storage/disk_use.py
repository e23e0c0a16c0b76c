"""What runs take on the disk, and whether there is room for another one."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.errors import RunError

MIN_FREE_BYTES, LARGEST_STATE_BYTES = 64 * 2**20, 8 * 2**20


def check_disk(root: Path, states: int = 0) -> None:
    """Say so when there is no room for another run. Raises RunError.

    Args:
        states: how many whole training states the run will keep.

    The limits are MIN_FREE_BYTES of the disk and LARGEST_STATE_BYTES for each state, and DIGIT_LAB_MAX_GIB for all runs
    together where that is set.
    """
    existing = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    need = MIN_FREE_BYTES + states * LARGEST_STATE_BYTES
    if free < need:
        raise RunError(
            f"Only {free / 2**20:,.0f} MiB are free on the disk of {root}; this run may need "
            f"{need // 2**20}. Make room: delete runs for good, or choose another "
            "folder with DIGIT_LAB_RUNS."
        )
    limit = os.environ.get("DIGIT_LAB_MAX_GIB")
    if not limit:
        return
    try:
        allowed = float(limit) * 2**30
    except ValueError:
        raise RunError(f"DIGIT_LAB_MAX_GIB must be a number of GiB; got {limit!r:.40}.") from None
    used = folder_bytes(root)
    if used > allowed:
        raise RunError(
            f"The runs take {used / 2**30:,.2f} GiB; this server allows {limit} (DIGIT_LAB_MAX_GIB). Delete runs for good."
        )


def folder_bytes(folder: Path) -> int:
    """What all files in a folder and below it take, in bytes; 0 when there is none."""
    return sum(_all_sizes(folder))


def _all_sizes(folder: Path | str) -> Iterator[int]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _all_sizes(entry.path)
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # renamed or thinned out meanwhile
                    yield entry.stat().st_size
