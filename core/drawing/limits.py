"""What a drawing or a picture may take, looked at before any work is done on it. The one place that owns these numbers.

A person's drawing needs a hundredth of each; more is a stuck mouse or somebody who wants to keep the server busy. Drawing a
single shape holds Python's lock, so a limit that comes after the work would come too late for everybody else, too.
"""

from core.errors import DrawingError

MAX_OBJECTS, MAX_POINTS = 300, 20_000
"""Of a canvas: what was drawn, and the points of it all, curves counted in the pieces they are drawn in."""
MAX_PEN = 200.0
"""Pixels of the canvas."""
MAX_INK = 20_000_000
"""Pixels that are filled to draw all strokes once: points times the pen's area."""
MAX_MARKS = 120
"""Separate pieces of ink that are put together to digits."""

MAX_BYTES = 10 * 2**20
"""Of a picture's file."""
MAX_PIXELS = {"PNG": 16_000_000, "JPEG": 64_000_000, "MPO": 64_000_000}
"""By its header. A JPEG is decoded at a fraction of its size, so it may be larger."""
MAX_DECODED_PIXELS = 16_000_000
MAX_SCANS = 200
"""Of a progressive JPEG: each goes over the whole picture again, for 20 bytes of file. Cameras write about ten."""
MIN_SIDE = 8


def check_objects(count: int) -> None:
    """Of a canvas. Raises DrawingError."""
    if count > MAX_OBJECTS:
        raise DrawingError(f"The drawing has {count:,} strokes; at most {MAX_OBJECTS:,} are read. Clear it and draw again.")


def check_points(count: int) -> None:
    """Of all strokes. Raises DrawingError."""
    if count > MAX_POINTS:
        raise DrawingError(f"The drawing has {count:,} points; at most {MAX_POINTS:,} are read. Clear it and draw again.")


def check_pen(width: float) -> None:
    """In pixels of the canvas. Raises DrawingError; NaN counts as too wide."""
    if not 0 < width <= MAX_PEN:
        raise DrawingError(f"A pen is {width:.4g} pixels wide; 0 to {MAX_PEN:g} are read. Clear it and draw again.")


def check_ink(points: int, width: float, filled: float) -> float:
    """`filled` and what another stroke adds to it. Raises DrawingError."""
    filled += points * max(width, 1.0) ** 2
    if filled > MAX_INK:
        raise DrawingError(
            f"The drawing is too much to draw again: {points:,} points with a pen of {width:.0f} pixels. Clear "
            "it and draw with a thinner pen."
        )
    return filled


def too_many_marks(count: int) -> str:
    """Why so many pieces of ink are not read, in words; "" when they are."""
    if count <= MAX_MARKS:
        return ""
    return (
        f"There are {count:,} separate marks; at most {MAX_MARKS} are put together to digits. Crop the picture to the "
        "digits, or clear the canvas and draw again."
    )


def check_file(content: bytes) -> None:
    """A picture's file before it is opened. Raises DrawingError."""
    if not content:
        raise DrawingError("The file is empty. Choose a picture (PNG or JPEG).")
    if len(content) > MAX_BYTES:
        raise DrawingError(
            f"The picture has {len(content) / 2**20:.1f} MiB; at most {MAX_BYTES // 2**20} are read. Save it smaller."
        )
    if content[:2] == b"\xff\xd8" and (scans := content.count(b"\xff\xda")) > MAX_SCANS:
        raise DrawingError(
            f"The picture is a JPEG of {scans:,} scans, each over the whole picture; at most {MAX_SCANS} are "
            "read. Save it anew as a plain JPEG or PNG."
        )


def check_size(width: int, height: int, kind: str) -> None:
    """By the file's header. Raises DrawingError."""
    limit = MAX_PIXELS.get(kind, min(MAX_PIXELS.values()))
    if width * height > limit:
        raise DrawingError(
            f"The picture has {width:,} x {height:,} pixels; at most {limit // 10**6} million are read from a "
            f"{kind}. Make it smaller."
        )
    if min(width, height) < MIN_SIDE:
        raise DrawingError(f"The picture has only {width} x {height} pixels; a digit needs at least {MIN_SIDE} x {MIN_SIDE}.")


def check_working_size(height: int, width: int) -> None:
    """Once its long side is made small enough to work with. Raises DrawingError."""
    if min(height, width) < MIN_SIDE:
        raise DrawingError(
            f"The picture is {max(height, width) // max(1, min(height, width))} times as long as wide: too "
            "little of it would be left to read. Crop it to the digits."
        )


def check_decoded(width: int, height: int) -> None:
    """As it is about to be decoded: a wide JPEG is not made smaller by its decoder. Raises DrawingError."""
    if width * height > MAX_DECODED_PIXELS:
        raise DrawingError(
            f"The picture would be decoded to {width:,} x {height:,} pixels; at most "
            f"{MAX_DECODED_PIXELS // 10**6} million are. Crop it, or save it smaller."
        )
