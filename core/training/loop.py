"""The training loop, as one would explain it: a generator of events that knows no threads and no files.

    zero_grad -> forward -> loss -> backward -> (clip) -> step

Read `train` first; `make_update` is one optimizer update.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.answers import answers_of
from core.data.batches import Batch, Batches
from core.data.sources import Digits
from core.errors import TrainingError
from core.events import Evaluation, Event, RunStarted, StepDone, StoppedEarly, Tested, Validated
from core.machine.hardware import choose_precision, device_name, usable_cores
from core.model.networks import enter_train_mode, reseed_dropout
from core.model.weights import copy_weights
from core.training.anomaly import failed_operation
from core.training.evaluation import evaluating
from core.training.nonfinite import not_made, refuse_nonfinite
from core.training.reporting import REPORT_SECONDS, digits_in, note_step, restart_clock, take_pending
from core.training.schedule import schedule_factor
from core.training.state import TrainState

Update = Callable[[TrainState, list[Batch]], None]
Evaluate = Callable[[nn.Module, Digits, torch.device], Generator[StepDone, None, Evaluation]]

PLATEAU_THRESHOLD = 1e-4


def train(
    state: TrainState,
    batches: Batches,
    validation: Digits,
    test: Digits,
    *,
    update: Update | None = None,
    evaluate: Evaluate = evaluating,
) -> Iterator[Event]:
    """Train to the end of the configuration, from wherever `state` stands.

    Args:
        update: what one update does; None: `make_update`. evaluate: how a split is scored.

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
                yield from _validate(state, validation, evaluate)
            if _should_stop_early(state):
                yield _stopped_early(state)
                yield from _test(state, test, evaluate)
                return
            if not (group := _next_group(state, source)):
                break
            (update or make_update)(state, group)
            yield StepDone()
            if perf_counter() - state.pending_since >= REPORT_SECONDS and (report := take_pending(state)):
                yield report
        # Only now: whoever stops inside the loop above leaves a state that says where in the epoch it stands.
        state.epoch, state.batch = state.epoch + 1, 0
    yield from _test(state, test, evaluate)


def _next_group(state: TrainState, source: Iterator[Batch]) -> list[Batch]:
    """The batches of the next update, fewer at the end of an epoch, none when it is over."""
    began = perf_counter()
    group: list[Batch] = []
    while len(group) < state.config.accumulation_steps and (batch := next(source, None)) is not None:
        group.append(batch)
    state.pending_data_seconds += perf_counter() - began
    return group


def make_update(state: TrainState, group: list[Batch]) -> None:
    """One optimizer update from the batches of one group (each float32 (n, 1, 28, 28) and int64 (n,), on the device).

    Raises:
        TrainingError: it would spoil the weights. After this and any other error the state is what it was before.
    """
    optimizer, rate = state.optimizer, learning_rate(state)
    for parameters in optimizer.param_groups:
        parameters["lr"] = rate  # in the open, before the step it belongs to
    state.clock.begin(state.step, state.device)
    _keep_buffers(state)  # whatever fails from here on, the state is put back
    try:
        loss, correct = forward_backward(state, group)
        # Before the norm: float16's gradients carry the scaler's factor, and a clip at 1 would cut that factor instead.
        state.scaler.unscale_(optimizer)
        norm = _gradient_norm(state.model, state.config.gradient_clip)
        skipped = refuse_nonfinite(state, group, loss, norm, correct)
    except BaseException:
        _restore_buffers(state)
        raise
    state.clock.lap()
    _apply_gradients(state, skipped)
    state.clock.lap("optimizer")
    note_step(state, group, loss, norm, correct)
    state.step += 1
    state.batch += len(group)
    state.clock.end()


def _apply_gradients(state: TrainState, skipped: bool) -> None:
    """The optimizer's step; `skipped`: the scaler will not make it, so the forward's traces in BatchNorm go, too."""
    state.whole = False
    state.scaler.step(state.optimizer)
    state.scaler.update()
    if skipped:
        _restore_buffers(state)
    state.whole = True


def learning_rate(state: TrainState) -> float:
    """Of the next update. In the open: a pure function of the step, times what reduce on plateau has taken off; no scheduler
    object whose own count of steps would have to be saved, restored and kept in step with ours."""
    return state.config.learning_rate * schedule_factor(state.config, state.step) * state.plateau_factor


