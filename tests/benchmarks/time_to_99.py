"""Preset fast99 to the end of its schedule against the tutorial's script until 99.0 % on the test set: wall time.

Both times begin when the data are read and include validation; 3 seeds, in turn. The preset's accuracy is that of the full
10,000 test digits and must reach 99.0 % for every seed.
"""

import statistics
import tempfile
import time
from pathlib import Path

from core.config.presets import preset_named
from core.data.sources import load_splits
from core.runs.reader import RunReader
from tests.benchmarks.harness import TUTORIAL, arguments, in_a_process, report, train


def preset(data: object, seed: int) -> tuple[float, float]:
    """(seconds, test accuracy) of one run of the preset: from its first step to its result, evaluations included."""
    with tempfile.TemporaryDirectory() as runs:
        result = train("--preset", "fast99", "--set", f"seed={seed}", "--data", data, "--runs", runs)
        snapshot = RunReader(Path(runs) / result["run_id"]).read()
        evaluations = [one.evaluation.seconds for one in snapshot.validations]
        assert snapshot.tested is not None
        seconds = result["train_seconds"] + sum(evaluations) + snapshot.tested.evaluation.seconds
        return seconds, result["test_accuracy"]


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", seeds=3)
    began = time.perf_counter()
    load_splits(preset_named("fast99"), given.data)
    read_seconds = time.perf_counter() - began
    ours, scripts = [], []
    for seed in range(given.seeds):
        ours.append(preset(given.data, seed))
        scripts.append(in_a_process(TUTORIAL, given.data, 0, seed + 1))
        print(
            f"seed {seed}: preset {ours[-1][0]:.1f} s, {ours[-1][1]:.2%}; script {scripts[-1]['seconds']:.1f} s after "
            f"{scripts[-1]['epochs']} epochs, {scripts[-1]['accuracy']:.2%}",
            flush=True,
        )
    seconds = statistics.median(one[0] for one in ours) + read_seconds
    reference = statistics.median(one["seconds"] for one in scripts)
    lowest = min(one[1] for one in ours)
    values = {"ratio": reference / seconds, "seconds": seconds, "reference_seconds": reference, "lowest_accuracy": lowest}
    report(
        given,
        values,
        f"preset {seconds:.1f} s, script {reference:.1f} s: {reference / seconds:.1f} times faster; the preset's "
        f"lowest test accuracy was {lowest:.2%}",
    )


if __name__ == "__main__":
    main()
