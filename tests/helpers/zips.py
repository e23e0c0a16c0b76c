"""Zips as anybody may make them."""

import io
import zipfile
from collections.abc import Iterable


def zipped(entries: Iterable[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED) -> bytes:
    """Entries in this order, of one kind; the same name may come twice."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", kind) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return target.getvalue()
