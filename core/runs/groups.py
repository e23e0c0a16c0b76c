"""Runs of the same settings with other seeds, as one group: what a setting gives, rather than what one run happened to give."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.config.train_config import TrainConfig
from core.runs.index import RunRow, group_key
from core.status import RunStatus


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed.

    Attributes:
        config: their settings, the seed aside. runs: one for each seed, by seed: equal seeds give equal results, so a second
            run of one says nothing new.
    """

    config: TrainConfig
    runs: tuple[RunRow, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Test accuracies in [0, 1] of the finished runs, by seed."""
        return tuple(row.info.test_accuracy for row in self.runs if row.info.test_accuracy is not None)

    @property
    def test_size(self) -> int:
        """Digits that each was scored on."""
        return self.config.split_sizes()[2]


def groups_of(rows: Sequence[RunRow]) -> list[Group]:
    """The groups of these runs, in the order in which their first run stands; a run of its own is a group of one.

    Forks, lessons and runs from elsewhere began with weights that their seed does not say: they are in none.
    """
    found: dict[str, dict[int, RunRow]] = {}
    for row in rows:
        if row.config is None or not row.group_key:
            continue
        runs = found.setdefault(row.group_key, {})
        known = runs.get(row.config.seed)
        if known is None or _worth(row) > _worth(known):
            runs[row.config.seed] = row
    return [Group(_config(runs), tuple(runs[seed] for seed in sorted(runs))) for runs in found.values()]


def _config(runs: dict[int, RunRow]) -> TrainConfig:
    config = next(iter(runs.values())).config
    assert config is not None  # rows without one are in no group
    return replace(config, seed=0)


def group_with(rows: Sequence[RunRow], config: TrainConfig) -> Group:
    """The group that a run of these settings belongs to; without any run yet it is empty."""
    own = group_key(config)
    return next(iter(groups_of([row for row in rows if row.group_key == own])), Group(replace(config, seed=0), ()))


def free_seeds(group: Group, count: int) -> list[int]:
    """The smallest seeds that no run of the group has."""
    taken = {row.config.seed for row in group.runs if row.config is not None}
    seeds: list[int] = []
    seed = 0
    while len(seeds) < count:
        if seed not in taken:
            seeds.append(seed)
        seed += 1
    return seeds


def _worth(row: RunRow) -> int:
    """Which of two runs of a seed speaks for it: one that was scored, else one that may be."""
    return 2 if row.info.test_accuracy is not None else int(row.info.status in (RunStatus.FINISHED, *_TO_COME))


_TO_COME = tuple(status for status in RunStatus if status.is_active)
