"""How a run ended, as a finding: what its curves say, what to do about it, and which settings would do that."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from core.config.train_config import TrainConfig
from core.errors import Failure
from core.finding import Finding, Verdict
from core.runs.reader import RunView
from core.status import RunStatus

Remedy = Mapping[str, Any]

# Below this share of right answers on ten classes a network has learned next to nothing.
LEARNED = 0.3
GUESSING = math.log(10)
# A validation loss that rises by so much over its lowest is no noise: the last validations of one run differ by a few per cent.
_RISEN, _STILL_FALLING = 1.25, 0.95


def verdict(view: RunView) -> Finding | None:
    """What a person should think of a run that has ended, and what to do next; None while it is active.

    The remedy is changed settings of the run; empty when nothing needs mending, or no setting would mend it.
    """
    info = view.info
    if info.status.is_active:
        return None
    return within_limits(_verdict(view), view.config)


def within_limits(found: Finding, config: TrainConfig) -> Finding:
    """A finding about a run; at the end of a setting's range there is no remedy in it."""
    return replace(found, remedy={}) if replace(config, **found.remedy).problems() else found


def so_far(view: RunView) -> Finding | None:
    """What the curves of a run in training say up to now; None before its first step and after its end."""
    if not view.info.status.is_active or not len(view.steps):
        return None
    losses = [validated.evaluation.loss for validated in view.validations]
    if not losses:
        loss = _train_loss(view, view.step)
        return Finding("So far", f"No validation yet. The train loss is {loss:.3g}, where guessing has {GUESSING:.3f}.")
    if not math.isfinite(losses[-1]):
        return Finding("So far", "The last validation loss is no number: the network's answers overflow.", Verdict.NOTE)
    if found := _overfitting(view):
        return Finding("So far", found[0], Verdict.NOTE, found[1])
    lowest = int(np.argmin([loss if math.isfinite(loss) else math.inf for loss in losses]))
    since = len(losses) - 1 - lowest
    if since > 2:
        words = f"The validation loss has not been below {losses[lowest]:.3g}, that of step {view.validations[lowest].step:,}, "
        return Finding("So far", f"{words}for {since} validations.")
    if len(losses) == 1:
        right = 100 * view.validations[0].evaluation.accuracy
        return Finding("So far", f"First validation: loss {losses[0]:.3g}, {right:.1f} % right.")
    if not lowest:
        return Finding("So far", f"The validation loss has not fallen yet: {losses[0]:.3g}, then {losses[-1]:.3g}.")
    return Finding("So far", f"It learns: the validation loss fell from {losses[0]:.3g} to {losses[lowest]:.3g}.")


def _verdict(view: RunView) -> Finding:
    info = view.info
    if info.status == RunStatus.FINISHED:
        return _finished(view)
    if info.status == RunStatus.FAILED:
        return Finding("Failed", info.reason, Verdict.FAIL, *_after_failure(view))
    if info.status == RunStatus.INTERRUPTED:
        return Finding("Interrupted", f"{info.reason} What it measured until then is below.", Verdict.NOTE)
    saved = "its last weights are saved" if view.step else "nothing was trained"
    return Finding("Stopped", f"{info.reason or 'Stopped by hand.'} The test digits were not scored; {saved}.", Verdict.NOTE)


