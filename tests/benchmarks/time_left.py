"""The time left that the page tells, against what it was: from the fifth second on, validations, the test, a pause and a resume
counted. `worst`: the largest error in all cases, as a share of the truth or, in the last eight seconds, of eight seconds: the
page tells whole seconds, and an error of two is one that nobody sees.
"""

import dataclasses
import tempfile
import time
from pathlib import Path

from core.config.train_config import TrainConfig
from core.execution.trainer import Trainer
from core.runs.time_left import seconds_left
from core.status import RunStatus
from tests.benchmarks.harness import arguments, report

FROM, LEAST = 5.0, 8.0
BASE = TrainConfig(dataset="mnist", threads=1, epochs=2, train_size=30_000)
CASES = {
    "as it is": (BASE, ""),
    "twenty validations an epoch": (dataclasses.replace(BASE, validations_per_epoch=20, epochs=1), ""),
    "early validations rare": (dataclasses.replace(BASE, validations_per_epoch=0, epochs=2), ""),
    "a pause": (BASE, "pause"),
    "stopped and resumed": (BASE, "resume"),
}


def errors(config: TrainConfig, data: Path, event: str) -> list[float]:
    """The error of each told time, as a share of the truth."""
    told: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer, runs = Trainer(beside_pages=False), Path(folder)
        run_id = trainer.start(config, data, runs)
        paused = 0.0  # the clock of the run: what a pause takes is no time left
        began, done = 0.0, False
        while not trainer.wait_until_idle(0.25):
            view = trainer.readers.read(runs, run_id)
            if view.info.status != RunStatus.RUNNING or not len(view.steps):
                continue
            began = began or time.perf_counter()
            now = time.perf_counter() - paused
            if now - began >= FROM and (left := seconds_left(view)) is not None:
                told.append((now, left))
            if event and not done and now - began > 8:
                done, at = True, time.perf_counter()
                if event == "pause":
                    trainer.pause(run_id)
                    time.sleep(5)
                    trainer.unpause(run_id)
                else:
                    trainer.stop(run_id)
                    trainer.wait_until_idle(30)
                    trainer.resume(run_id, data, runs)
                    while trainer.active().get(run_id) in (RunStatus.QUEUED, RunStatus.PREPARING):
                        time.sleep(0.05)
                paused += time.perf_counter() - at
        end = time.perf_counter() - paused
        trainer.shutdown()
    return [abs(left - (end - now)) / max(end - now, LEAST) for now, left in told]


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "")
    worst = {}
    for name, (config, event) in CASES.items():
        found = errors(config, given.data, event)
        worst[name] = max(found)
        within = sum(one <= 0.25 for one in found) / len(found)
        print(f"{name}: {len(found)} looks, the worst {max(found):.0%} off, {within:.0%} within a quarter", flush=True)
    values = {"worst": max(worst.values()), "by_case": worst}
    report(given, values, f"time left, from the fifth second on: at most {values['worst']:.0%} off")


if __name__ == "__main__":
    main()
