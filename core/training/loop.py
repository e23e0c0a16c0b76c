"""The training loop, as one would explain it: a generator of events that knows no threads and no files.

    zero_grad -> forward -> loss -> backward -> (clip) -> step

Read `train` first; `update` is one optimizer update.
"""

import contextlib
import copy
import math
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.answers import answers_of
from core.data.batches import Batch, Batches
from core.data.sources import Digits
from core.errors import TrainingError
from core.events import Event, RunStarted, StepDone, StoppedEarly, Tested, Validated
from core.machine.hardware import device_name
from core.model.networks import enter_train_mode, reseed_dropout
from core.model.weights import copy_weights
from core.training.anomaly import failed_operation
from core.training.evaluation import evaluating
from core.training.reporting import REPORT_SECONDS, restart_clock, take_pending
from core.training.state import TrainState, keep_plateau_drops, step_plateau

# float16's gradient scaler begins too high on purpose and skips updates until it fits; more in a row are a failure.
MAX_SKIPPED_UPDATES = 30


def train(state: TrainState, batches: Batches, validation: Digits, test: Digits) -> Iterator[Event]:
    """Train to the end of the configuration, from wherever `state` stands.

    Between any two events the caller may pause, stop (just ask for no more; `take_pending` gives the steps not yet
    reported) or copy the weights. Raises TrainingError when the loss or a gradient is not finite, before the update.
    """
    yield _started(state)
    state.pending_since = perf_counter()
    while state.epoch < state.config.epochs:
        enter_train_mode(state.model, state.config)
        source = batches.epoch(state.epoch, state.batch)
        while True:
            # Before the next update, not after the last one: a run that continues from here first does what is still due.
            if _validation_is_due(state):
                yield from _validate(state, validation)
            if _should_stop_early(state):
                yield _stopped_early(state)
                yield from _test(state, test)
                return
            if not (group := _next_group(state, source)):
                break
            update(state, group)
            yield StepDone()
            if perf_counter() - state.pending_since >= REPORT_SECONDS and (report := take_pending(state)):
                yield report
        state.epoch, state.batch = state.epoch + 1, 0
    yield from _test(state, test)


def _next_group(state: TrainState, source: Iterator[Batch]) -> list[Batch]:
    """The batches of the next update, fewer at the end of an epoch, none when it is over."""
    began = perf_counter()
    group: list[Batch] = []
    while len(group) < state.config.accumulation_steps and (batch := next(source, None)) is not None:
        group.append(batch)
    state.pending_data_seconds += perf_counter() - began
    return group


def update(state: TrainState, group: list[Batch]) -> None:
    """One optimizer update from the batches of one group (each float32 (n, 1, 28, 28) and int64 (n,), on the device).

    Raises:
        TrainingError: it would spoil the weights. After this and any other error the state is what it was before.
    """
    optimizer = state.optimizer
    samples = sum(len(labels) for _, labels in group)
    _keep_buffers(state)
    try:
        loss, correct = _forward_backward(state, group, samples)
        state.scaler.unscale_(optimizer)
        norm = _gradient_norm(state.model, state.config.gradient_clip)
        skipped = _refuse_nonfinite(state, group, loss, norm, correct)
    except BaseException:
        _restore_buffers(state)
        raise
    learning_rate = optimizer.param_groups[0]["lr"]
    state.whole = False
    state.scaler.step(optimizer)
    state.scaler.update()
    if skipped:
        _restore_buffers(state)
    state.whole = True

    state.step += 1
    state.batch += len(group)
    if state.step < state.config.total_steps():
        state.schedule.step()
        if state.plateau is not None:
            keep_plateau_drops(state)
    state.pending.append((state.step, learning_rate, loss, norm, correct, samples, perf_counter()))


def _forward_backward(state: TrainState, group: list[Batch], samples: int) -> tuple[Tensor, Tensor]:
    """Put the gradients of a group's mean loss into the parameters; returns (mean loss, right answers), on the device."""
    config, model = state.config, state.model
    loss_sum = torch.zeros((), device=state.device)
    correct = torch.zeros((), dtype=torch.int64, device=state.device)
    reseed_dropout(model, config.seed, state.step)
    state.optimizer.zero_grad()
    with torch.autograd.set_detect_anomaly(True) if config.detect_anomaly else contextlib.nullcontext():
        for images, labels in group:
            with autocast(state):
                logits = model(images)
                loss = F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing)
            # Each digit weighs 1 / samples, so a smaller last batch counts no more than its digits.
            share = len(labels) / samples
            loss_sum += loss.detach() * share  # stays on the device: .item() would wait for it
            correct += (answers_of(logits.detach()) == labels).sum()
            try:
                state.scaler.scale(loss * share).backward()
            except RuntimeError as error:
                if (operation := failed_operation(error, loss, model)) is None:
                    raise
                rate, step = state.optimizer.param_groups[0]["lr"], state.step + 1
                _keep_failed_step(state, loss_sum, torch.full_like(loss_sum, math.nan), correct, samples)
                raise TrainingError(
                    f"The gradient became NaN in the backward pass of {operation} at step {step:,}, with a learning rate of "
                    f"{rate:g} and a loss of {loss.item():.6g}. {_not_made(state, group, rate)}"
                ) from error
    return loss_sum, correct


def _keep_buffers(state: TrainState) -> None:
    """A forward in train mode moves BatchNorm's statistics, whatever becomes of the update: keep what they were.

    Some ten copies of a few hundred numbers: 0.02 ms a step.
    """
    if not state.kept_buffers:
        state.kept_buffers = [(buffer, buffer.clone()) for buffer in state.model.buffers()]
    for buffer, kept in state.kept_buffers:
        kept.copy_(buffer)


