"""Several trainings at once, step by step beside each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.sources import load_splits
from core.errors import TrainingError
from core.events import StepDone, StepsEnded, Validated
from core.status import Progress
from core.training.loop import train
from core.training.reporting import take_pending
from core.training.state import new_state


@dataclass(frozen=True, eq=False)
class TwinLosses:
    """Losses of some steps of one twin: int64 and float32 (k,)."""

    name: str
    steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float32]


@dataclass(frozen=True)
class TwinScore:
    """Validation accuracy of one twin after a step, in [0, 1], eval mode."""

    name: str
    step: int
    accuracy: float


@dataclass(frozen=True)
class TwinEnded:
    """One twin has ended; `reason` says why when it was not the end of the budget."""

    name: str
    step: int
    reason: str = ""


@dataclass(frozen=True)
class Twins:
    """All that is known of the twins so far, in the order it came."""

    losses: tuple[TwinLosses, ...] = ()
    scores: tuple[TwinScore, ...] = ()
    ended: tuple[TwinEnded, ...] = ()


def twin_trainings(twins: Mapping[str, TrainConfig], data_root: Path) -> Iterator[Progress | Twins]:
    """Train all twins step by step in turn, so that their curves grow side by side."""
    found = Twins()
    total = sum(config.total_steps() for config in twins.values())
    yield Progress(0, total, "Reading the digits", "steps")
    running = {}
    splits = load_splits(next(iter(twins.values())), data_root)
    for name, config in twins.items():
        state = new_state(config, beside_pages=True)
        batches = make_batches(config, splits.train, state.device)
        # The twins are scored on validation digits; the test split stays out of it.
        running[name] = state, train(state, batches, splits.validation, splits.validation)
    done = dict.fromkeys(twins, 0)
    while running:
        for name, (state, events) in list(running.items()):
            ended = None
            try:
                for event in events:
                    if isinstance(event, StepsEnded):
                        found = replace(found, losses=(*found.losses, _losses(name, event)))
                        yield found
                    elif isinstance(event, Validated):
                        score = TwinScore(name, event.step, event.evaluation.accuracy)
                        found = replace(found, scores=(*found.scores, score))
                        yield found
                    elif isinstance(event, StepDone) and state.step > done[name]:
                        break
                else:
                    ended = TwinEnded(name, state.step)
            except TrainingError as error:
                if report := take_pending(state):
                    found = replace(found, losses=(*found.losses, _losses(name, report)))
                ended = TwinEnded(name, state.step, str(error))
            if ended is not None:
                found = replace(found, ended=(*found.ended, ended))
                yield found
                del running[name]
            done[name] = state.step
            yield Progress(sum(done.values()), total, "Twins train in turn", "steps")


def _losses(name: str, report: StepsEnded) -> TwinLosses:
    return TwinLosses(name, report.steps["step"].astype(np.int64), report.steps["loss"].copy())
