"""Pictures of every kind that people bring, read by the quick preset's network: `python -m tests.benchmarks.pictures [--json]`.

Fields: for each kind `right` (all digits read as they are), `told` (refused, or a word on what is in the way), `wrong` (another
answer without a word) and `sure_wrong` (that, and called sure): shares of its pictures. `read_right`: over all but rows.
"""

import argparse
import json
from collections import Counter

import numpy as np

from core.data.sources import data_root, load_pool, missing_files
from core.drawing.picture import read_picture
from core.drawing.read import read
from core.errors import DrawingError
from core.model.predictor import Predictor
from tests.benchmarks.harness import quick_predictor
from tests.helpers.pictures import KINDS, Sample


def judged(sample: Sample, predictor: Predictor) -> str:
    """One of right, told, wrong, sure_wrong."""
    try:
        reading = read(read_picture(sample.content))
    except DrawingError:
        return "told"
    if not reading.digits:
        return "told"
    answers = predictor.predict(np.stack([image.model_input for image in reading.digits]))
    if tuple(one.digit for one in answers) == sample.digits and not sample.rows:
        return "right"
    if reading.lined or reading.turned or any(image.touching or image.parted for image in reading.digits):
        return "told"
    return "sure_wrong" if min(one.confidence for one in answers) >= 0.99 else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help="one kind")
    given = parser.parse_args()
    predictor = quick_predictor()
    test = load_pool("mnist_sample" if missing_files(data_root()) else "mnist", data_root())[1]
    found: dict[str, dict[str, float]] = {}
    right = total = 0
    for kind, (count, make) in KINDS.items():
        if given.only not in (None, kind):
            continue
        random = np.random.default_rng(sum(map(ord, kind)))
        verdicts = Counter(judged(make(test, random), predictor) for _ in range(count))
        found[kind] = {name: verdicts[name] / count for name in ("right", "told", "wrong", "sure_wrong")}
        if kind != "rows":
            right, total = right + verdicts["right"], total + count
        if not given.json:
            print(f"{kind:12} " + "  ".join(f"{name} {share:4.0%}" for name, share in found[kind].items()), flush=True)
    if given.json:
        print(json.dumps({**found, "read_right": right / max(total, 1), "pictures": total}))
    else:
        print(f"read right: {right} of {total}")


if __name__ == "__main__":
    main()
