"""The verdict *real or noise* on trainings: preset fast99 with many seeds.

`false_real`: of 100 comparisons of ten seeds with ten others of the same settings, how many are called real. `found`: the same
with 0.15 points added to one side, a true difference with a real spread.
"""

import numpy as np

from core.runs.noise import difference
from tests.benchmarks.harness import arguments, report, train

TIMES, SIZE, POINTS = 100, 10_000, 0.0015


def main() -> None:
    """Train, compare, print."""
    import tempfile

    given = arguments(__doc__ or "", seeds=40)
    scores = []
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(given.seeds):
            words = ("--preset", "fast99", "--set", f"seed={seed}", "--data", given.data, "--runs", runs)
            scores.append(float(train(*words)["test_accuracy"]))
    generator, half = np.random.default_rng(0), min(10, given.seeds // 2)
    false_real = found = 0
    for _ in range(TIMES):
        order = generator.permutation(len(scores))
        first, second = ([scores[place] for place in order[start : start + half]] for start in (0, half))
        false_real += difference(first, second, SIZE).real
        higher = difference(first, [score + POINTS for score in second], SIZE)
        found += higher.real and higher.mean > 0
    spread = float(np.std(scores, ddof=1))
    values = {"false_real": false_real, "found": found, "spread_points": 100 * spread, "seeds": given.seeds}
    report(
        given,
        values,
        f"{given.seeds} seeds: {np.mean(scores):.3%} +- {spread:.3%}; of {TIMES} comparisons of {half} with {half} seeds "
        f"of the same settings {false_real} called real; with 0.15 points between them {found} found",
    )


if __name__ == "__main__":
    main()