def _after_failure(view: RunView) -> tuple[str, Remedy]:
    """(advice, remedy) after an error; the reason itself says what happened."""
    config = view.config
    if view.info.failure == Failure.TRAINING and view.step:
        return "", {"learning_rate": config.learning_rate / 10}  # the reason advises it; resuming would end in the same place
    if view.info.failure == Failure.MEMORY and config.batch_size > 1:
        # The updates stay the same: twice as many batches of half the size share one.
        return "", {"batch_size": config.batch_size // 2, "accumulation_steps": 2 * config.accumulation_steps}
    return "", {}


def _finished(view: RunView) -> Finding:
    if view.tested is None:
        return Finding("Finished", "The test digits were not scored.", Verdict.NOTE)
    score, early = view.tested.evaluation, view.stopped_early.reason if view.stopped_early else ""
    accuracy = f"Test accuracy {100 * score.accuracy:.2f} %"
    if score.accuracy < LEARNED:
        evidence = f"It learned nothing: {accuracy[0].lower()}{accuracy[1:]}, where guessing gives about 10 %."
        return Finding("Learned nothing", evidence, Verdict.FAIL, *_nothing_learned(view))
    evidence = f"{accuracy} (loss {score.loss:.4f}), scored once with the weights of step {view.tested.step:,}. {early}".strip()
    for look in (_overfitting, _still_falling):
        if found := look(view):
            more, advice, remedy = found
            return Finding("Finished", f"{evidence} {more}", Verdict.NOTE, advice, remedy)
    return Finding("Finished", evidence, Verdict.OK, "Draw a digit for it, or change one setting and compare.")


def _nothing_learned(view: RunView) -> tuple[str, Remedy]:
    """(advice, remedy) by the likeliest cause that was recorded."""
    config, losses = view.config, view.steps.column("loss")
    lower, rate = {"learning_rate": config.learning_rate / 10}, f"{config.learning_rate:g}"
    if view.tested and view.tested.evaluation.unanswered:
        return "Its answers are not numbers (NaN): weights or BatchNorm's statistics ran away. Lower the learning rate.", lower
    if config.order == "by_class":
        return "It saw the digits sorted by class and forgot each while it learned the next. Shuffle them.", {
            "order": "shuffled"
        }
    finite = losses[np.isfinite(losses)]
    if len(finite) and (high := float(np.quantile(finite, 0.9))) > 1.2 * GUESSING:  # not one spike: a tenth of the run
        return (
            f"In a tenth of the steps the loss was above {high:.3g}, more than guessing has: a learning rate of {rate} is "
            "too high here.",
            lower,
        )
    epochs = "1 epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    words = f"The loss hardly left that of guessing: a learning rate of {rate} is too low, or {epochs} too few."
    return words, {"learning_rate": config.learning_rate * 10}


def _overfitting(view: RunView) -> tuple[str, str, Remedy] | None:
    """(evidence, advice, remedy) when the validation loss has risen while the train loss fell."""
    losses = [validated.evaluation.loss for validated in view.validations]
    if len(losses) < 3 or not all(map(math.isfinite, losses)):
        return None
    lowest = int(np.argmin(losses))
    if lowest > len(losses) - 3 or losses[-1] < _RISEN * losses[lowest]:
        return None
    before, after = (_train_loss(view, view.validations[place].step) for place in (lowest, -1))
    if not after < before:
        return None
    epoch = max(1, math.ceil(view.validations[lowest].epoch))
    evidence = (
        f"Since step {view.validations[lowest].step:,} the validation loss rose from {losses[lowest]:.3f} to {losses[-1]:.3f} "
        f"while the train loss fell from {before:.2g} to {after:.2g}: it memorises its digits."
    )
    if epoch >= view.config.epochs:
        return evidence, "Dropout, or digits that are moved and turned, would help.", {}
    advice = f"{epoch} epoch{'s' if epoch > 1 else ''} would do; dropout, or digits that are moved and turned, help too."
    return evidence, advice, {"epochs": epoch}


def _still_falling(view: RunView) -> tuple[str, str, Remedy] | None:
    """(evidence, advice, remedy) when the last validations were each clearly better than the one before."""
    losses = [validated.evaluation.loss for validated in view.validations[-3:]]
    if len(losses) < 3 or not all(later < _STILL_FALLING * earlier for earlier, later in pairwise(losses)):
        return None
    evidence = f"The validation loss was still falling: {', '.join(f'{loss:.3f}' for loss in losses)}."
    if view.config.schedule != "constant":  # at its end the rate is near 0: more of the same would train nothing
        return evidence, "More epochs would bring more.", {}
    return evidence, "Train on: more epochs bring more.", {"epochs": 2 * view.config.epochs}


def _train_loss(view: RunView, step: int, window: int = 100) -> float:
    """Mean train loss of the steps before and at `step`."""
    row = np.array([max(0, step - view.info.first_step - 1)], np.int64)
    return float(view.steps.smoothed("loss", row, window)[0]) if len(view.steps) > row[0] else math.nan
