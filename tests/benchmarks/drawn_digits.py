"""Digits drawn as strokes at 5 sizes x 4 pen widths x 5 places, answered by a 99 % model: the accuracy of every cell.

The strokes are the skeletons of test digits, which no model here was trained on. Beside it the naive way: the canvas
shrunk to 28x28.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
from skimage.morphology import skeletonize
from skimage.transform import resize

from core.data.sources import load_mnist
from core.drawing.digit_image import NAIVE, Preprocessing
from core.drawing.read import read
from core.drawing.strokes import Drawing, Stroke
from core.model.predictor import Predictor, load_predictor
from tests.benchmarks.harness import arguments, report, train

SIDE = 280
SIZES, PENS = (40, 80, 130, 190, 250), (3, 8, 16, 28)
PLACES = ((0.5, 0.5), (0, 0), (1, 0), (0, 1), (1, 1))


def skeleton(image: np.ndarray) -> list[np.ndarray]:
    """The middle lines of a (28, 28) digit, one pen movement for each connected piece, going back where it must; points in
    pixels of 28x28. Specks of under 2 pixels are left out."""
    large = resize(image / 255, (112, 112), order=3) > 0.4
    pixels = {tuple(int(number) for number in place) for place in np.argwhere(skeletonize(large))}
    steps = [step for step in itertools.product((-1, 0, 1), repeat=2) if step != (0, 0)]
    pieces: list[np.ndarray] = []
    while pixels:
        seen, path = _walk(min(pixels), pixels, steps)
        pixels -= seen
        pieces.append(np.array(path, float)[:, ::-1] / 4)
    longest = max(len(piece) for piece in pieces)
    return [piece for piece in pieces if len(piece) >= min(8, longest)]


def _walk(start: tuple[int, int], pixels: set[tuple[int, int]], steps: list[tuple[int, ...]]):
    seen, path, stack = {start}, [start], [start]
    while stack:
        y, x = stack[-1]
        following = next((there for dy, dx in steps if (there := (y + dy, x + dx)) in pixels and there not in seen), None)
        if following is None:
            stack.pop()
            if stack:
                path.append(stack[-1])
        else:
            seen.add(following)
            stack.append(following)
            path.append(following)
    return seen, path


def placed(lines: list[np.ndarray], size: float, pen: float, place: tuple[float, float]) -> Drawing:
    """The lines on the canvas with their long side `size` pixels, at one of the places."""
    points = np.concatenate(lines)
    low, high = points.min(0), points.max(0)
    scale = size / (high - low).max()
    corner = pen / 2 + (SIDE - pen - (high - low) * scale) * place
    return Drawing(tuple(Stroke((line - low) * scale + corner, pen) for line in lines), SIDE, SIDE)


def accuracy(predictor: Predictor, drawings: list[Drawing], labels: np.ndarray, steps: Preprocessing) -> float:
    """Share answered rightly; what is refused counts as wrong."""
    images = np.zeros((len(drawings), 1, 28, 28), np.float32)
    answered = np.zeros(len(drawings), bool)
    for number, one in enumerate(drawings):
        reading = read(one, steps)
        if len(reading.digits) == 1:
            answered[number], images[number] = True, reading.digits[0].model_input
    digits = np.array([prediction.digit for prediction in predictor.predict(images)])
    return float((answered & (digits == labels)).mean())


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", digits=500)
    with tempfile.TemporaryDirectory() as runs:
        result = train("--preset", "fast99", "--data", given.data, "--runs", runs)
        predictor = load_predictor(Path(runs) / result["run_id"] / "best.pt")
    test = load_mnist(given.data)[1]
    chosen = np.random.default_rng(0).permutation(len(test))[: given.digits]
    digits, labels = [skeleton(test.images[index, 0]) for index in chosen], test.labels[chosen]
    cells, naive = {}, {}
    for size, pen, place in itertools.product(SIZES, PENS, PLACES):
        drawings = [placed(lines, min(size, SIDE - pen), pen, place) for lines in digits]
        cells[size, pen, place] = accuracy(predictor, drawings, labels, Preprocessing())
        naive[size, pen, place] = accuracy(predictor, drawings, labels, NAIVE)
    print("size  pen: accuracy over the places, worst .. best (naive)")
    for size, pen in itertools.product(SIZES, PENS):
        ours, theirs = ([table[size, pen, place] for place in PLACES] for table in (cells, naive))
        print(f"{size:4} {pen:4}: {min(ours):.1%} .. {max(ours):.1%}  ({min(theirs):.1%} .. {max(theirs):.1%})")
    values = {
        "worst_cell": min(cells.values()),
        "mean": float(np.mean(list(cells.values()))),
        "naive_worst_cell": min(naive.values()),
        "naive_mean": float(np.mean(list(naive.values()))),
        "model_test_accuracy": result["test_accuracy"],
        "digits": given.digits,
    }
    report(
        given,
        values,
        f"{len(cells)} cells of {given.digits} digits: worst {values['worst_cell']:.1%}, mean "
        f"{values['mean']:.1%}; naive: worst {values['naive_worst_cell']:.1%}, mean {values['naive_mean']:.1%}; the model "
        f"has {result['test_accuracy']:.2%} on the test split",
    )


if __name__ == "__main__":
    main()
