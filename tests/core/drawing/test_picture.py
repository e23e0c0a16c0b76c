"""Uploads of every kind, made here: each is read as the drawing it was made from, or refused in words."""

import contextlib
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from core.drawing.digit_image import Preprocessing
from core.drawing.limits import MAX_BYTES
from core.drawing.picture import Picture, read_picture
from core.drawing.read import read
from core.drawing.strokes import render
from core.errors import DrawingError
from tests.helpers.picture_files import DIGIT, PICTURES, black_on_white, saved, white_on_black
from tests.helpers.shapes import alike, drawing, only

REFERENCE = only(read(DIGIT)).centred


@pytest.mark.parametrize("name", PICTURES)
def test_every_kind_of_picture_is_read_as_the_digit_it_shows(name):
    image = only(read(read_picture(PICTURES[name])))
    assert alike(REFERENCE, image.centred) > (0.85 if name in ("small", "fat pen") else 0.92)
    if name not in ("fat pen", "small"):  # what flows together cannot be told apart again
        assert 1.5 < image.as_seen.pen < 3.4


def test_several_digits_in_a_picture_are_read_one_by_one():
    sheet = Image.new("L", (900, 280), 255)
    for place, digit in enumerate((2, 0, 7)):
        part = 255 - (render(drawing(digit).strokes, (0, 0, 280, 280), (280, 280)) * 255).astype(np.uint8)
        sheet.paste(Image.fromarray(part), (place * 300, 0))
    reading = read(read_picture(saved(sheet)))
    assert len(reading.digits) == 3
    for digit, image in zip((2, 0, 7), reading.digits, strict=True):
        assert alike(only(read(drawing(digit))).centred, image.centred) > 0.92


def test_polarity_is_found_and_can_be_turned_by_hand():
    dark, light = read_picture(saved(black_on_white())), read_picture(saved(white_on_black()))
    assert only(read(dark)).inverted
    assert not only(read(light)).inverted
    turned = read(light, Preprocessing(invert=True))
    assert turned.digits == () or alike(REFERENCE, turned.digits[0].centred) < 0.8


def test_a_shadowed_paper_is_unreadable_without_the_ink_step():
    picture = read_picture(PICTURES["phone photo"])
    (naive,) = read(picture, Preprocessing(ink=False)).digits
    assert alike(REFERENCE, naive.centred) < 0.75


def test_specks_are_left_out_and_said():
    image = np.asarray(black_on_white()).copy()
    image[20:23, 20:23] = 0
    image[250:252, 30:33] = 0
    reading = read(read_picture(saved(Image.fromarray(image))))
    assert alike(REFERENCE, only(reading).centred) > 0.92
    assert "2 specks left out" in reading.notes


@pytest.mark.parametrize("value", [0, 90, 255])
def test_an_empty_picture_is_said(value):
    reading = read(read_picture(saved(Image.new("L", (300, 200), value))))
    assert reading.digits == ()
    assert "Nothing stands out" in reading.refusal


def test_noise_alone_is_no_digit():
    grain = np.random.default_rng(0).normal(128, 4, (300, 300)).clip(0, 255).astype(np.uint8)
    assert "Nothing stands out" in read(read_picture(saved(Image.fromarray(grain)))).refusal


def png_that_claims(width, height):
    """A PNG whose header claims a size that its few bytes would unpack to."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress(bytes(1000), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


REFUSED = {
    "empty": (b"", "empty"),
    "text": (b"hello, this is no picture", "no picture that can be read"),
    "gif": (saved(black_on_white(), "GIF"), "GIF"),
    "webp": (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "WebP"),
    "heic": (b"\x00\x00\x00\x18ftypheic" + bytes(100), "Most Compatible"),
    "pdf": (b"%PDF-1.7 ...", "PDF"),
    "cut off png": (PICTURES["rgb"][:-200], "damaged or cut off"),
    "cut off jpeg": (PICTURES["jpeg"][: len(PICTURES["jpeg"]) // 2], "damaged or cut off"),
    "bomb": (png_that_claims(60_000, 60_000), "million|no picture"),
    "many pixels": (png_that_claims(5_000, 5_000), "at most 16 million"),
    "too few pixels": (saved(Image.new("L", (4, 4))), "only 4 x 4"),
    "too many bytes": (bytes(MAX_BYTES + 1), "at most 10"),
    "transparent everywhere": (saved(Image.new("RGBA", (50, 50), (0, 0, 0, 0))), "transparent everywhere"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_words(name):
    content, words = REFUSED[name]
    with pytest.raises(DrawingError, match=words):
        read_picture(content)


def test_a_bomb_is_refused_before_it_unpacks():
    tracemalloc.start()
    with pytest.raises(DrawingError):
        read_picture(png_that_claims(60_000, 60_000))
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(PICTURES)), st.data())
def test_a_damaged_file_is_read_or_refused_but_never_breaks(name, data):
    content = bytearray(PICTURES[name])
    if len(content) > 20_000:
        content = bytearray(PICTURES["jpeg"])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DrawingError):
        read(read_picture(bytes(content)))


@pytest.mark.parametrize(("height", "width"), [(300, 400), (640, 480)])
@pytest.mark.parametrize("slope", [0.0, 0.02])
def test_paper_with_lines_from_top_to_bottom_alone_is_read_within_its_budget(height, width, slope):
    """Ruled paper photographed sideways: what is long in one direction is not thick."""
    rows, columns = np.indices((height, width))
    grey = np.full((height, width), 0.9, np.float32)
    grey[(columns + slope * rows) % 40 < 2] = 0.6
    part = render(drawing(7).strokes, (0, 0, 280, 280), (280, 280))
    grey[10:290, 50:330] -= 0.8 * part
    tracemalloc.start()
    try:
        reading = read(Picture(np.clip(grey, 0, 1)))
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()
    assert len(reading.digits) == 1
