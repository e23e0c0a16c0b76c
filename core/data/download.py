"""Fetch MNIST from torchvision's mirrors: visible progress, no half-written file, one download at a time."""

import gzip
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from filelock import FileLock, Timeout

from core.data.sources import MNIST_FILES, MnistFile, damaged_files, raw_folder
from core.errors import DataError
from core.status import Progress

STALL_SECONDS = 15.0
_CHUNK = 64 * 1024
# All that a mirror, a proxy or a captive portal can answer with: then the next mirror is asked.
_FAILURES = (OSError, EOFError, zlib.error, ValueError, DataError, http.client.HTTPException, urllib.error.URLError)


def mirrors() -> list[str]:
    """Base addresses, the preferred one first, as torchvision knows them."""
    from torchvision.datasets import MNIST

    return list(MNIST.mirrors)


def download_mnist(root: Path, addresses: list[str] | None = None, stall: float = STALL_SECONDS) -> Iterator[Progress]:
    """Fetch every file of MNIST that is missing or damaged; whole ones stay.

    A job: each event is a place to cancel; what was fetched in part is removed then. Files are verified before they
    take their name.

    Args:
        root: the data folder.
        addresses: mirrors to try in turn; None for torchvision's.
        stall: seconds without a byte after which a mirror is given up.

    Raises:
        DataError: the folder cannot be written, another download runs, or no mirror answered; says which and why.
    """
    folder = raw_folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".download.lock")
        yield from _waited(lock, folder, stall)
    except OSError as error:
        raise DataError(
            f"MNIST cannot be saved in {folder}: {error.strerror or error}. Choose another folder with "
            "DIGIT_LAB_DATA, or make this one writable."
        ) from None
    try:
        yield Progress(0, 0, "Looking at the files that are there")
        wanted = [file for file in MNIST_FILES if file.name in damaged_files(root)]
        for number, file in enumerate(wanted, 1):
            yield from _fetch(file, folder, addresses or mirrors(), f"{file.name} ({number} of {len(wanted)})", stall)
    finally:
        lock.release()


def _waited(lock: FileLock, folder: Path, stall: float) -> Iterator[Progress]:
    """Take the lock; a download that was cancelled may hold it until its mirror has had its time. Raises DataError."""
    until = monotonic() + stall + 1
    while True:
        try:
            lock.acquire(timeout=0.1)
            return
        except Timeout:
            if monotonic() > until:
                raise DataError(f"Another download into {folder} is under way. Wait until it is done.") from None
        yield Progress(0, 0, "Waits for the end of another download")


def _fetch(file: MnistFile, folder: Path, addresses: list[str], what: str, stall: float) -> Iterator[Progress]:
    failures: list[str] = []
    part = folder / f"{file.name}.gz.part"
    for address in addresses:
        try:
            yield from _receive(f"{address.rstrip('/')}/{file.name}.gz", part, what, stall)
            _keep(file, part)
            return
        except _FAILURES as error:
            reason = getattr(error, "reason", None) or error
            failures.append(f"{address}: {'nothing arrived in time' if isinstance(reason, TimeoutError) else reason}")
        finally:
            part.unlink(missing_ok=True)
    raise DataError(
        f"{file.name} could not be downloaded. "
        + " ".join(f"{failure}." for failure in failures)
        + " Check the network and try again; until then the MNIST sample needs none."
    )


def _receive(address: str, part: Path, what: str, stall: float) -> Iterator[Progress]:
    with urllib.request.urlopen(address, timeout=stall) as response, part.open("wb") as target:
        total = int(response.headers.get("Content-Length") or 0)
        received = 0
        yield Progress(0, total, what, "bytes")
        while chunk := response.read(_CHUNK):
            target.write(chunk)
            received += len(chunk)
            yield Progress(received, total, what, "bytes")
    if total and received < total:
        raise DataError(f"the connection broke after {received:,} of {total:,} bytes")


def _keep(file: MnistFile, part: Path) -> None:
    """Give a fetched file its name, if it is the published one; a damaged unpacked twin goes."""
    with gzip.open(part) as stream:
        content = stream.read(file.size + 1)
    if hashlib.md5(content).hexdigest() != file.md5:
        raise DataError("what arrived is not the published file")
    os.replace(part, part.with_name(f"{file.name}.gz"))
    part.with_name(file.name).unlink(missing_ok=True)