def _restore_buffers(state: TrainState) -> None:
    for buffer, kept in state.kept_buffers:
        buffer.copy_(kept)


def _gradient_norm(model: nn.Module, clip: float | None) -> Tensor:
    """L2 norm over all gradients, before they are shortened to `clip`."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if clip is not None:
        torch.nn.utils.clip_grads_with_norm_(parameters, clip, norm)
    return norm


def _refuse_nonfinite(state: TrainState, group: list[Batch], loss: Tensor, norm: Tensor, correct: Tensor) -> bool:
    """Stop before an update that would ruin the weights; True when float16's scaler will skip it.

    Costs one wait for the device a step; on the CPU nothing. The step that failed is kept for the charts.
    """
    loss_value, norm_value = torch.stack([loss, norm.float()]).tolist()
    if math.isfinite(loss_value) and math.isfinite(norm_value):
        state.skipped_updates = 0
        return False
    if state.scaler.is_enabled() and math.isfinite(loss_value) and state.skipped_updates < MAX_SKIPPED_UPDATES:
        state.skipped_updates += 1  # the scaler skips this update and halves its factor
        return True
    rate = state.optimizer.param_groups[0]["lr"]
    _keep_failed_step(state, loss, norm, correct, sum(len(labels) for _, labels in group))
    what = "loss" if not math.isfinite(loss_value) else "gradient"
    value = loss_value if what == "loss" else norm_value
    more = "" if state.config.detect_anomaly else " Detect anomaly names the operation."
    raise TrainingError(
        f"The {what} became {value} at step {state.step + 1:,}, with a learning rate of {rate:g}. "
        f"{_not_made(state, group, rate)}{more}"
    )


def _keep_failed_step(state: TrainState, loss: Tensor, norm: Tensor, correct: Tensor, samples: int) -> None:
    rate = state.optimizer.param_groups[0]["lr"]
    state.pending.append((state.step + 1, rate, loss, norm, correct, samples, perf_counter()))


def _not_made(state: TrainState, group: list[Batch], rate: float) -> str:
    """What became of the weights, and what to do: by what was fed in, where that is the cause."""
    kept = f"The update was not made, so the weights are still those of step {state.step:,}."
    if bad := [number for images, _ in group for number, image in enumerate(images) if not bool(image.isfinite().all())]:
        return (
            f"{kept} The cause is the data: image {bad[0]} of the batch holds values that are not finite"
            f"{f', and so do {len(bad) - 1} more' if len(bad) > 1 else ''}. No learning rate mends that."
        )
    if bad := [name for name, value in state.model.named_parameters() if not bool(value.isfinite().all())]:
        return f"{kept} {bad[0]} was not finite before this step already: start from other weights."
    return (
        f"{kept} Try a learning rate ten times lower ({rate / 10:g}), gradient clipping at 1, or a warm-up; with float16, "
        "try bfloat16 or float32."
    )


def autocast(state: TrainState) -> contextlib.AbstractContextManager[Any]:
    """The forward pass's number format: nothing to do for float32."""
    if state.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(state.device.type, dtype=getattr(torch, state.precision))


def _started(state: TrainState) -> RunStarted:
    config = state.config
    notes = []
    train_size = config.split_sizes()[0]
    if config.batches_per_epoch() < math.ceil(train_size / config.batch_size):
        notes.append(
            "The last batch of an epoch would hold a single digit, which BatchNorm cannot normalise: it joins the batch before."
        )
    if config.deterministic and state.device.type == "cuda":
        notes.append("Deterministic algorithms are on: the same bits each time, at the price of some speed.")
    return RunStarted(
        parameters=sum(parameter.numel() for parameter in state.model.parameters()),
        total_steps=config.total_steps(),
        steps_per_epoch=config.steps_per_epoch(),
        device=str(state.device),
        device_name=device_name(state.device),
        precision=state.precision,
        threads=state.threads,
        notes=tuple(notes),
    )


def _validation_is_due(state: TrainState) -> bool:
    return state.step != state.validated_step and state.config.validates_after(state.step)


def _validate(state: TrainState, validation: Digits) -> Iterator[Event]:
    if report := take_pending(state):
        yield report
    evaluation = yield from evaluating(state.model, validation, state.device)
    # NaN compares false with everything: written this way round it is always the worst.
    score = (evaluation.accuracy, -evaluation.loss) if math.isfinite(evaluation.loss) else (-1.0, -math.inf)
    best = score > state.best_score
    if best or not state.best_weights:
        state.best_score, state.best_step = score, state.step
        state.best_weights = copy_weights(state.model)
    improved = evaluation.loss < state.lowest_loss
    state.lowest_loss = evaluation.loss if improved else state.lowest_loss
    state.stale_validations = 0 if improved else state.stale_validations + 1
    if state.plateau is not None:
        step_plateau(state, evaluation.loss)
    state.validated_step = state.step
    enter_train_mode(state.model, state.config)
    yield Validated(state.step, state.step / state.config.steps_per_epoch(), evaluation, best)
    restart_clock(state)


def _should_stop_early(state: TrainState) -> bool:
    patience = state.config.early_stopping_patience
    return patience is not None and state.stale_validations >= patience and state.step < state.config.total_steps()


def _stopped_early(state: TrainState) -> StoppedEarly:
    reason = f"the validation loss has not improved for {state.stale_validations} validations"
    return StoppedEarly(state.step, f"Stopped early after step {state.step:,}: {reason}.")


def _test(state: TrainState, test: Digits) -> Iterator[Event]:
    """Score the test split once, with the weights that validation chose; training's own weights stay in the state."""
    model = copy.deepcopy(state.model)
    model.load_state_dict(state.best_weights)
    evaluation = yield from evaluating(model, test, state.device)
    yield Tested(state.best_step, evaluation)
