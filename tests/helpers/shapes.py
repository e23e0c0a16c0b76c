"""Digits as strokes, for tests: points on a canvas of 280 x 280."""

import itertools

import numpy as np

from core.drawing.strokes import Drawing, Stroke


def arc(x, y, rx, ry, start=0.0, end=360.0, count=40):
    angles = np.radians(np.linspace(start, end, count))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], 1)


def line(*points, per_piece=12):
    pieces = [np.linspace(one, other, per_piece) for one, other in itertools.pairwise(points)]
    return np.concatenate(pieces)


def join(*parts):
    return np.concatenate(parts)


# How many people write them; each stroke is one array of points.
DIGITS = {
    0: [arc(140, 140, 55, 85, -90, 270)],
    1: [line((110, 90), (145, 50), (145, 230))],
    2: [join(arc(140, 100, 52, 50, -170, 30), line((185, 125), (85, 225), (200, 225)))],
    3: [join(arc(135, 95, 48, 45, -160, 90), arc(135, 185, 55, 45, -90, 150))],
    4: [line((120, 50), (80, 155), (200, 155)), line((165, 90), (165, 235))],
    5: [line((190, 55), (105, 55), (98, 130)), arc(135, 175, 55, 52, -130, 140)],
    6: [join(line((165, 50), (110, 120), (92, 170)), arc(138, 182, 46, 46, 195, 555))],
    7: [line((85, 60), (195, 60), (130, 235))],
    8: [join(arc(140, 95, 40, 42, 90, 450), arc(140, 185, 48, 48, -90, 270))],
    9: [join(arc(135, 100, 46, 46, 0, 360), line((181, 100), (178, 160), (160, 235)))],
}


def drawing(digit, scale=1.0, x=0.0, y=0.0, pen=14.0, side=280):
    """A digit, scaled around the canvas's middle and moved."""
    middle = np.array([140.0, 140.0])
    strokes = tuple(Stroke((points - middle) * scale + middle + (x, y), pen) for points in DIGITS[digit])
    return Drawing(strokes, side, side)


def as_canvas(given: Drawing):
    """The drawing as the canvas component sends it."""
    return {
        "version": "6.0.0",
        "objects": [
            {
                "type": "Path",
                "strokeWidth": stroke.width,
                "stroke": "#ffffff",
                "path": [["M" if number == 0 else "L", float(x), float(y)] for number, (x, y) in enumerate(stroke.points)],
            }
            for stroke in given.strokes
        ],
    }


def alike(one, other):
    """Cosine of two images, best over shifts of a pixel."""
    best = 0.0
    for y in (-1, 0, 1):
        for x in (-1, 0, 1):
            moved = np.roll(other, (y, x), (0, 1))
            best = max(best, float((one * moved).sum() / np.sqrt((one**2).sum() * (moved**2).sum())))
    return best


def only(reading):
    assert reading.refusal == ""
    (digit,) = reading.digits
    return digit
