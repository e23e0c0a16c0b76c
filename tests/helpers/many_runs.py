"""Make thousands of finished runs with made-up numbers, for the Runs page: python -m tests.helpers.many_runs FOLDER COUNT."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from core.config.train_config import TrainConfig
from core.events import REPORT_DTYPE, STEP_DTYPE, Evaluation, StepsEnded, Tested, Validated
from core.runs.notes import change_notes
from core.runs.writer import RunWriter
from core.status import RunStatus

_STATES = (RunStatus.FINISHED,) * 16 + (RunStatus.STOPPED, RunStatus.FAILED, RunStatus.RUNNING)


def make_runs(root: Path, count: int, seed: int = 0) -> list[str]:
    """Write `count` run folders of 100 steps each and return their ids."""
    random = np.random.default_rng(seed)
    return [_make(root, random, number) for number in range(count)]


def _make(root: Path, random: np.random.Generator, number: int) -> str:
    rate = float(f"{10 ** random.uniform(-4.5, -0.5):.2g}")
    model = str(random.choice(["mlp", "simple_cnn", "cnn_batchnorm", "fast_cnn"]))
    config = replace(
        TrainConfig(),
        learning_rate=rate,
        model=model,
        optimizer=str(random.choice(["adam", "sgd", "adamw"])),
        batch_size=int(random.choice([16, 32, 64, 128])),
        seed=number,
        epochs=1,
    )
    writer = RunWriter.create(root, config, None)
    quality = 0.995 - 0.02 * (np.log10(rate) + 2.5) ** 2 - 0.01 * (model == "mlp") + random.normal(0, 0.002)
    rows, report = np.zeros(100, STEP_DTYPE), np.zeros(1, REPORT_DTYPE)
    rows["step"], rows["seconds"] = np.arange(1, 101), np.arange(1, 101) * 0.02
    rows["loss"] = 2.3 * np.exp(-np.arange(100) / 30) + random.normal(0, 0.05, 100) + (1 - quality)
    rows["learning_rate"], rows["gradient_norm"], rows["images"] = rate, 1.0, config.batch_size
    report["step"], report["seconds"], report["duration"], report["resident"] = 100, 2.0, 2.0, 4e8
    accuracy = float(np.clip(quality, 0.1, 0.999))
    confusion = tuple(tuple(100 if row == column else 0 for column in range(10)) for row in range(10))
    score = Evaluation(1 - accuracy, accuracy, confusion, (), 0.1)
    writer.append(StepsEnded(rows, report))
    writer.append(Validated(100, 1.0, score, True))
    status = _STATES[number % len(_STATES)]
    if status == RunStatus.FINISHED:
        writer.append(Tested(100, score))
        writer.update(test_accuracy=accuracy - 0.001)
    writer.update(best_accuracy=accuracy)
    writer.set_status(status, "The loss became nan at step 101." if status == RunStatus.FAILED else "")
    writer.close()
    if number % 10 == 0:
        change_notes(writer.folder, name=f"Trial {number}", tags=("class 7b",), note="Made up.")
    return writer.run_id


if __name__ == "__main__":
    print(f"{len(make_runs(Path(sys.argv[1]), int(sys.argv[2])))} runs in {sys.argv[1]}")
