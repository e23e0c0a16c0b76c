import numpy as np
import pytest

from core.drawing.limits import MAX_POINTS
from core.drawing.strokes import Drawing, Stroke, drawing_from_canvas, extent, render
from core.errors import DrawingError
from tests.helpers.shapes import as_canvas, drawing


def test_a_canvas_gives_its_strokes_back():
    given = drawing(5, pen=9.0)
    read = drawing_from_canvas(as_canvas(given), 280, 280)
    assert len(read.strokes) == 2
    for one, other in zip(read.strokes, given.strokes, strict=True):
        assert np.allclose(one.points, other.points)
        assert one.width == 9.0


def test_curves_are_followed():
    content = {"objects": [{"type": "path", "strokeWidth": 4, "path": [["M", 0, 0], ["Q", 10, 0, 10, 10], ["L", 10, 20]]}]}
    (stroke,) = drawing_from_canvas(content, 280, 280).strokes
    assert stroke.points[0].tolist() == [0, 0]
    assert [10, 10] in stroke.points.tolist()
    assert [7.5, 2.5] in stroke.points.tolist()  # a quadratic curve's middle: (p0 + 2 p1 + p2) / 4
    assert stroke.points[-1].tolist() == [10, 20]


@pytest.mark.parametrize("content", [None, {}, {"objects": []}, {"objects": [{"type": "rect"}]}])
def test_a_canvas_without_strokes_is_an_empty_drawing(content):
    assert drawing_from_canvas(content, 280, 280).strokes == ()


@pytest.mark.parametrize(
    "content",
    [
        {"objects": [{"type": "path", "strokeWidth": 4, "path": [["M", "a", "b"]]}]},
        {"objects": [{"type": "path", "path": [["M", 0, 0]]}]},
        {"objects": [{"type": "path", "strokeWidth": -1, "path": [["M", 0, 0]]}]},
        {"objects": [{"type": "path", "strokeWidth": 4, "path": [["M", float("nan"), 0]]}]},
        {"objects": [{"type": "path", "strokeWidth": 4, "path": [["M", 1, 2]] * (MAX_POINTS + 1)}]},
        {"objects": 7},
        "text",
    ],
)
def test_what_is_no_drawing_is_refused_in_words(content):
    with pytest.raises(DrawingError, match="Clear it and draw again"):
        drawing_from_canvas(content, 280, 280)


def test_a_line_has_the_pens_width_and_its_place():
    image = render([Stroke(np.array([[20.0, 50.0], [80.0, 50.0]]), 10.0)], (0, 0, 100, 100), (100, 100))
    column = image[:, 50]
    assert column.sum() == pytest.approx(10, abs=0.8)
    assert (column * np.arange(100)).sum() / column.sum() == pytest.approx(49.5, abs=0.6)
    assert image[50, 15:20].sum() == pytest.approx(5, abs=1)  # round ends reach half a width further
    assert image[50, :14].sum() == 0


def test_a_pen_of_its_own_replaces_every_strokes_width():
    strokes = [Stroke(np.array([[20.0, 50.0], [80.0, 50.0]]), 1.0)]
    image = render(strokes, (0, 0, 100, 100), (200, 200), pen=12.0)
    assert image[:, 100].sum() == pytest.approx(12, abs=1)


def test_extent_is_that_of_all_strokes():
    drawn = Drawing((Stroke(np.array([[1.0, 2.0]]), 3), Stroke(np.array([[9.0, 4.0], [5.0, 8.0]]), 3)), 10, 10)
    assert extent(drawn.strokes) == (1, 2, 9, 8)


def test_what_the_edit_tool_moved_scaled_and_mirrored_is_followed():
    path = [["M", 10, 20], ["L", 30, 20], ["L", 30, 60]]
    plain = {"type": "Path", "strokeWidth": 4, "path": path, "originX": "center", "originY": "center", "left": 20, "top": 40}
    (stroke,) = drawing_from_canvas({"objects": [plain]}, 280, 280).strokes
    assert stroke.points.tolist() == [[10, 20], [30, 20], [30, 60]]
    (moved,) = drawing_from_canvas({"objects": [plain | {"left": 120, "scaleX": 2, "scaleY": 2}]}, 280, 280).strokes
    assert moved.points.tolist() == [[100, 0], [140, 0], [140, 80]]
    assert moved.width == 8
    (mirrored,) = drawing_from_canvas({"objects": [plain | {"flipX": True}]}, 280, 280).strokes
    assert mirrored.points.tolist() == [[30, 20], [10, 20], [10, 60]]
    (turned,) = drawing_from_canvas({"objects": [plain | {"angle": 90}]}, 280, 280).strokes
    assert turned.points == pytest.approx(np.array([[40, 30], [40, 50], [0, 50]]))
    corner = plain | {"originX": "left", "originY": "top", "left": 8, "top": 18}  # the same place, from the corner
    (same,) = drawing_from_canvas({"objects": [corner]}, 280, 280).strokes
    assert same.points.tolist() == stroke.points.tolist()
