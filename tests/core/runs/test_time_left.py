"""The time that is left, against runs of which everything is known."""

import dataclasses

import pytest

from core.events import StoppedEarly
from core.runs.time_left import SAVING, TESTING, VALIDATING, phase, seconds_for, seconds_left, steps_per_second
from tests.helpers.recordings import SMALL_SCORE, snapshot_of
from tests.helpers.trainings import SAMPLE


def test_the_rate_is_that_of_the_last_seconds_and_evaluations_count():
    snapshot = dataclasses.replace(snapshot_of(200), tested=None)
    rate = steps_per_second(snapshot)
    assert rate is not None
    left = snapshot.total_steps - snapshot.step
    plain = left / rate
    found = seconds_left(snapshot)
    assert found is not None
    assert found >= plain
    dearer = dataclasses.replace(
        snapshot,
        validations=tuple(
            dataclasses.replace(one, evaluation=dataclasses.replace(one.evaluation, seconds=one.evaluation.seconds + 10))
            for one in snapshot.validations
        ),
    )
    _, validation, test = snapshot.config.split_sizes()
    waiting = snapshot.config.validations(snapshot.validations[-1].step, snapshot.total_steps)
    assert seconds_left(dearer) - found == pytest.approx(10 * (waiting + test / validation), rel=1e-6)


@pytest.mark.parametrize("times", [0, 1, 3, 7])
@pytest.mark.parametrize("epochs", [1, 3])
def test_how_many_validations_are_still_to_come_is_what_the_loop_makes(times, epochs):
    config = dataclasses.replace(SAMPLE, epochs=epochs, validations_per_epoch=times)
    total = config.total_steps()
    made = [step for step in range(1, total + 1) if config.validates_after(step)]
    assert total in made
    for step in range(0, total + 1, 3):
        assert config.validations(step, total) == sum(one > step for one in made)


def test_an_estimate_counts_what_is_scored_between():
    config = dataclasses.replace(SAMPLE, epochs=2, validations_per_epoch=3)
    train, validation, test = config.split_sizes()
    assert seconds_for(config, 100.0) == pytest.approx((2 * train + (6 * validation + test) / 3) / 100)


def test_what_is_being_scored_is_counted_down_by_the_silence_and_no_further():
    between = dataclasses.replace(snapshot_of(15), tested=None)
    assert phase(between) == ""
    # The validation after step 20 is due and not yet recorded.
    due = dataclasses.replace(between, steps=snapshot_of(20).steps)
    assert phase(due) == VALIDATING
    fresh, each = seconds_left(due), due.validations[-1].evaluation.seconds
    assert fresh is not None
    assert seconds_left(dataclasses.replace(due, quiet=0.04)) == pytest.approx(fresh - 0.04)
    assert seconds_left(dataclasses.replace(due, quiet=1e6)) == pytest.approx(fresh - each)
    # Between validations silence is no progress.
    assert seconds_left(dataclasses.replace(between, quiet=5)) == seconds_left(between)


def test_after_an_early_stop_only_the_test_is_left():
    _, validation, test = SAMPLE.split_sizes()
    view = dataclasses.replace(snapshot_of(20), tested=None, stopped_early=StoppedEarly(20, "enough"))
    assert phase(view) == TESTING
    assert seconds_left(view) == pytest.approx(SMALL_SCORE.seconds * test / validation)
    assert phase(dataclasses.replace(view, tested=snapshot_of(20).tested)) == SAVING


def test_before_anything_is_known_there_is_no_figure():
    snapshot = snapshot_of(1)
    assert steps_per_second(snapshot) is None
    assert seconds_left(snapshot) is None
