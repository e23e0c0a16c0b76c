"""A sweep: many runs that differ in a few settings, one after the other, within a budget."""

import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from core.config import TrainConfig, field_kind, format_value, parse_value, settings
from core.errors import ConfigError, RunError
from core.events import Progress, RunStatus
from core.run_index import index_of
from core.run_notes import MAX_TAGS, change_notes, read_notes
from core.run_store import read_info, run_folder
from core.trainer import MAX_QUEUE, Trainer

MAX_RUNS = 200
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Sweep:
    """What a sweep will train.

    Attributes:
        configs: one a run, in order. varied: the names of the settings that differ. tag: on each of its runs.
        note: why there are fewer runs than were asked for, in words; "" when there are not.
    """

    configs: tuple[TrainConfig, ...]
    varied: tuple[str, ...]
    tag: str
    note: str = ""


def sweep_of(base: TrainConfig, choices: Mapping[str, str], *, random_runs: int | None = None, seed: int = 0) -> Sweep:
    """The configurations of a sweep.

    Args:
        base: the settings that all share. choices: setting -> values as text: `0.1, 0.01` lists them; `1e-4 .. 1e-1` is a
            range, drawn from evenly on a logarithmic scale (random search only).
        random_runs: so many random combinations; None: the grid of all.
        seed: of the random search.

    Raises:
        ConfigError: unusable values, too many runs, or combinations that cannot be trained.
    """
    from sklearn.model_selection import ParameterGrid, ParameterSampler

    if not choices:
        raise ConfigError({"sweep": "choose at least one setting to vary"})
    spaces = _spaces(choices, ranges=random_runs is not None)
    points: Sequence[Mapping[str, Any]] | ParameterGrid = ParameterGrid({name: list(one) for name, one in spaces.items()}) if (
        random_runs is None) else _sampled(ParameterSampler, spaces, random_runs, seed)  # fmt: skip
    if len(points) > MAX_RUNS:
        raise ConfigError(
            {"sweep": f"{len(points):,} runs are too many: at most {MAX_RUNS}. List fewer values, or search at random"}
        )
    configs, problems = [], {}
    for point in points:
        config = replace(base, **{name: _plain(name, value) for name, value in point.items()})
        problems.update(config.problems())
        if config not in configs:
            configs.append(config)
    if problems:
        raise ConfigError(problems)
    asked, note = random_runs if random_runs is not None else _listed(choices), ""
    if len(configs) < asked:
        note = (
            f"{len(configs)} different run{'s' if len(configs) != 1 else ''} instead of {asked:,}: the others "
            "would repeat these"
        )
    return Sweep(tuple(configs), tuple(choices), f"sweep-{time.strftime('%m%d-%H%M')}-{secrets.token_hex(1)}", note)


def _listed(choices: Mapping[str, str]) -> int:
    """How many combinations the texts of a grid name, doubles counted."""
    return math.prod(max(1, sum(bool(part.strip()) for part in text.split(","))) for text in choices.values())


def _sampled(sampler: Any, spaces: Mapping[str, Any], runs: int, seed: int) -> list[Mapping[str, Any]]:
    if not 1 <= runs <= MAX_RUNS:
        raise ConfigError({"sweep": f"a random search has 1 to {MAX_RUNS} runs; got {runs:,}"})
    combinations = float(np.prod([float(len(one)) if isinstance(one, list) else np.inf for one in spaces.values()]))
    return list(sampler(dict(spaces), n_iter=int(min(runs, combinations)), random_state=seed))


def _spaces(choices: Mapping[str, str], *, ranges: bool) -> dict[str, Any]:
    """Setting -> list of values, or a distribution over a range. Raises ConfigError naming every unusable one."""
    from scipy.stats import loguniform

    spaces: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, text in choices.items():
        low, mark, high = text.partition("..")
        try:
            if not mark:
                # A comma at the end adds nothing; an empty text is a value only where a setting may be empty.
                parts = [part for part in text.split(",") if part.strip()] or [text]
                values = [parse_value(name, part) for part in parts]
                spaces[name] = list(dict.fromkeys(values))
                continue
            first, last = parse_value(name, low), parse_value(name, high)
        except ConfigError as error:
            problems.update(error.problems)
            continue
        if not ranges:
            problems[name] = f"a grid needs single values with commas between them; got the range {text.strip()!r:.60}"
        elif field_kind(name) not in (int, float) or first is None or last is None or not 0 < first < last:
            problems[name] = f"a range needs two numbers above 0, the smaller one first; got {text.strip()!r:.60}"
        else:
            spaces[name] = loguniform(first, last)
    if problems:
        raise ConfigError(problems)
    return spaces


def _plain(name: str, value: Any) -> Any:
    """A drawn value as a setting holds it: whole numbers whole, others with three digits, which is as much as matters."""
    if not isinstance(value, np.generic | float) or settings()[name].choices or field_kind(name) is bool:
        return value
    return (
        round(float(value))
        if field_kind(name) is int
        else float(f"{float(value):.3g}")
        if isinstance(value, np.generic)
        else value
    )


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
    if info.failure == RunError.__name__:
        raise RunError(info.reason)


def _name(config: TrainConfig, varied: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {format_value(getattr(config, name)) or 'none'}" for name in varied)[:80]
