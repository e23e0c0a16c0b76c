"""Server time and bytes of one live refresh of the Train page's charts, and of opening such a run, by recorded steps."""

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from core.config.train_config import TrainConfig
from core.events import REPORT_DTYPE, STEP_DTYPE, StepsEnded
from core.runs.reader import RunReader
from core.runs.writer import RunWriter
from dashboard.charts.live_chart import message
from dashboard.charts.run_charts import View, run_charts
from tests.benchmarks.harness import arguments, report

SIZES = (10_000, 100_000, 1_000_000)
STEPS_A_REFRESH = 100


def write_steps(writer: RunWriter, first: int, count: int) -> None:
    """Steps as a training would record them."""
    generator = np.random.default_rng(first)
    rows = np.zeros(count, STEP_DTYPE)
    rows["step"] = np.arange(first, first + count)
    rows["seconds"] = rows["step"] * 0.01
    rows["learning_rate"], rows["images"] = 1e-3, 64
    rows["loss"], rows["gradient_norm"] = generator.exponential(0.1, count), generator.exponential(1, count)
    rows["correct"] = generator.integers(50, 64, count)
    reports = np.zeros(max(1, count // 10), REPORT_DTYPE)
    reports["step"] = np.linspace(first, first + count - 1, len(reports))
    reports["seconds"] = reports["step"] * 0.01
    reports["duration"], reports["resident"] = 0.1, generator.integers(600 * 2**20, 700 * 2**20, len(reports))
    writer.append(StepsEnded(rows, reports))


def measure(size: int, rounds: int) -> tuple[float, int, int, float]:
    """(milliseconds, bytes of the new points, bytes of a first look, seconds to open) at so many steps."""
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter.create(Path(folder), TrainConfig(epochs=1000, batch_size=10))
        write_steps(writer, 1, size)
        began = time.perf_counter()
        reader = RunReader(writer.folder)
        charts, sent, complete = run_charts(reader.read(), View())
        whole = len(json.dumps(message(charts, sent, complete, "/x", "r")))
        opened = time.perf_counter() - began
        times, sizes = [], []
        for number in range(rounds):
            write_steps(writer, size + 1 + number * STEPS_A_REFRESH, STEPS_A_REFRESH)
            began = time.perf_counter()
            charts, sent, complete = run_charts(reader.read(), View(), sent)
            text = json.dumps(message(charts, sent, complete, "/x", "r"))
            times.append(time.perf_counter() - began)
            sizes.append(len(text))
        writer.close()
    return 1000 * statistics.median(times), int(statistics.median(sizes)), whole, opened


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", rounds=40)
    measure(1_000, 5)  # imports and caches
    rows = {size: measure(size, given.rounds) for size in SIZES}
    values = {
        "milliseconds": {str(size): row[0] for size, row in rows.items()},
        "bytes": {str(size): row[1] for size, row in rows.items()},
        "first_bytes": {str(size): row[2] for size, row in rows.items()},
        "open_seconds": {str(size): row[3] for size, row in rows.items()},
    }
    words = [
        f"{size:>9,} steps: refresh {row[0]:.1f} ms, {row[1]:,} bytes; first look {row[2]:,} bytes; opened in {row[3]:.2f} s"
        for size, row in rows.items()
    ]
    report(given, values, "\n".join(words))


if __name__ == "__main__":
    main()
