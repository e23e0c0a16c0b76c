"""Is a difference real, or could it be noise? Seeds as samples, t-tests over them, and what so many test digits can tell."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.config.text import format_value
from core.config.train_config import settings
from core.runs.groups import Group

# Of a hundred comparisons of equal settings two say *real* on average; with 95 % it would be five, and often more.
CONFIDENCE = 0.98
# Usual for the spread of one accuracy by its test digits.
SPREAD_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """How far a second group's mean accuracy lies from a first one's.

    Attributes:
        mean: second less first, in shares. low, high: where the true difference lies with a probability of CONFIDENCE.
        seeds: runs of each.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[int, int]

    @property
    def real(self) -> bool:
        """True when no difference is out of the question."""
        return self.low > 0 or self.high < 0


def spread_of_test(accuracy: float, size: int) -> tuple[float, float]:
    """Where a model's accuracy on all digits of this kind lies, by its accuracy on `size` of them: Wilson's interval (1927)."""
    from scipy import stats

    right = min(size, max(0, round(accuracy * size)))
    found = stats.binomtest(right, size).proportion_ci(SPREAD_CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def difference(first: Sequence[float], second: Sequence[float], size: int) -> Difference:
    """Compare the accuracies of two groups of seeds on the same `size` test digits.

    Two t-tests, and the wider interval of both: the one for equal variances is exact where nothing differs but luck, Welch's
    (1947) holds where the spreads differ. With one run on one side the spread is the other's; with one on both only the number
    of test digits is known, so that is taken for it.

    Raises:
        ValueError: a group without a run.
    """
    if not len(first) or not len(second):
        raise ValueError("each group needs a run")
    return _difference(tuple(map(float, first)), tuple(map(float, second)), size)


# A table of a thousand runs asks for each of them at every refresh.
@functools.lru_cache(maxsize=4096)
def _difference(first: tuple[float, ...], second: tuple[float, ...], size: int) -> Difference:
    from scipy import stats

    one, two = np.array(first), np.array(second)
    mean, seeds = float(two.mean() - one.mean()), (len(one), len(two))
    if max(seeds) == 1:
        variance = sum(max(share * (1 - share), 1 / size) / size for share in (float(one[0]), float(two[0])))
        half = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) * math.sqrt(variance)
        return Difference(mean, mean - half, mean + half, seeds)
    # Accuracies come in steps of one digit: two that are equal do not spread by nothing.
    variances = [max(float(group.var(ddof=1)), 1 / size**2) if len(group) > 1 else 0.0 for group in (one, two)]
    freedom = sum(seeds) - 2
    pooled = sum((count - 1) * variance for count, variance in zip(seeds, variances, strict=True)) / freedom
    errors = [(pooled * sum(1 / count for count in seeds), float(freedom))]
    if min(seeds) > 1:
        each = [variance / count for variance, count in zip(variances, seeds, strict=True)]
        welch = sum(each) ** 2 / sum(one**2 / (count - 1) for one, count in zip(each, seeds, strict=True))
        errors.append((sum(each), welch))
    half = max(float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees)) * math.sqrt(squared) for squared, degrees in errors)
    return Difference(mean, mean - half, mean + half, seeds)


def difference_words(found: Difference, size: int) -> str:
    """The verdict in a sentence: **real** or **could be noise**, with the interval."""
    points, low, high = (100 * value for value in (found.mean, found.low, found.high))
    of = " and ".join(f"{count} seed{'s' if count > 1 else ''}" for count in found.seeds)
    interval = f"{points:+.2f} points, {100 * CONFIDENCE:.0f} % interval {low:+.2f} to {high:+.2f} ({of}, {size:,} test digits)"
    if found.real:
        return f"Real: {interval}."
    if max(found.seeds) == 1:
        return f"Could be noise: {interval}. With one seed each only the number of test digits is known; train more seeds."
    return f"Could be noise: {interval}."


def leader_words(groups: Sequence[Group]) -> str:
    """Which settings have the highest test accuracy, and how many others could be as good; "" without two to choose from.

    Only groups that were scored on the same digits are compared.
    """
    scored = [group for group in groups if group.scores]
    if len(scored) < 2 or len({(group.config.dataset, group.test_size) for group in scored}) > 1:
        return ""
    best = max(scored, key=lambda group: float(np.mean(group.scores)))
    others = [group for group in scored if group is not best]
    found = [difference(group.scores, best.scores, best.test_size) for group in others]
    level = sum(not one.real for one in found)
    seeds = f" ({len(best.scores)} seeds)" if len(best.scores) > 1 else ""
    words = f"Highest test accuracy: {_told_from(best, scored)}{seeds}, {100 * float(np.mean(best.scores)):.2f} %"
    if not level:
        return f"{words}; the difference to every other setting is real."
    luck = "the other setting" if len(others) == 1 else f"{level} of the {len(others)} other settings"
    more = " More seeds would tell." if min(min(one.seeds) for one in found) < 5 else ""
    return f"{words}, but {luck} could be as good: the difference could be noise.{more}"


def _told_from(group: Group, others: Sequence[Group]) -> str:
    """The name that a person gave a run of the group, or the settings in which the groups differ."""
    named = next((row.notes.name for row in group.runs if row.notes.name), "")
    varied = [name for name in settings() if len({getattr(other.config, name) for other in others}) > 1]
    values = (f"{settings()[name].label.lower()} {format_value(getattr(group.config, name)) or 'none'}" for name in varied)
    return named or ", ".join(values)


def mean_interval(scores: Sequence[float], size: int) -> tuple[float, float]:
    """Where the mean over all seeds lies with a probability of CONFIDENCE, by the seeds that were trained (Student's t); of a
    single run where its accuracy lies, by its test digits."""
    from scipy import stats

    if len(scores) == 1:
        return spread_of_test(scores[0], size)
    values = np.asarray(scores, float)
    error = max(float(values.std(ddof=1)), 1 / size) / math.sqrt(len(values))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * error
    return max(0.0, float(values.mean()) - half), min(1.0, float(values.mean()) + half)
