"""The memory pipeline at its best settings against the tutorial's script, same network, batch 64: images/s as a ratio.

Both run in processes of their own, in turn, on idle cores and then beside a process that keeps one core busy. Each side
uses the settings that are best for it there: ours the thread count that is quicker in a short trial, the script torch's
default, as tutorials leave it.
"""

import statistics
import tempfile

from tests.benchmarks.harness import TUTORIAL, arguments, busy_neighbour, in_a_process, report, train

STEPS = 200


def product(data: object, threads: int, train_size: int) -> float:
    """Training images/s of the product for simple_cnn at batch 64."""
    with tempfile.TemporaryDirectory() as runs:
        settings = {"epochs": 1, "train_size": train_size, "validation_size": 1000, "threads": threads, "precision": "auto"}
        changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        return train("--data", data, "--runs", runs, *changes)["train_images_per_second"]


def measure(data: object, rounds: int) -> tuple[float, float, int]:
    """(product, script, threads): medians of images/s over the rounds, in turn."""
    threads = max((1, 2), key=lambda count: product(data, count, 64 * 60))
    pairs = [
        (product(data, threads, 64 * STEPS), in_a_process(TUTORIAL, data, STEPS + 20)["images_per_second"])
        for _ in range(rounds)
    ]
    ours, script = (statistics.median(values) for values in zip(*pairs, strict=True))
    return ours, script, threads


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", rounds=3)
    ours, script, threads = measure(given.data, given.rounds)
    with busy_neighbour():
        busy_ours, busy_script, busy_threads = measure(given.data, given.rounds)
    values = {
        "ratio": ours / script,
        "ratio_busy": busy_ours / busy_script,
        "images_per_second": ours,
        "script_images_per_second": script,
        "threads": threads,
        "busy_images_per_second": busy_ours,
        "busy_script_images_per_second": busy_script,
        "busy_threads": busy_threads,
    }
    report(
        given,
        values,
        f"idle cores: {ours:,.0f} against {script:,.0f} images/s, {values['ratio']:.2f} times ({threads} threads); "
        f"beside a busy core: {busy_ours:,.0f} against {busy_script:,.0f}, {values['ratio_busy']:.2f} times ({busy_threads})",
    )


if __name__ == "__main__":
    main()
