"""Runs as they are recorded, made without training."""

import dataclasses

import numpy as np

from core.config.train_config import TrainConfig
from core.events import REPORT_DTYPE, STEP_DTYPE, Evaluation, Mistake, RunStarted, StepsEnded, StoppedEarly, Validated
from core.events import Tested as WasTested
from core.runs.history import ReportHistory, StepHistory
from core.runs.info import RunInfo
from core.runs.reader import RunView
from core.runs.writer import RunWriter
from core.status import RunStatus
from tests.helpers.trainings import SAMPLE

SCORE = Evaluation(
    0.1,
    0.97,
    tuple(tuple(range(row, row + 10)) for row in range(10)),
    (Mistake(3, 4, 9, 0.99, bytes(range(256)) * 3 + bytes(16)),),
    0.2,
)

EVENTS = (
    RunStarted(50_186, 20, 10, "cpu", "A processor", "float32", 1, ("a note",)),
    Validated(10, 1.0, SCORE, True),
    StoppedEarly(20, "enough"),
    WasTested(10, SCORE),
)

SMALL_SCORE = Evaluation(
    0.2, 0.95, tuple(tuple(10 * (row == column) + (row + 1 == column) for column in range(10)) for row in range(10)), (), 0.1
)


def made(runs, status=RunStatus.FINISHED, **changes) -> str:
    writer = RunWriter.create(runs, dataclasses.replace(SAMPLE, **changes), "tutorial")
    writer.append(steps(1, 20))
    for event in EVENTS:
        writer.append(event)
    writer.update(test_accuracy=0.9, best_accuracy=0.91)
    writer.set_status(status)
    writer.close()
    return writer.run_id


def steps(first: int, count: int) -> StepsEnded:
    rows = np.zeros(count, STEP_DTYPE)
    rows["step"] = np.arange(first, first + count)
    rows["seconds"] = rows["step"] * 0.01
    rows["loss"], rows["images"] = 1.5, 64
    report = np.zeros(1, REPORT_DTYPE)
    report["step"], report["seconds"], report["duration"] = first + count - 1, rows["seconds"][-1], 0.1
    return StepsEnded(rows, report)


def validated(step: int, **scores: float) -> Validated:
    return Validated(step, step / 10, dataclasses.replace(SCORE, **scores), False)


def snapshot_of(count: int, losses=None, total: int = 0) -> RunView:
    history, reports = StepHistory(), ReportHistory()
    if count:
        event = steps(1, count)
        rows = event.steps.copy()
        rows["loss"] = np.linspace(2.3, 0.1, count) if losses is None else losses
        rows["learning_rate"], rows["gradient_norm"], rows["correct"] = 1e-3, 1, 32
        history.append(rows)
        report = np.zeros(-(-count // 10), REPORT_DTYPE)  # one for ten steps, as a quick training makes them
        report["step"] = np.minimum(10 * np.arange(1, len(report) + 1), count)
        report["seconds"], report["duration"] = report["step"] * 0.01, 0.1
        report["resident"], report["total"], report["allocated"] = 500 * 2**20, total, total // 4
        reports.append(report)
    validations = tuple(Validated(step, step / 10, SMALL_SCORE, True) for step in range(10, count + 1, 10)[:30])
    tested = WasTested(count, SMALL_SCORE) if count else None
    info = RunInfo("20260101-000000-abcd", RunStatus.FINISHED)
    return RunView(info, SAMPLE, None, history, reports, validations, tested, None, ())


RECORDED_SECONDS = 20
STARTED = RunStarted(1, 10_000, 1_000, "cpu", "A processor", "float32", 1, (), "float32", 2)


def recorded(settings=None, started=None, *, validations=(), resident=None, step_seconds=0.01, **shares):
    """A run of 20 seconds, ten reports each, whose time went where `shares` says (of an update, data of all; cpu_ in cores)."""
    steps_each = round(0.1 / step_seconds)
    history, reports = StepHistory(), ReportHistory()
    history.append(steps(1, 10 * RECORDED_SECONDS * steps_each).steps)
    rows = np.zeros(10 * RECORDED_SECONDS, REPORT_DTYPE)
    rows["step"] = steps_each * np.arange(1, len(rows) + 1)
    rows["seconds"] = 0.1 * np.arange(1, len(rows) + 1)
    rows["duration"], rows["data_seconds"] = 0.1, 0.1 * shares.get("data", 0.02)
    rows["sampled_steps"], rows["sampled_seconds"] = 1, step_seconds * (1 - shares.get("data", 0.02))
    for part, usual in (("forward", 0.3), ("backward", 0.6), ("optimizer", 0.05)):
        rows[f"{part}_seconds"] = rows["sampled_seconds"] * shares.get(part, usual)
    looks = rows[::10]
    looks["cpu_period"], looks["cpu_wanted"] = 1.0, shares.get("wanted", 1.0)
    for name in ("delay", "blocked", "pages", "elsewhere"):
        looks[f"cpu_{name}"] = shares.get(name, 0.0)
    rows["resident"] = 500 * 2**20 if resident is None else resident(rows["seconds"])
    reports.append(rows)
    config = dataclasses.replace(TrainConfig(epochs=100), **(settings or {}))
    return dataclasses.replace(
        snapshot_of(0),
        config=config,
        started=dataclasses.replace(STARTED, **(started or {})),
        steps=history,
        reports=reports,
        validations=tuple(validations),
    )
