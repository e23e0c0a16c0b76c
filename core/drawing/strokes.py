"""What a person drew: strokes with a pen, independent of any screen. Read from a canvas, drawn as grey pixels."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from core.drawing.limits import check_ink, check_objects, check_pen, check_points
from core.errors import DrawingError

Points = npt.NDArray[np.float64]
Grey = npt.NDArray[np.float32]

_FARTHEST = 1e5  # pixels: a drawing that was moved aside is cut off, anything beyond is no drawing
_CURVE_PIECES = 4
_SUPERSAMPLING = 2


@dataclass(frozen=True, eq=False)
class Stroke:
    """One line from pen-down to pen-lift.

    Attributes:
        points: (n, 2) x and y in pixels of the canvas, n at least 1.
        width: of the pen, in the same pixels.
    """

    points: Points
    width: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """Strokes on a canvas of `width` by `height` pixels; white on black."""

    strokes: tuple[Stroke, ...]
    width: int
    height: int


def drawing_from_canvas(content: Any, width: int, height: int) -> Drawing:
    """Read the JSON of a Fabric.js canvas (freely drawn paths with the commands M, L and Q; other objects are passed over).

    What lies outside the canvas was not seen when it was drawn, and is cut off.

    Raises:
        DrawingError: the content is no drawing, or larger than `drawing_limits` allow.
    """
    with _words_for_what_is_none():
        strokes = [_stroke_of(one) for one in _paths_of(content)]
    filled, seen = 0.0, []
    for stroke in strokes:
        check_pen(stroke.width)
        if not (np.abs(stroke.points) < _FARTHEST).all():
            raise DrawingError("The canvas sent points that are no numbers, or far outside of it. Clear it and draw again.")
        for part in _clipped(stroke, width, height):
            filled = check_ink(len(part.points), part.width, filled)
            seen.append(part)
    return Drawing(tuple(seen), width, height)


def check_canvas(content: Any) -> None:
    """Refuse what is too much to be read, kept or sent to a page again, at the cost of counting it. Raises DrawingError."""
    with _words_for_what_is_none():
        _paths_of(content)


@contextlib.contextmanager
def _words_for_what_is_none() -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
        raise DrawingError(
            f"The canvas sent something that is no drawing ({type(error).__name__}). Clear it and draw again."
        ) from error


def _paths_of(content: Any) -> list[Any]:
    objects = (content or {}).get("objects", [])
    check_objects(len(objects))
    paths = [one for one in objects if str(one.get("type", "")).lower() == "path" and one.get("path")]
    check_points(sum(_length(path["path"]) for path in paths))
    return paths


def _length(path: Any) -> int:
    """Points that a path becomes. By its commands alone, before any of it is read."""
    return sum(_CURVE_PIECES if command[0] == "Q" else 1 for command in path)


def _clipped(stroke: Stroke, width: int, height: int) -> list[Stroke]:
    """The parts of a stroke whose middle line runs within the canvas."""
    limits = np.array([float(width), float(height)])
    if ((stroke.points >= 0) & (stroke.points <= limits)).all():
        return [stroke]
    if len(stroke.points) == 1:
        return []
    parts: list[list[tuple[float, float]]] = []
    for begin, end in zip(stroke.points[:-1], stroke.points[1:], strict=True):
        inside = _inside(begin, end, limits)
        if inside is None:
            continue
        first, last = (begin + share * (end - begin) for share in inside)
        start, stop = (float(first[0]), float(first[1])), (float(last[0]), float(last[1]))
        if not parts or inside[0] > 0 or parts[-1][-1] != start:
            parts.append([start])
        parts[-1].append(stop)
    return [Stroke(np.array(part), stroke.width) for part in parts]


def _inside(begin: Points, end: Points, limits: Points) -> tuple[float, float] | None:
    """The shares of a line between which it runs from 0 to the limits (Liang and Barsky 1984); None when it does nowhere."""
    low, high = 0.0, 1.0
    for start, change, limit in zip(begin.tolist(), (end - begin).tolist(), limits.tolist(), strict=True):
        if change == 0:
            if not 0 <= start <= limit:
                return None
            continue
        first, last = sorted(((0 - start) / change, (limit - start) / change))
        low, high = max(low, first), min(high, last)
    return (low, high) if low <= high else None


def _stroke_of(one: dict[str, Any]) -> Stroke:
    """A path object with what the canvas's edit tool did to it: moved, scaled, turned, mirrored."""
    points, width = _flatten(one["path"]), float(one["strokeWidth"])
    if "left" not in one or "top" not in one:
        return Stroke(points, width)
    scale = np.array([float(one.get("scaleX", 1)), float(one.get("scaleY", 1))])
    low, high = points.min(0), points.max(0)
    # Fabric places a path by its box, the pen's width included, from the side that its origin names.
    half = (high - low + width) * scale / 2
    share = [_ORIGIN.get(str(one.get(name, "left")), 0.0) for name in ("originX", "originY")]
    middle = np.array([float(one["left"]), float(one["top"])]) + half * (1 - 2 * np.array(share))
    angle = math.radians(float(one.get("angle", 0)))
    mirror = np.array([-1.0 if one.get("flipX") else 1.0, -1.0 if one.get("flipY") else 1.0])
    if (scale == 1).all() and not angle and (mirror == 1).all() and np.abs(middle - (low + high) / 2).max() < 2:
        return Stroke(points, width)
    moved = (points - (low + high) / 2) * scale * mirror
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return Stroke(moved @ turn + middle, width * float(np.sqrt(scale.prod())))


