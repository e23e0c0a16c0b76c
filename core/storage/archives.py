"""A zip that anybody may have made, read once: what is checked here is what everybody else gets.

Two programs that read one zip may see two different files in it (a second directory, names in other cases, sizes that lie). So
nothing but this file opens a zip from elsewhere, and what needs a zip again gets one written anew (`rewritten`).
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping

from core.errors import CoreError

# Python reads the whole directory before it says how many entries there are: some 60 bytes become an object of 500.
MAX_DIRECTORY_BYTES = 2**20
_END, _END_SIZE, _COMMENT = b"PK\x05\x06", 22, 2**16
_ENCRYPTED = 0x1


class ArchiveError(CoreError):
    """The zip is damaged, or larger or stranger than what it should hold."""


def read_archive(
    content: bytes, limit_of: Callable[[str], int | None], *, max_entries: int, max_bytes: int
) -> dict[str, bytes]:
    """All entries of a zip by name, unpacked, their checksums compared.

    Args:
        limit_of: name -> the most bytes that this entry may have; None for a name that does not belong there. Entries that are
            folders are passed over.
        max_bytes: of all entries together, unpacked.

    Raises:
        ArchiveError: no zip, damaged, too large in whole or in part, or with names that do not belong there.
    """
    _refuse_large_directory(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
            _refuse_strange(entries, limit_of, max_entries, max_bytes)
            return {entry.filename: _unpacked(archive, entry) for entry in entries}
    except zipfile.BadZipFile as error:
        if "CRC" in str(error):
            raise ArchiveError("the checksum of one of its parts does not fit") from error
        raise ArchiveError(f"it is no zip, or damaged ({str(error)[:80]})") from error
    except (
        zipfile.LargeZipFile,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        struct.error,
        KeyError,
        IndexError,
        UnicodeError,
        OverflowError,
    ) as error:
        raise ArchiveError(f"it is no zip, or damaged ({type(error).__name__}: {str(error)[:80]})") from error


def rewritten(entries: Mapping[str, bytes]) -> bytes:
    """A plain zip of these entries, for a reader that insists on one: nothing packed, nothing twice, nothing else in it."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return target.getvalue()


def _refuse_large_directory(content: bytes) -> None:
    """By the end record; where a second one for more than 4 GiB (ZIP64) is named, as PyTorch writes it, by that one, too:
    zipfile takes what stands there. It must lie where it always lies."""
    place = content.rfind(_END, max(0, len(content) - _END_SIZE - _COMMENT))
    if place < 0 or place + _END_SIZE > len(content):
        raise ArchiveError("it is no zip, or damaged: its directory is missing")
    size = struct.unpack_from("<I", content, place + 12)[0]
    if content[max(0, place - 20) : max(0, place - 16)] == b"PK\x06\x07":
        if place < 76 or content[place - 76 : place - 72] != b"PK\x06\x06":
            raise ArchiveError("it is no zip, or damaged: its second end record is missing")
        size = max(size, struct.unpack_from("<Q", content, place - 36)[0])
    if size > MAX_DIRECTORY_BYTES:
        raise ArchiveError(f"its directory has {size:,} bytes; at most {MAX_DIRECTORY_BYTES:,} are read")


def _refuse_strange(
    entries: list[zipfile.ZipInfo], limit_of: Callable[[str], int | None], max_entries: int, max_bytes: int
) -> None:
    if len(entries) > max_entries:
        raise ArchiveError(f"it holds {len(entries):,} files; at most {max_entries:,} belong there")
    seen: set[str] = set()
    for entry in entries:
        name, shown = entry.filename, repr(entry.filename)[1:-1][:60]
        limit = limit_of(name)
        if limit is None:
            raise ArchiveError(f"it holds a file that does not belong there: {shown}")
        if name.casefold() in seen:
            raise ArchiveError(f"it holds {shown} twice")
        seen.add(name.casefold())
        # Python unpacks bzip2 and LZMA piece by piece without a bound, and LZMA reserves what the file asks for.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"{shown} in it is packed in a way that is not read here; only plain and deflated files are")
        if entry.file_size > limit:
            raise ArchiveError(f"{shown} in it unpacks to {entry.file_size:,} bytes; at most {limit:,} belong there")
    if (total := sum(entry.file_size for entry in entries)) > max_bytes:
        raise ArchiveError(f"it unpacks to {total:,} bytes; at most {max_bytes:,} are read")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:
        content = stream.read(entry.file_size + 1)  # reading past the end compares the checksum
    if len(content) != entry.file_size:
        raise ArchiveError(f"{entry.filename!r:.60} in it is not as long as it says")
    return content
