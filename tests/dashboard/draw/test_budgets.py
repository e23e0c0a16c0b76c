"""What a visitor may send to the Draw page, through the page's entrance: it is answered or refused, and nobody else waits."""

import random
import sys
import threading
from time import monotonic, sleep
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.helpers.draw_page import answer, upload
from tests.helpers.picture_files import saved
from tests.helpers.shapes import as_canvas, drawing

LATE = 0.5


class Heartbeat(threading.Thread):
    """A thread that wants to wake every 10 ms; `worst` is the longest that it had to wait beyond."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.worst, self._done = 0.0, False

    def run(self) -> None:
        while not self._done:
            began = monotonic()
            sleep(0.01)
            self.worst = max(self.worst, monotonic() - began - 0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self.join()


def path(points, width=14.0, **more):
    commands = [["M", *points[0]], *(["L", *point] for point in points[1:])]
    return {"type": "path", "path": commands, "strokeWidth": width, **more}


def marks(count):
    return [
        path([(3 * (number % 90), 3 * (number // 90)), (3 * (number % 90) + 1, 3 * (number // 90))], 1)
        for number in range(count)
    ]


HOSTILE = {
    "far outside": [path([(10, 10), (9e9, 9e9), (-9e9, 10)])],
    "a little outside, absurdly wide": [path([(-50_000, 10), (90_000, 200)], 90_000)],
    "wide": [path([(10, 10), (200, 200)], 1e6)],
    "a width that is none": [path([(10, 10), (200, 200)], float("nan"))],
    "points by the hundred thousand": [path([(number % 280, number % 279) for number in range(400_000)])],
    "thick and long": [path([(number % 280, number * 7 % 280) for number in range(19_000)], 190)],
    "marks by the thousand": marks(5000),
    "as many marks as are read": marks(300),
    "some marks": marks(100),
    "curves": [{"type": "path", "path": [["M", 1, 1], *[["Q", 5, 5, 9, 9]] * 400_000], "strokeWidth": 9}],
    "scaled": [path([(10, 10), (200, 200)], 14, scaleX=1e9, scaleY=1e9)],
    "deep": [{"type": "path", "path": [["M", [[[]]]]], "strokeWidth": 9}],
    "no path": [{"type": "path", "path": 7}],
}


def scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is there again and again."""
    plain = saved(Image.new("L", (2400, 2400), 128), "JPEG", progressive=True)
    last = plain[plain.rindex(b"\xff\xda") : -2]
    return plain[:-2] + last * count + b"\xff\xd9"


PICTURES = {
    "progressive scans": lambda: scans(5000),
    "fewer scans": lambda: scans(150),
    "wide": lambda: saved(Image.new("L", (60_000, 1000), 200), "JPEG"),
    "wide still": lambda: saved(Image.new("L", (60_000, 200), 200), "JPEG"),
    "large": lambda: saved(Image.effect_noise((3900, 4000), 90), "PNG", compress_level=1),
    "noise": lambda: saved(Image.effect_noise((2000, 1500), 120), "JPEG"),
    "dots": lambda: saved(Image.effect_noise((300, 300), 200).point(lambda one: 255 if one > 200 else 0)),
    "large JPEG": lambda: saved(Image.effect_noise((8000, 7900), 30), "JPEG", quality=30),
    "a chunk of text": lambda: saved(Image.new("L", (300, 300)), "PNG") + b"x" * 1_000_000,
}


@pytest.fixture
def draw(monkeypatch):
    """Let the canvas send something, as a browser would."""

    def sent(app, content):
        with monkeypatch.context() as patched:
            patched.setitem(
                sys.modules,
                "streamlit_drawable_canvas",
                SimpleNamespace(st_canvas=lambda **_: SimpleNamespace(json_data=content)),
            )
            app.run(timeout=30)
        assert not app.exception

    return sent


@pytest.fixture
def heart():
    with Heartbeat() as heart:
        yield heart


@pytest.mark.parametrize("name", HOSTILE)
def test_no_drawing_keeps_the_others_waiting(page, name, heart, draw):
    app = page(drawing(7))
    heart.worst = 0.0
    began = monotonic()
    draw(app, {"objects": HOSTILE[name]})
    assert monotonic() - began < 20
    assert heart.worst < LATE
    assert answer(app) is None or name in ("scaled", "some marks", "curves", "a little outside, absurdly wide")
    app.switch_page("runs/page.py").run()
    app.switch_page("draw/page.py").run()  # what the canvas begins with is sent back to it
    assert not app.exception
    assert heart.worst < LATE
    draw(app, as_canvas(drawing(7)))
    assert answer(app) is not None


@pytest.mark.parametrize("name", PICTURES)
def test_no_picture_keeps_the_others_waiting(page, name, heart):
    content = PICTURES[name]()
    app = page()
    heart.worst = 0.0
    if len(content) < 10 * 2**20:
        upload(app, content, "picture")
    assert not app.exception
    assert heart.worst < LATE


@pytest.mark.parametrize("seed", range(12))
def test_drawings_made_at_random_are_answered_or_refused(page, seed, heart, draw):
    """Strokes of any number, length, width and place, in any mixture."""
    dice, app = random.Random(seed), page(drawing(7))
    heart.worst = 0.0
    for _ in range(4):
        objects = []
        for _ in range(dice.choice([1, 3, 30, 299])):
            reach = dice.choice([5, 300, 5_000, 90_000])
            points = [(dice.uniform(-reach, reach), dice.uniform(-reach, reach)) for _ in range(dice.choice([1, 2, 40, 500]))]
            objects.append(path(points, dice.choice([0.01, 1, 14, 60, 199])))
        draw(app, {"objects": objects})
    assert heart.worst < LATE
