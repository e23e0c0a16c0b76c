"""A run at every step whose weights it kept: what it got wrong then, its first layer, what it said of drawings."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.data.sources import Digits
from core.errors import CoreError, RunError
from core.events import Evaluation
from core.model.predictor import Images, load_predictor
from core.runs.folder import RunFolder
from core.status import Progress
from core.training.evaluation import evaluate

SCORED = 1000  # digits: 30 snapshots of them take some seconds
MAX_FILTERS = 32


@dataclass(frozen=True, eq=False)
class Moment:
    """A network after so many steps.

    Attributes:
        evaluation: over the digits it was asked about. filters: float32 (k, h, w), what its first layer multiplies the image
            with: kernels, or whole images where it is a linear layer; k is 0 for any other network. answers: int64 (n,), of
            the drawings; NO_ANSWER where there is none.
    """

    step: int
    evaluation: Evaluation
    filters: npt.NDArray[np.float32]
    answers: npt.NDArray[np.int64]


def look_back(run: Path, digits: Digits, drawings: Images) -> Iterator[Progress | tuple[Moment, ...]]:
    """Ask every snapshot of a run; gives the moments so far after each, and leaves out snapshots that cannot be read.

    Args:
        digits: what is scored, the first `SCORED` of them. drawings: float32 (n, 1, 28, 28), normalised; n may be 0.

    Raises:
        RunError: none can be read.
    """
    asked = Digits(digits.images[:SCORED], digits.labels[:SCORED])
    moments: tuple[Moment, ...] = ()
    paths = RunFolder(run).snapshots()
    for number, (step, path) in enumerate(paths.items()):
        yield Progress(number, len(paths), f"Asking the weights of step {step:,}", "snapshots")
        try:
            predictor = load_predictor(path)
        except CoreError:
            continue  # thinned out or damaged
        answers = np.array([one.digit for one in predictor.predict(drawings)] if len(drawings) else [], np.int64)
        found = evaluate(predictor.model, asked, torch.device("cpu"))
        moments = (*moments, Moment(step, found, first_filters(predictor.model), answers))
        yield moments
    if not moments:
        raise RunError(f"Run {run.name} keeps no snapshots of its weights. Runs keep them while they train.")


def first_filters(model: nn.Module) -> npt.NDArray[np.float32]:
    """What the first layer with weights multiplies an image with: float32 (k, h, w), `MAX_FILTERS` at most."""
    layer = next((one for one in model.modules() if isinstance(one, nn.Conv2d | nn.Linear)), None)
    if layer is None:
        return np.zeros((0, 1, 1), np.float32)
    weight = layer.weight.detach().float().cpu().numpy()[:MAX_FILTERS]
    if isinstance(layer, nn.Conv2d):
        return weight[:, 0].copy()
    return weight.reshape(-1, 28, 28).copy() if weight.shape[1] == 28 * 28 else np.zeros((0, 1, 1), np.float32)
