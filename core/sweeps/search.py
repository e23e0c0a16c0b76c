"""Which configurations a sweep trains: a grid, or random points."""

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.config.text import parse_value
from core.config.train_config import TrainConfig, field_kind, settings
from core.errors import ConfigError

MAX_RUNS = 200


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
    points: Sequence[Mapping[str, Any]] | ParameterGrid = (
        ParameterGrid({name: list(one) for name, one in spaces.items()})
        if (random_runs is None)
        else _sampled(ParameterSampler, spaces, random_runs, seed)
    )
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
    combinations = float(np.prod([float(len(space)) if isinstance(space, list) else np.inf for space in spaces.values()]))
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
