"""Files that are replaced whole, so that a reader sees the old one or the new one, and a crash leaves one of them."""

import contextlib
import os
import secrets
import time
from pathlib import Path

PART = ".part"
_REPLACE_TRIES = 25


def replace_text(path: Path, text: str) -> None:
    """Write `text` beside the file and rename it over. Raises OSError; the old file is then untouched."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes | memoryview, *, durable: bool = False) -> None:
    """Write `content` beside the file and rename it over. Raises OSError; the old file is then untouched.

    Args:
        durable: wait until the disk has it, so that a power cut cannot take it either (some 10 ms).
    """
    # A name of its own: two pages may write the same file at a time.
    part = path.with_name(f"{path.name}.{secrets.token_hex(3)}{PART}")
    try:
        with part.open("wb") as target:
            target.write(content)
            if durable:
                target.flush()
                os.fsync(target.fileno())
        for _ in range(_REPLACE_TRIES - 1):
            try:
                os.replace(part, path)
                return
            except PermissionError:  # on Windows, while a viewer has the file open
                if os.name != "nt":
                    raise
                time.sleep(0.02)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)  # on a full disk its room is needed for the words that say what happened
        raise


def remove_parts(folder: Path) -> None:
    """Delete what a killed process had not renamed yet. Only for who holds the folder's lock."""
    for part in folder.rglob(f"*{PART}"):
        with contextlib.suppress(OSError):
            part.unlink()
