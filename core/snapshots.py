"""Weights kept along a run, for looking back: at steps 0, 1, 2, 4, 8, ... and at ends of epochs."""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.answers import answers_of
from core.config import TrainConfig
from core.errors import CoreError, RunError
from core.predictor import Images, load_predictor

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


@dataclass(frozen=True, eq=False)
class Travel:
    """Images through every snapshot of a run.

    Attributes:
        steps: int64 (s,), rising. probabilities: float32 (s, n, 10).
        damaged: files that could not be read, in words.
    """

    steps: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    damaged: tuple[str, ...]

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        """int64 (s, n): the digit of each; NO_ANSWER where there is none."""
        return answers_of(self.probabilities)

    def flips(self, image: int = 0) -> list[tuple[int, int, int]]:
        """(step, digit before, digit from then on) for each change of an image's answer."""
        digits = self.answers[:, image]
        return [
            (int(self.steps[place]), int(digits[place - 1]), int(digits[place]))
            for place in range(1, len(digits))
            if digits[place] != digits[place - 1]
        ]


def travel(run: Path, images: Images) -> Travel:
    """Ask every snapshot of a run about images, in eval mode.

    Raises:
        RunError: the run keeps no snapshot that can be read.
    """
    steps, answers, damaged = [], [], []
    for step, path in kept_snapshots(run).items():
        try:
            answers.append(np.stack([one.probabilities for one in load_predictor(path).predict(images)]))
            steps.append(step)
        except CoreError as error:
            damaged.append(str(error))
    if not steps:
        raise RunError(f"Run {run.name} keeps no snapshots of its weights. Runs keep them while they train.")
    return Travel(np.array(steps, np.int64), np.stack(answers), tuple(damaged))
