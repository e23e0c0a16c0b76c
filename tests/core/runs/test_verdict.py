"""What is said of a run that has ended, by its curves: each ending has a verdict, and its remedy can be trained."""

import dataclasses

import numpy as np
import pytest

from core.errors import Failure
from core.finding import Verdict
from core.runs.info import RunInfo
from core.runs.verdict import so_far, verdict
from core.status import RunStatus
from tests.helpers.recordings import SMALL_SCORE, snapshot_of, validated


def ended(view, status=RunStatus.FINISHED, **info):
    return dataclasses.replace(view, info=dataclasses.replace(view.info, status=status, **info))


def scored(view, **score):
    tested = dataclasses.replace(view.tested, evaluation=dataclasses.replace(SMALL_SCORE, **score))
    return dataclasses.replace(view, tested=tested)


def with_losses(losses, **config):
    """A finished run of 100 steps whose train loss falls and whose validation losses are these, one an epoch."""
    view = snapshot_of(100)
    validations = tuple(validated(10 * (place + 1), loss=loss) for place, loss in enumerate(losses))
    return dataclasses.replace(
        view, validations=validations, config=dataclasses.replace(view.config, epochs=len(losses), **config)
    )


@pytest.mark.parametrize("status", [status for status in RunStatus if status.is_active])
def test_a_run_that_goes_on_has_no_verdict(status):
    assert verdict(ended(snapshot_of(10), status)) is None


def in_training(losses):
    return ended(with_losses(losses), RunStatus.RUNNING)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([0.4], "First validation: loss 0.4, 97.0 % right"),
        ([0.5, 0.3], "It learns: the validation loss fell from 0.5 to 0.3"),
        ([0.5, 0.3, 0.31, 0.32, 0.33], "has not been below 0.3, that of step 20, for 3 validations"),
        ([0.30, 0.20, 0.24, 0.28, 0.33], "it memorises its digits"),
        ([0.5, float("nan")], "is no number"),
        ([0.3, 0.31], "has not fallen yet: 0.3, then 0.31"),
    ],
)
def test_a_run_in_training_is_told_how_it_goes(losses, words):
    found = so_far(in_training(losses))
    assert words in found.evidence
    assert so_far(ended(with_losses(losses))) is None


def test_before_the_first_validation_the_train_loss_is_held_against_guessing():
    view = dataclasses.replace(ended(snapshot_of(5), RunStatus.RUNNING), validations=())
    assert "where guessing has 2.303" in so_far(view).evidence
    assert so_far(dataclasses.replace(ended(snapshot_of(0), RunStatus.QUEUED), validations=())) is None


def test_a_run_that_learned_is_praised_and_changes_nothing():
    found = verdict(with_losses([0.5, 0.3, 0.29, 0.28]))
    assert found.verdict == Verdict.OK
    assert found.evidence.startswith("Test accuracy 95.00 %")
    assert not found.remedy


@pytest.mark.parametrize(
    ("losses", "config", "score", "remedy"),
    [
        (np.full(100, 2.3), {"learning_rate": 1e-5}, {}, {"learning_rate": 1e-4}),
        (np.full(100, 5.0), {"learning_rate": 1.0}, {}, {"learning_rate": 0.1}),
        (np.full(100, 2.3), {"order": "by_class"}, {}, {"order": "shuffled"}),
        (np.full(100, 2.3), {"learning_rate": 0.5}, {"unanswered": 40}, {"learning_rate": 0.05}),
    ],
)
def test_a_run_that_learned_nothing_is_told_so_with_its_likeliest_cause(losses, config, score, remedy):
    view = scored(snapshot_of(100, losses.astype(np.float32)), accuracy=0.1, **score)
    found = verdict(dataclasses.replace(view, config=dataclasses.replace(view.config, **config)))
    assert found.verdict == Verdict.FAIL
    assert "learned nothing: test accuracy 10.00 %" in found.evidence
    assert found.remedy == pytest.approx(remedy) if "order" not in remedy else found.remedy == remedy
    assert not dataclasses.replace(view.config, **found.remedy).problems()


def test_one_spike_is_no_rate_too_high():
    losses = np.full(100, 2.3, np.float32)
    losses[50] = 1e6
    found = verdict(scored(snapshot_of(100, losses), accuracy=0.1))
    assert "too low" in found.advice


def test_memorising_is_told_with_its_figures():
    found = verdict(with_losses([0.30, 0.20, 0.24, 0.28, 0.33]))
    assert found.verdict == Verdict.NOTE
    assert "Since step 20 the validation loss rose from 0.200 to 0.330 while the train loss fell" in found.evidence
    assert found.remedy == {"epochs": 2}
    assert "memorises" not in verdict(with_losses([0.30, 0.20, 0.22, 0.21, 0.23])).evidence  # noise
    assert "memorises" not in verdict(with_losses([0.30, 0.25, 0.20, 0.33])).evidence  # the last one alone


def test_a_loss_that_still_falls_asks_for_more():
    found = verdict(with_losses([0.5, 0.4, 0.3]))
    assert found.verdict == Verdict.NOTE
    assert found.remedy == {"epochs": 6}
    assert not verdict(with_losses([0.5, 0.4, 0.3], schedule="cosine")).remedy  # its rate has ended at nothing


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (Failure.TRAINING, {"learning_rate": 1e-4}),
        (Failure.MEMORY, {"batch_size": 32, "accumulation_steps": 2}),
        (Failure.DATA, {}),
        ("OSError", {}),
    ],
)
def test_a_failure_is_told_in_its_own_words_with_what_mends_it(failure, remedy):
    found = verdict(ended(snapshot_of(10), RunStatus.FAILED, failure=failure, reason="It went wrong."))
    assert (found.verdict, found.evidence) == (Verdict.FAIL, "It went wrong.")
    assert found.remedy == pytest.approx(remedy)


def test_a_remedy_that_no_setting_takes_is_left_out():
    view = ended(snapshot_of(10), RunStatus.FAILED, failure=Failure.TRAINING, reason="NaN.")
    least = dataclasses.replace(view.config, learning_rate=1e-8)
    while not dataclasses.replace(least, learning_rate=least.learning_rate / 10).problems():
        least = dataclasses.replace(least, learning_rate=least.learning_rate / 10)
    assert not verdict(dataclasses.replace(view, config=least)).remedy


def test_stopped_and_interrupted_runs_say_what_is_left():
    assert "its last weights are saved" in verdict(ended(snapshot_of(10), RunStatus.STOPPED)).evidence
    waited = dataclasses.replace(snapshot_of(0), info=RunInfo("id", RunStatus.STOPPED))
    assert "nothing was trained" in verdict(waited).evidence
    assert "It was killed." in verdict(ended(snapshot_of(10), RunStatus.INTERRUPTED, reason="It was killed.")).evidence
    assert SMALL_SCORE.accuracy == 0.95