_ORIGIN = {"left": 0.0, "top": 0.0, "center": 0.5, "right": 1.0, "bottom": 1.0}


def _flatten(path: list[list[Any]]) -> Points:
    """Path commands as points; quadratic curves in a few straight pieces."""
    points: list[tuple[float, float]] = []
    for command, *numbers in path:
        values = [float(number) for number in numbers]
        if command in ("M", "L"):
            points.append((values[0], values[1]))
        elif command == "Q" and points:
            (x0, y0), (x1, y1, x2, y2) = points[-1], values
            for step in range(1, _CURVE_PIECES + 1):
                t = step / _CURVE_PIECES
                points.append(
                    ((1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t**2 * x2, (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2)
                )
    if not points:
        raise ValueError("a path without points")
    return np.array(points)


def render(
    strokes: Sequence[Stroke], box: tuple[float, float, float, float], shape: tuple[int, int], pen: float | None = None
) -> Grey:
    """Draw what lies in a box of the canvas as pixels, with round ends and joints.

    Args:
        box: left, top, right, bottom on the canvas.
        shape: (height, width) of the result; it should have the box's proportions.
        pen: width of every stroke in pixels of the result; None keeps each stroke's own, scaled with the box.

    Returns:
        float32 (height, width), 0 black to 1 white.
    """
    left, top, right, bottom = box
    many = _SUPERSAMPLING
    scale = many * max(shape[1] / max(right - left, 1e-3), shape[0] / max(bottom - top, 1e-3))
    sheet = Image.new("L", (shape[1] * many, shape[0] * many))
    draw = ImageDraw.Draw(sheet)
    for stroke in strokes:
        width = max(1.0, stroke.width * scale if pen is None else pen * many)
        width = min(width, 2.0 * sum(sheet.size))  # a dot that fills the sheet, however near one looks
        points = _thinned((stroke.points - (left, top)) * scale, width / 8)
        _draw_line(draw, points, width)
    return np.asarray(sheet.reduce(many), np.float32) / np.float32(255)


def _thinned(points: Points, distance: float) -> Points:
    """Leave out points that lie closer together than a pen's width can show."""
    kept = [points[0]]
    for point in points[1:-1]:
        if math.dist(point, kept[-1]) >= distance:
            kept.append(point)
    if len(points) > 1:
        kept.append(points[-1])
    return np.array(kept)


def _draw_line(draw: ImageDraw.ImageDraw, points: Points, width: float) -> None:
    radius = width / 2
    if len(points) > 1:
        draw.line([(float(x), float(y)) for x, y in points], fill=255, width=round(width))
    for x, y in points:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255)


def extent(strokes: Sequence[Stroke]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the strokes' middle lines."""
    points = np.concatenate([stroke.points for stroke in strokes])
    (left, top), (right, bottom) = points.min(0), points.max(0)
    return float(left), float(top), float(right), float(bottom)
