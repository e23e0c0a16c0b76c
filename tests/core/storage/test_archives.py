"""The one reader of zips from elsewhere: nothing in them takes more than its name allows."""

import struct
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.storage.archives import ArchiveError, read_archive, rewritten
from tests.helpers.zips import zipped

names = st.text("abcdefgh./", min_size=1, max_size=8).filter(lambda name: not name.endswith("/"))


def made(entries, kind=zipfile.ZIP_DEFLATED):
    return zipped(entries, kind)


def read(content, limit=10_000, entries=10, total=50_000):
    return read_archive(content, lambda name: limit, max_entries=entries, max_bytes=total)


@given(st.dictionaries(names, st.binary(max_size=200), max_size=8))
def test_what_goes_in_comes_out_and_again_when_written_anew(entries):
    entries = {name.casefold(): data for name, data in entries.items()}
    assert read(made(entries.items())) == entries
    assert read(rewritten(entries)) == entries


@settings(max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 200))
def test_any_bytes_are_read_or_refused_in_words(noise, cut):
    whole = made([("a", b"12345"), ("b", b"x" * 100)])
    for content in (noise, whole[:cut] + noise, noise + whole, whole + noise):
        try:
            found = read(content)
        except ArchiveError:
            continue
        assert sum(map(len, found.values())) <= 50_000


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_of_packing_that_unpack_without_a_bound_are_not_read(kind):
    content = made([("a", bytes(20 * 2**20))], kind)
    assert len(content) < 20_000
    tracemalloc.start()
    with pytest.raises(ArchiveError, match="packed in a way"):
        read(content, 10**9, total=10**9)
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


def test_sizes_counts_and_names_have_limits():
    large = made([("a", bytes(20_000))])
    with pytest.raises(ArchiveError, match="unpacks to 20,000 bytes; at most 10,000 belong there"):
        read(large)
    with pytest.raises(ArchiveError, match="holds 11 files"):
        read(made([(f"a{number}", b"") for number in range(11)]))
    with pytest.raises(ArchiveError, match="unpacks to 60,000"):
        read(made([(f"a{number}", bytes(10_000)) for number in range(6)]))
    with pytest.raises(ArchiveError, match="twice"):
        read(made([("a", b""), ("A", b"")]))
    with pytest.raises(ArchiveError, match="does not belong there: x"):
        read_archive(made([("x", b"")]), lambda name: None, max_entries=1, max_bytes=1)


def test_a_long_directory_is_refused_before_it_is_read():
    content = made([(f"a{number}", b"") for number in range(30_000)], zipfile.ZIP_STORED)
    tracemalloc.start()
    with pytest.raises(ArchiveError, match="directory has"):
        read(content, entries=10**6)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_an_entry_that_lies_about_its_size_is_refused():
    content = bytearray(made([("a", bytes(5_000))]))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = content.index(mark) + offset
        content[place : place + 4] = (100).to_bytes(4, "little")
    with pytest.raises(ArchiveError):
        read(bytes(content))


def test_a_flipped_bit_is_noticed():
    content = bytearray(made([("a", b"0123456789" * 20)], zipfile.ZIP_STORED))
    content[content.index(b"0123456789") + 5] ^= 1
    with pytest.raises(ArchiveError, match="checksum"):
        read(bytes(content))


def test_a_directory_that_only_the_second_end_record_tells_of_is_refused_before_it_is_read():
    """zipfile takes the size from there, whatever the first one says."""
    content = made([("a" * 40 + str(number), b"") for number in range(40_000)])
    place = content.rindex(b"PK\x05\x06")
    count, size, start = struct.unpack_from("<HxxII", content, place + 8)
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, place, 1)
    end = content[place : place + 12] + struct.pack("<I", 46) + content[place + 16 :]
    with pytest.raises(ArchiveError, match="its directory has 3,"):
        read(content[:place] + wide + locator + end)
    with pytest.raises(ArchiveError, match="second end record"):
        read(content[:place] + wide + b"x" * 8 + locator + end)