def forward_backward(state: TrainState, group: list[Batch]) -> tuple[Tensor, Tensor]:
    """Put the gradients of a group's mean loss into the parameters, and nothing else: no weight is moved.

    Args:
        group: batches that share one update, each float32 (n, 1, 28, 28) and int64 (n,), on the device.

    Returns:
        (mean loss in nats, right answers): scalars on the device, so that nobody waits for it.

    Raises:
        TrainingError: with *Detect anomaly*, the operation whose backward pass gave NaN.
    """
    config, model = state.config, state.model
    samples = digits_in(state, group)
    # Sums stay on the device. An .item() here would wait for it at every batch, and a GPU would stand idle meanwhile.
    loss_sum = torch.zeros((), device=state.device)
    correct = torch.zeros((), dtype=torch.int64, device=state.device)
    reseed_dropout(model, config.seed, state.step)
    # First, not last: backward() adds to .grad, and what an update that failed has left there must not be added to this one.
    state.optimizer.zero_grad()
    with torch.autograd.set_detect_anomaly(True) if config.detect_anomaly else contextlib.nullcontext():
        state.clock.lap()
        for images, labels in group:
            with autocast(state):
                logits = model(images)
                loss = F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing)
            state.clock.lap("forward")
            # Each digit weighs 1 / samples, so a smaller last batch counts no more than its digits.
            share = len(labels) / samples
            # Detached: a sum of losses with their graphs would keep the activations of every batch of the group.
            loss_sum += loss.detach() * share
            correct += (answers_of(logits.detach()) == labels).sum()
            try:
                state.scaler.scale(loss * share).backward()
            except RuntimeError as error:
                if (operation := failed_operation(error, loss, model)) is None:
                    raise
                rate, step = state.optimizer.param_groups[0]["lr"], state.step + 1
                note_step(state, group, loss_sum, torch.full_like(loss_sum, math.nan), correct)
                raise TrainingError(
                    f"The gradient became NaN in the backward pass of {operation} at step {step:,}, with a learning rate of "
                    f"{rate:g} and a loss of {loss.item():.6g}. {not_made(state, group, rate)}"
                ) from error
            state.clock.lap("backward")
    return _over_all_processes(state, loss_sum, correct)


def _over_all_processes(state: TrainState, loss: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """The update's loss and right answers, and in the parameters its gradients, whichever process had which of its digits."""
    if state.world.size > 1:
        for parameter in state.model.parameters():
            if parameter.grad is not None:
                parameter.grad.copy_(state.world.total(parameter.grad))
    return state.world.total(loss), state.world.total(correct)


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
    if config.dropout and not any(isinstance(module, nn.Dropout) for module in state.model.modules()):
        notes.append(f"{config.model} has no dropout layer: the setting changes nothing in it.")
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
        fastest_precision=choose_precision("auto", state.device),
        cores=usable_cores(),
    )


def _validation_is_due(state: TrainState) -> bool:
    return state.step != state.validated_step and state.config.validates_after(state.step)


def _validate(state: TrainState, validation: Digits, evaluate: Evaluate) -> Iterator[Event]:
    if report := take_pending(state):
        yield report
    evaluation = yield from evaluate(state.model, validation, state.device)
    # NaN compares false with everything: written this way round it is always the worst.
    score = (evaluation.accuracy, -evaluation.loss) if math.isfinite(evaluation.loss) else (-1.0, -math.inf)
    best = score > state.best_score
    if best or not state.best_weights:
        state.best_score, state.best_step = score, state.step
        # A copy, or the best weights would go on being trained.
        state.best_weights = copy_weights(state.model)
    improved = evaluation.loss < state.lowest_loss
    state.lowest_loss = evaluation.loss if improved else state.lowest_loss
    state.stale_validations = 0 if improved else state.stale_validations + 1
    if state.config.schedule == "plateau":
        _reduce_on_plateau(state, evaluation.loss)
    state.validated_step = state.step
    enter_train_mode(state.model, state.config)
    yield Validated(state.step, state.step / state.config.steps_per_epoch(), evaluation, best)
    restart_clock(state)


def _reduce_on_plateau(state: TrainState, loss: float) -> None:
    """The rule of torch.optim.lr_scheduler.ReduceLROnPlateau with its defaults: only a loss that is better by a ten-thousandth
    counts as better, and NaN never does."""
    if loss < state.plateau_best * (1 - PLATEAU_THRESHOLD):
        state.plateau_best, state.plateau_stale = loss, 0
        return
    state.plateau_stale += 1
    if state.plateau_stale >= state.config.schedule_epochs:
        state.plateau_factor, state.plateau_stale = state.plateau_factor * state.config.schedule_factor, 0


def _should_stop_early(state: TrainState) -> bool:
    patience = state.config.early_stopping_patience
    return patience is not None and state.stale_validations >= patience and state.step < state.config.total_steps()


def _stopped_early(state: TrainState) -> StoppedEarly:
    reason = f"the validation loss has not improved for {state.stale_validations} validations"
    return StoppedEarly(state.step, f"Stopped early after step {state.step:,}: {reason}.")


def _test(state: TrainState, test: Digits, evaluate: Evaluate) -> Iterator[Event]:
    """Score the test split once, with the weights that validation chose; training's own weights stay in the state."""
    # A copy: training's own weights, optimizer and BatchNorm statistics must be there for whoever trains on.
    model = copy.deepcopy(state.model)
    model.load_state_dict(state.best_weights)
    evaluation = yield from evaluate(model, test, state.device)
    yield Tested(state.best_step, evaluation)
