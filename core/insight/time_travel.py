"""What a network said of a picture along its training, by the weights it kept on the way."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.answers import answers_of
from core.errors import CoreError, RunError
from core.model.predictor import Images, load_predictor
from core.runs.folder import RunFolder


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
    for step, path in RunFolder(run).snapshots().items():
        try:
            answers.append(np.stack([one.probabilities for one in load_predictor(path).predict(images)]))
            steps.append(step)
        except CoreError as error:
            damaged.append(str(error))
    if not steps:
        raise RunError(f"Run {run.name} keeps no snapshots of its weights. Runs keep them while they train.")
    return Travel(np.array(steps, np.int64), np.stack(answers), tuple(damaged))
