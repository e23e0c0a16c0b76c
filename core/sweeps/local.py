"""A sweep on this machine: its runs one after the other, within a budget."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from core.config.text import format_value
from core.config.train_config import TrainConfig
from core.errors import Failure, RunError
from core.execution.trainer import MAX_QUEUE, Trainer
from core.runs.folder import run_folder
from core.runs.index import index_of
from core.runs.info import read_info
from core.runs.notes import MAX_TAGS, change_notes, read_notes
from core.status import Progress, RunStatus
from core.sweeps.search import Sweep

_POLL_SECONDS = 0.2


def trained_already(configs: Sequence[TrainConfig], runs_root: Path) -> dict[TrainConfig, str]:
    """Those of the configurations that a finished run of this folder was trained with, and its id: equal settings give equal
    results, so a sweep that was cut short goes on where it was. Forks, lessons and runs from elsewhere do not count."""
    wanted, found = set(configs), {}
    for row in index_of(runs_root).rows():
        own = row.info.parent is None and not row.info.imported
        if own and row.info.status == RunStatus.FINISHED and row.config in wanted:
            found.setdefault(row.config, row.run_id)
    return found


def run_sweep(
    sweep: Sweep, trainer: Trainer, data_root: Path, runs_root: Path, *, minutes: float | None = None
) -> Iterator[Progress | str]:
    """Train a sweep's runs one after the other; each waits its turn in the queue, so that others come in between.

    Args:
        minutes: the budget; what trains when it is spent is stopped, and the rest is left out. Waiting for others costs
            nothing of it. None: no limit.

    Gives progress, and each run's id when it is started; one that was trained before (`trained_already`) gets the sweep's tag
    and is not trained again. Ending the iteration stops the run in progress.

    Raises:
        RunError: a run could not be started, or the disk takes no more.
    """
    budget, spent = 60 * minutes if minutes is not None else float("inf"), 0.0
    total = len(sweep.configs)
    known = trained_already(sweep.configs, runs_root)
    for number, config in enumerate(sweep.configs):
        if before := known.get(config):
            with suppress(RunError):  # deleted meanwhile
                _tag(run_folder(runs_root, before), sweep.tag)
                yield before
                continue
        words = f"Run {number + 1} of {total}: {_name(config, sweep.varied)}"
        while len(trainer.active()) > MAX_QUEUE:
            yield Progress(number, total, f"{words} (the queue is full)", "runs")
            time.sleep(_POLL_SECONDS)
        if spent >= budget:
            return
        run_id = trainer.start(config, data_root, runs_root)
        folder = run_folder(runs_root, run_id)
        try:  # whatever ends this from here on ends the run, too
            change_notes(folder, tags=(sweep.tag,), name=_name(config, sweep.varied))
            yield run_id
            while status := trainer.active().get(run_id):
                info = read_info(folder)
                share = info.step / max(1, info.total_steps)
                yield Progress(number + share, total, words, "runs")
                if spent >= budget:
                    yield Progress(number + share, total, "The time is spent: this run is stopped", "runs")
                    return
                time.sleep(_POLL_SECONDS)
                spent += _POLL_SECONDS if status == RunStatus.RUNNING else 0.0
        finally:
            trainer.stop(run_id)
        _refuse_full_disk(folder)
    before = f", {len(known)} of them before this sweep" if known else ""
    yield Progress(total, total, f"All {total} runs are done{before}", "runs")


def _tag(folder: Path, tag: str) -> None:
    tags = read_notes(folder).tags
    if len(tags) < MAX_TAGS:  # a person's own are not pushed out
        change_notes(folder, tags=(*tags, tag))


def _refuse_full_disk(folder: Path) -> None:
    try:
        info = read_info(folder)
    except RunError:
        return  # somebody has deleted the run since
    if info.failure == Failure.RUN:
        raise RunError(info.reason)


def _name(config: TrainConfig, varied: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {format_value(getattr(config, name)) or 'none'}" for name in varied)[:80]
