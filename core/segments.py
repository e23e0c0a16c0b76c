"""Which marks belong to one digit: separate digits side by side are told apart by their boxes."""

from dataclasses import dataclass

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

# Marks whose widths overlap by this share of the narrower one belong together: the bar of a 5, the stem of a 4.
_SHARED_WIDTH = 0.25
# Lower marks than this share of the tallest are parts, not digits.
_PART_HEIGHT = 0.4


@dataclass(frozen=True)
class Marks:
    """Marks put together.

    Attributes:
        groups: one tuple of indices a digit, left to right.
        stacked: two marks of a digit's size lie one above the other.
        notes: what was left out, in words.
    """

    groups: tuple[tuple[int, ...], ...]
    stacked: bool
    notes: tuple[str, ...] = ()


def group_marks(boxes: list[Box]) -> Marks:
    """Put marks into digits by their boxes (at least one)."""
    groups = [[index] for index in range(len(boxes))]
    merged = True
    while merged:
        merged = False
        for one in range(len(groups)):
            for other in range(one + 1, len(groups)):
                if _share_width(_around(boxes, groups[one]), _around(boxes, groups[other])):
                    groups[one] += groups.pop(other)
                    merged = True
                    break
            if merged:
                break
    groups, notes = _with_parts(boxes, groups)
    groups.sort(key=lambda group: _around(boxes, group)[0])
    return Marks(tuple(tuple(sorted(group)) for group in groups), any(_is_stacked(boxes, group) for group in groups), notes)


def _around(boxes: list[Box], group: list[int]) -> Box:
    lefts, tops, rights, bottoms = zip(*(boxes[index] for index in group), strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _share_width(one: Box, other: Box) -> bool:
    shared = min(one[2], other[2]) - max(one[0], other[0])
    return shared >= _SHARED_WIDTH * min(one[2] - one[0], other[2] - other[0])


def _with_parts(boxes: list[Box], groups: list[list[int]]) -> tuple[list[list[int]], tuple[str, ...]]:
    """Give marks too low for a digit to the digit beside them; leave out those that are far from any."""
    around = [_around(boxes, group) for group in groups]
    tallest = max(box[3] - box[1] for box in around)
    whole = [place for place, box in enumerate(around) if box[3] - box[1] >= _PART_HEIGHT * tallest]
    kept = {place: list(groups[place]) for place in whole}
    left_out = 0
    for place, box in enumerate(around):
        if place in kept:
            continue
        gaps = {other: max(around[other][0] - box[2], box[0] - around[other][2], 0.0) for other in whole}
        nearest = min(gaps, key=lambda other: gaps[other])
        if gaps[nearest] <= 0.25 * tallest:
            kept[nearest] += groups[place]
        else:
            left_out += 1
    notes = (f"{left_out} small mark{'s' if left_out > 1 else ''} far from any digit left out",) if left_out else ()
    return list(kept.values()), notes


def _is_stacked(boxes: list[Box], group: list[int]) -> bool:
    """Two parts of the group, split by an empty row, are both tall enough to be a digit."""
    whole = _around(boxes, group)
    ordered = sorted((boxes[index] for index in group), key=lambda box: box[1])
    reach = ordered[0][3]
    for place, box in enumerate(ordered[1:], 1):
        if box[1] > reach + 0.05 * (whole[3] - whole[1]):
            above = max(one[3] for one in ordered[:place]) - whole[1]
            below = whole[3] - box[1]
            if min(above, below) >= 0.35 * (whole[3] - whole[1]):
                return True
        reach = max(reach, box[3])
    return False
