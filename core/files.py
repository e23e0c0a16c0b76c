"""Small text files that are replaced whole, so that a reader sees the old one or the new one."""

import os
import time
from pathlib import Path

_REPLACE_TRIES = 25


def replace_text(path: Path, text: str) -> None:
    """Write `text` beside the file and rename it over. Raises OSError; the old file is then untouched."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    for _ in range(_REPLACE_TRIES - 1):
        try:
            os.replace(part, path)
            return
        except PermissionError:  # on Windows, while a viewer has the file open
            time.sleep(0.02)
    os.replace(part, path)
