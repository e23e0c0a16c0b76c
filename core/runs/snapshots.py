"""Weights kept along a run, for looking back: at steps 0, 1, 2, 4, 8, ... and at ends of epochs."""

import re
from contextlib import suppress
from pathlib import Path

from core.config.train_config import TrainConfig

FOLDER = "snapshots"
MAX_EPOCHS_KEPT = 20
_NAME = re.compile(r"step-(\d{8})\.pt", re.ASCII)


def snapshot_steps(config: TrainConfig) -> frozenset[int]:
    """After which steps the weights are kept: about 2 + log2(steps) + 20 at most, whatever the length of the run."""
    total, per_epoch = config.total_steps(), config.steps_per_epoch()
    geometric = {0} | {2**power for power in range(total.bit_length()) if 2**power < total}
    stride = -(-config.epochs // MAX_EPOCHS_KEPT)
    epochs = {epoch * per_epoch for epoch in range(stride, config.epochs + 1, stride)}
    return frozenset(geometric | epochs | {total})


def snapshot_path(run: Path, step: int) -> Path:
    """Where the weights of a step are kept in a run's folder."""
    return run / FOLDER / f"step-{step:08d}.pt"


def kept_snapshots(run: Path) -> dict[int, Path]:
    """Step -> file of the snapshots that a run has so far, by step."""
    try:
        found = {int(match[1]): path for path in (run / FOLDER).iterdir() if (match := _NAME.fullmatch(path.name))}
    except OSError:
        return {}
    return dict(sorted(found.items()))


def forget_snapshots_after(run: Path, step: int) -> None:
    """Delete the snapshots after a step that a run goes on from: they are made again."""
    for later, path in kept_snapshots(run).items():
        if later > step:
            with suppress(OSError):
                path.unlink()
