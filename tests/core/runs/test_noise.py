"""Groups of seeds and the verdict on a difference, by simulation; trainings are in tests/benchmarks/noise.py."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.train_config import TrainConfig
from core.runs.groups import free_seeds, group_with, groups_of
from core.runs.index import RunRow, group_key
from core.runs.info import RunInfo
from core.runs.noise import difference, difference_words, leader_words, mean_interval, spread_of_test
from core.runs.notes import RunNotes
from core.status import RunStatus

SIZE, COMPARISONS = 10_000, 1500


def scores(generator, count, mean=0.99, spread=0.0008):
    """Accuracies as they come: a true mean, the seeds' spread, and steps of one digit."""
    return np.round(np.clip(generator.normal(mean, spread, count), 0, 1) * SIZE) / SIZE


@pytest.mark.parametrize("spread", [0.0, 0.0002, 0.0008, 0.003])
@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (2, 2), (2, 10), (3, 3), (5, 5), (10, 10)])
def test_equal_settings_are_called_different_in_less_than_five_of_a_hundred(counts, spread):
    generator = np.random.default_rng(0)
    found = [difference(*(scores(generator, count, spread=spread) for count in counts), SIZE) for _ in range(COMPARISONS)]
    # The seeds of one run each may spread more than its digits tell; that is said with the verdict.
    most = 0.05 if max(counts) > 1 or spread <= 0.0008 else 1.0
    assert np.mean([one.real for one in found]) <= most


def test_unequal_spreads_do_not_fool_it():
    generator = np.random.default_rng(1)
    found = [
        difference(scores(generator, 10, spread=0.0003), scores(generator, 3, spread=0.003), SIZE).real
        for _ in range(COMPARISONS)
    ]
    assert np.mean(found) <= 0.05


def test_a_difference_of_fifteen_hundredths_of_a_point_is_found_with_ten_seeds():
    generator = np.random.default_rng(2)
    found = [
        difference(scores(generator, 10, spread=0.0008), scores(generator, 10, 0.9915, spread=0.0008), SIZE)
        for _ in range(COMPARISONS)
    ]
    assert np.mean([one.real and one.mean > 0 for one in found]) >= 0.8
    assert np.mean([one.low <= 0.0015 <= one.high for one in found]) >= 0.96  # the interval holds the truth


accuracies = st.lists(st.integers(0, SIZE).map(lambda right: right / SIZE), min_size=1, max_size=6)


@given(accuracies, accuracies)
def test_the_interval_holds_the_difference_and_turns_with_it(first, second):
    found, back = difference(first, second, SIZE), difference(second, first, SIZE)
    assert found.low < found.mean < found.high
    assert np.isfinite([found.low, found.high]).all()
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))
    assert difference_words(found, SIZE).startswith("Real" if found.real else "Could be noise")


@given(st.integers(1, 10_000).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size))))
def test_the_spread_of_one_model_lies_around_its_accuracy(given_):
    size, right = given_
    low, high = spread_of_test(right / size, size)
    assert -1e-9 <= low <= right / size + 1e-9
    assert right / size - 1e-9 <= high <= 1 + 1e-9


def test_a_group_needs_a_run():
    with pytest.raises(ValueError, match="needs a run"):
        difference([], [0.99], SIZE)


def row(number: int, score=0.99, status=RunStatus.FINISHED, parent=None, imported="", **changes) -> RunRow:
    info = RunInfo(f"run-{number}", status, test_accuracy=score, parent=parent, imported=imported)
    return RunRow(info, RunNotes(), dataclasses.replace(TrainConfig(), **changes))


def test_a_group_is_what_differs_in_its_seed_only():
    rows = [
        row(1, seed=0),
        row(2, seed=1),
        row(3, seed=1),  # the same again: it says nothing new
        row(4, seed=2, checkpoint_seconds=5),
        row(5, seed=3, score=None, status=RunStatus.RUNNING),
        row(6, learning_rate=0.1),
        row(7, seed=9, parent="run-1"),
        row(8, seed=8, imported="file.pt"),
    ]
    groups = groups_of(rows)
    assert [[one.run_id for one in group.runs] for group in groups] == [["run-1", "run-2", "run-4", "run-5"], ["run-6"]]
    assert groups[0].scores == (0.99, 0.99, 0.99)
    assert groups[0].test_size == 10_000
    assert free_seeds(groups[0], 3) == [4, 5, 6]
    assert free_seeds(groups[1], 2) == [1, 2]
    assert group_with(rows, TrainConfig(seed=77)).runs == groups[0].runs
    assert group_with(rows, TrainConfig(epochs=3)).runs == ()
    assert group_key(TrainConfig(seed=5)) == group_key(TrainConfig(seed=6))


def test_of_two_runs_of_a_seed_the_scored_one_speaks():
    rows = [row(1, score=None, status=RunStatus.FAILED), row(2), row(3, score=None, status=RunStatus.RUNNING)]
    assert [one.run_id for one in groups_of(rows)[0].runs] == ["run-2"]


def test_the_leader_by_luck_is_called_so():
    lucky = groups_of([row(1, 0.991), row(2, 0.9905, learning_rate=0.01), row(3, 0.95, learning_rate=0.1)])
    words = leader_words(lucky)
    assert words.startswith(
        "Highest test accuracy: learning rate 0.001, 99.10 %, but 1 of the 2 other settings could be as good"
    )
    assert words.endswith("More seeds would tell.")
    clear = groups_of([row(1, 0.99), row(2, 0.97, learning_rate=0.01)])
    assert (
        leader_words(clear)
        == "Highest test accuracy: learning rate 0.001, 99.00 %; the difference to every other setting is real."
    )
    assert leader_words(clear[:1]) == ""
    assert leader_words(groups_of([row(1), row(2, dataset="mnist_sample")])) == ""  # not the same test digits


def test_an_interval_stays_among_accuracies():
    low, high = mean_interval([0.99, 0.991], SIZE)
    assert (0 < low < 0.99, high) == (True, 1.0)
