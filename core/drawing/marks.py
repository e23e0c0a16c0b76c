"""Which marks belong to one digit: by the gaps between their boxes, or by a slanted line between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from core.drawing.boxes import Box

Floats = npt.NDArray[np.float64]

# Marks whose widths overlap by this share of the narrower one belong together: the bar of a 5, the stem of a 4.
_SHARED_WIDTH = 0.25
# Lower marks than this share of the tallest are parts, not digits.
_PART_HEIGHT = 0.4
# How far handwriting leans: x is moved by this share of y before widths are compared. Two strokes of one digit that a line of
# one of these slants passes between would be two digits to a reader, too; the circles of an 8, one above the other, are not.
SLANTS = np.array([0.0, -0.6, -0.45, -0.3, -0.15, 0.15, 0.3, 0.45, 0.6])


@dataclass(frozen=True, eq=False)
class Mark:
    """One piece of ink.

    Attributes:
        lefts, rights: (s,) its ends along x + slant * y, for each of SLANTS. top, bottom: along y.
    """

    lefts: Floats
    rights: Floats
    top: float
    bottom: float

    @property
    def box(self) -> Box:
        """Around it, upright."""
        return float(self.lefts[0]), self.top, float(self.rights[0]), self.bottom

    @property
    def height(self) -> float:
        """In the source's pixels."""
        return self.bottom - self.top

    def joined(self, other: "Mark") -> "Mark":
        """Both as one."""
        return Mark(
            np.minimum(self.lefts, other.lefts),
            np.maximum(self.rights, other.rights),
            min(self.top, other.top),
            max(self.bottom, other.bottom),
        )


def mark_of_points(points: Floats, radius: float) -> Mark:
    """The mark of a stroke: (n, 2) points of its middle line, and half the pen's width."""
    slanted = points[:, :1] + points[:, 1:] * SLANTS
    reach = radius * np.sqrt(1 + SLANTS**2)
    return Mark(
        slanted.min(0) - reach, slanted.max(0) + reach, float(points[:, 1].min() - radius), float(points[:, 1].max() + radius)
    )


def marks_of_labels(labels: npt.NDArray[np.integer], count: int) -> list[Mark]:
    """The marks of a picture's pieces: (height, width) numbered from 1 to `count`, 0 for paper."""
    y, x = np.nonzero(labels)
    numbers = labels[y, x]
    order = np.argsort(numbers, kind="stable")
    y, x, numbers = y[order].astype(np.float64), x[order].astype(np.float64), numbers[order]
    starts = np.searchsorted(numbers, np.arange(1, count + 1))
    lefts = np.empty((count, len(SLANTS)))
    rights = np.empty((count, len(SLANTS)))
    for place, slant in enumerate(SLANTS.tolist()):
        slanted = x + slant * y
        lefts[:, place] = np.minimum.reduceat(slanted, starts)
        rights[:, place] = np.maximum.reduceat(slanted, starts) + 1
    tops, bottoms = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts) + 1
    return [Mark(*row) for row in zip(lefts, rights, tops.tolist(), bottoms.tolist(), strict=True)]


@dataclass(frozen=True)
class Marks:
    """Marks put together.

    Attributes:
        groups: one tuple of indices a digit, left to right.
        stacked: digits lie one above the other.
        notes: what was left out, in words.
    """

    groups: tuple[tuple[int, ...], ...]
    stacked: bool
    notes: tuple[str, ...] = ()


@dataclass(eq=False)
class _Group:
    members: list[int]
    around: Mark

    def take(self, other: "_Group") -> None:
        self.members += other.members
        self.around = self.around.joined(other.around)


def group_marks(marks: Sequence[Mark]) -> Marks:
    """Put marks into digits (at least one mark). Takes a time that grows with the square of their number."""
    tallest = max(mark.height for mark in marks)
    groups = [_Group([number], mark) for number, mark in enumerate(marks)]
    place = 0
    while place < len(groups):
        other = place + 1
        while other < len(groups):
            if not _belong_together(groups[place].around, groups[other].around, tallest):
                other += 1
                continue
            groups[place].take(groups.pop(other))
            # What grew may reach one before it now; all other pairs there have been looked at.
            while (before := _first_that_belongs(groups, place, tallest)) is not None:
                groups[before].take(groups.pop(place))
                place = before
            other = place + 1
        place += 1
    kept, notes = _with_parts(groups)
    kept.sort(key=lambda group: group.around.box[0])
    stacked = any(_is_stacked(marks, group) for group in kept) or _has_rows(kept)
    return Marks(tuple(tuple(sorted(group.members)) for group in kept), stacked, notes)


def _first_that_belongs(groups: list[_Group], place: int, tallest: float) -> int | None:
    found = (one for one in range(place) if _belong_together(groups[one].around, groups[place].around, tallest))
    return next(found, None)


def _belong_together(one: Mark, other: Mark, tallest: float) -> bool:
    shared = np.minimum(one.rights, other.rights) - np.maximum(one.lefts, other.lefts)
    narrower = min(one.rights[0] - one.lefts[0], other.rights[0] - other.lefts[0])
    if shared[0] < _SHARED_WIDTH * narrower:
        return False
    # Both as tall as digits, and a slanted line passes between them: slanted digits side by side.
    return not (min(one.height, other.height) >= _PART_HEIGHT * tallest and shared.min() <= 0)


def _with_parts(groups: list[_Group]) -> tuple[list[_Group], tuple[str, ...]]:
    """Give marks too low for a digit to the digit beside them; leave out those that are far from any."""
    tallest = max(group.around.height for group in groups)
    whole = [group for group in groups if group.around.height >= _PART_HEIGHT * tallest]
    boxes = {id(group): group.around.box for group in whole}  # as they are before they take any part
    left_out = 0
    for group in groups:
        if id(group) in boxes:
            continue
        left, _, right, _ = group.around.box
        gaps = [max(boxes[id(one)][0] - right, left - boxes[id(one)][2], 0.0) for one in whole]
        nearest = int(np.argmin(gaps))
        if gaps[nearest] <= 0.25 * tallest:
            whole[nearest].take(group)
        else:
            left_out += 1
    notes = (f"{left_out} small mark{'s' if left_out > 1 else ''} far from any digit left out",) if left_out else ()
    return whole, notes


def _is_stacked(marks: Sequence[Mark], group: _Group) -> bool:
    """Two parts of the group, split by an empty row, are both tall enough to be a digit, however far apart they are."""
    ordered = sorted((marks[number] for number in group.members), key=lambda mark: mark.top)
    reach = ordered[0].bottom
    for place, mark in enumerate(ordered[1:], 1):
        if mark.top > reach + 0.05 * group.around.height:
            above = reach - ordered[0].top
            below = max(one.bottom for one in ordered[place:]) - mark.top
            if min(above, below) >= 0.35 * (above + below):
                return True
        reach = max(reach, mark.bottom)
    return False


def _has_rows(groups: list[_Group]) -> bool:
    """Neighbours share no row at all: they stand in two lines of writing."""
    return any(
        min(one.around.bottom, other.around.bottom) <= max(one.around.top, other.around.top) for one, other in pairwise(groups)
    )
