"""A run's metrics for other programs: CSV, Parquet and TensorBoard's event files."""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.events import REPORT_DTYPE, STEP_DTYPE
from core.metrics import thin
from core.run_reader import RunSnapshot

if TYPE_CHECKING:
    import pandas as pd

# TensorBoard itself draws 1,000 points of a line; writing one takes about 0.1 ms.
MAX_TENSORBOARD_STEPS = 5_000
_STEP_TAGS = {"loss": "train/loss", "accuracy": "train/accuracy", "learning_rate": "train/learning_rate",
              "gradient_norm": "train/gradient_norm"}  # fmt: skip


def metrics_frame(snapshot: RunSnapshot) -> "pd.DataFrame":
    """One row a step, indexed by step, with STEP_DTYPE's columns; validation and test scores stand in the row of their step."""
    import pandas as pd

    table = pd.DataFrame({name: snapshot.steps.column(name) for name in STEP_DTYPE.names or ()}).set_index("step")
    for one in snapshot.validations:
        table.loc[one.step, ["validation_loss", "validation_accuracy"]] = one.evaluation.loss, one.evaluation.accuracy
    if snapshot.tested:
        score = snapshot.tested.evaluation
        table.loc[snapshot.tested.step, ["test_loss", "test_accuracy"]] = score.loss, score.accuracy
    return table


def metrics_csv(snapshot: RunSnapshot) -> bytes:
    """`metrics_frame` as CSV."""
    return metrics_frame(snapshot).to_csv().encode()


def metrics_parquet(snapshot: RunSnapshot) -> bytes:
    """`metrics_frame` as Parquet: every number with all its bits, and much smaller than CSV."""
    target = io.BytesIO()
    metrics_frame(snapshot).reset_index().to_parquet(target, index=False)
    return target.getvalue()


def tensorboard_zip(snapshots: list[RunSnapshot]) -> bytes:
    """A zip with one folder of TensorBoard event files a run: unpack it and point `tensorboard --logdir` at it.

    Runs of more than MAX_TENSORBOARD_STEPS steps are thinned out: the smallest and the largest loss of each stretch stay.
    """
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for snapshot in snapshots:
            write_tensorboard(snapshot, Path(folder) / snapshot.info.run_id)
        for path in sorted(Path(folder).rglob("events.out.*")):
            archive.write(path, path.relative_to(folder).as_posix())
    return packed.getvalue()


def write_tensorboard(snapshot: RunSnapshot, folder: Path) -> None:
    """Write a run's event file: scalars train/*, validation/*, test/* and memory/*, and the settings as text."""
    from tensorboardX import SummaryWriter

    started = snapshot.info.created_at
    steps, reports = snapshot.steps, snapshot.reports
    with SummaryWriter(str(folder), write_to_disk=True) as writer:
        writer.add_text("settings", f"```json\n{snapshot.config.to_json()}```", 0, started)
        rows = thin(steps.column("loss"), buckets=MAX_TENSORBOARD_STEPS // 2).rows
        if len(steps) <= MAX_TENSORBOARD_STEPS:
            rows = np.arange(len(steps))
        for name, tag in _STEP_TAGS.items():
            _scalars(writer, tag, steps.column("step")[rows], steps.column(name)[rows],
                     started + steps.column("seconds")[rows])  # fmt: skip
        if len(reports):
            gpu = float(reports.column("total")[-1]) > 0
            kept = thin(reports.column("resident"), buckets=MAX_TENSORBOARD_STEPS // 2).rows
            for name in [
                one for one in REPORT_DTYPE.names or () if one in ("resident", *(("allocated", "reserved") if gpu else ()))
            ]:
                _scalars(writer, f"memory/{name}_bytes", reports.column("step")[kept], reports.column(name)[kept],
                         started + reports.column("seconds")[kept])  # fmt: skip
        at = snapshot.seconds_at(np.array([one.step for one in snapshot.validations], np.int64)).tolist()
        for one, seconds in zip(snapshot.validations, at, strict=True):
            moment = started + seconds
            writer.add_scalar("validation/loss", one.evaluation.loss, one.step, moment)
            writer.add_scalar("validation/accuracy", one.evaluation.accuracy, one.step, moment)
        if snapshot.tested:
            score, moment = snapshot.tested.evaluation, started + float(snapshot.seconds_at(np.array([snapshot.step]))[0])
            writer.add_scalar("test/loss", score.loss, snapshot.tested.step, moment)
            writer.add_scalar("test/accuracy", score.accuracy, snapshot.tested.step, moment)


def _scalars(writer: Any, tag: str, steps: np.ndarray, values: np.ndarray, moments: np.ndarray) -> None:
    for step, value, moment in zip(steps.tolist(), values.tolist(), moments.tolist(), strict=True):
        writer.add_scalar(tag, value, step, moment)
