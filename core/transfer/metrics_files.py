"""A run's metrics for other programs: CSV, Parquet and TensorBoard's event files."""

import io
import logging
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from core.events import STEP_DTYPE
from core.runs.reader import RunView
from core.runs.thinning import thin

# TensorBoard itself draws 1,000 points of a line; writing one takes about 0.1 ms.
MAX_TENSORBOARD_STEPS = 5_000
# What a step is known by, rather than what was measured of it.
_NOT_DRAWN = ("step", "seconds", "correct", "images")
_STEP_TAGS = {name: f"train/{name}" for name in ("accuracy", *(STEP_DTYPE.names or ())) if name not in _NOT_DRAWN}

SCORES = ("validation_loss", "validation_accuracy", "test_loss", "test_accuracy")


def metrics_columns(snapshot: RunView) -> dict[str, np.ndarray]:
    """One row a step: STEP_DTYPE's columns, and SCORES as masked arrays, in the row of their step and masked elsewhere. The
    same columns for every run, whatever became of it: NaN is a value that was measured, a masked entry is none."""
    columns: dict[str, np.ndarray] = {name: snapshot.steps.column(name) for name in STEP_DTYPE.names or ()}
    scores = {name: np.ma.masked_all(len(snapshot.steps), np.float64) for name in SCORES}
    found = [("validation", validation.step, validation.evaluation) for validation in snapshot.validations]
    found += [("test", snapshot.tested.step, snapshot.tested.evaluation)] if snapshot.tested else []
    for kind, step, evaluation in found:
        row = step - 1 - snapshot.info.first_step
        if 0 <= row < len(snapshot.steps):
            scores[f"{kind}_loss"][row], scores[f"{kind}_accuracy"][row] = evaluation.loss, evaluation.accuracy
    return columns | scores


def metrics_csv(snapshot: RunView) -> bytes:
    """`metrics_columns` as CSV: NaN is written as NaN, what was not measured at a step is empty."""
    import pandas as pd

    columns = metrics_columns(snapshot)
    table = pd.DataFrame({name: values for name, values in columns.items() if name not in SCORES})
    for name in SCORES:
        scores = columns[name]
        assert isinstance(scores, np.ma.MaskedArray)
        words = np.full(len(scores), "", object)
        measured = np.flatnonzero(~np.ma.getmaskarray(scores))
        words[measured] = [repr(value) if value == value else "NaN" for value in scores.data[measured].tolist()]
        table[name] = words
    return table.to_csv(index=False, na_rep="NaN").encode()


def metrics_parquet(snapshot: RunView) -> bytes:
    """`metrics_columns` as Parquet: every number with all its bits; NaN is NaN, what was not measured at a step is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = io.BytesIO()
    arrays = {
        name: pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
        for name, values in metrics_columns(snapshot).items()
    }
    pq.write_table(pa.table(arrays), target)
    return target.getvalue()


def tensorboard_zip(snapshots: list[RunView]) -> bytes:
    """A zip with one folder of TensorBoard event files a run: unpack it and point `tensorboard --logdir` at it.

    Runs of more than MAX_TENSORBOARD_STEPS steps are thinned out, each line by itself: the smallest and the largest value of
    each stretch stay, and so do what is not finite and the last step.
    """
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for snapshot in snapshots:
            write_tensorboard(snapshot, Path(folder) / snapshot.info.run_id)
        for path in sorted(Path(folder).rglob("events.out.*")):
            archive.write(path, path.relative_to(folder).as_posix())
    return packed.getvalue()


def write_tensorboard(snapshot: RunView, folder: Path) -> None:
    """Write a run's event file: scalars train/*, validation/*, test/* and memory/*, and the settings as text."""
    from tensorboardX import SummaryWriter

    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)  # it warns of each NaN, which is written all the same
    started = snapshot.info.created_at
    steps, reports = snapshot.steps, snapshot.reports
    with SummaryWriter(str(folder), write_to_disk=True) as writer:
        writer.add_text("settings", f"```json\n{snapshot.config.to_json()}```", 0, started)
        for name, tag in _STEP_TAGS.items():
            rows = _kept_rows(steps.column(name))
            _scalars(writer, tag, steps.column("step")[rows], steps.column(name)[rows], started + steps.column("seconds")[rows])
        gpu = len(reports) > 0 and float(reports.column("total")[-1]) > 0
        for name in ("resident", *(("allocated", "reserved", "peak") if gpu else ())):
            rows = _kept_rows(reports.column(name))
            _scalars(
                writer,
                f"memory/{name}_bytes",
                reports.column("step")[rows],
                reports.column(name)[rows],
                started + reports.column("seconds")[rows],
            )
        at = snapshot.seconds_at(np.array([validation.step for validation in snapshot.validations], np.int64)).tolist()
        for one, seconds in zip(snapshot.validations, at, strict=True):
            moment = started + seconds
            writer.add_scalar("validation/loss", one.evaluation.loss, one.step, moment)
            writer.add_scalar("validation/accuracy", one.evaluation.accuracy, one.step, moment)
        if snapshot.tested:
            score, moment = snapshot.tested.evaluation, started + float(snapshot.seconds_at(np.array([snapshot.step]))[0])
            writer.add_scalar("test/loss", score.loss, snapshot.tested.step, moment)
            writer.add_scalar("test/accuracy", score.accuracy, snapshot.tested.step, moment)


def _kept_rows(values: np.ndarray) -> np.ndarray:
    """Rows of one column that are written."""
    if len(values) <= MAX_TENSORBOARD_STEPS:
        return np.arange(len(values))
    broken = np.flatnonzero(~np.isfinite(values))[:MAX_TENSORBOARD_STEPS]
    return np.unique(np.concatenate([thin(values, buckets=MAX_TENSORBOARD_STEPS // 2).rows, broken, [len(values) - 1]]))


def _scalars(writer: Any, tag: str, steps: np.ndarray, values: np.ndarray, moments: np.ndarray) -> None:
    for step, value, moment in zip(steps.tolist(), values.tolist(), moments.tolist(), strict=True):
        writer.add_scalar(tag, value, step, moment)
