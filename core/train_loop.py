"""The training loop, as one would explain it: a generator of events that knows no threads and no files.

    zero_grad -> forward -> loss -> backward -> (clip) -> step

Read `train` first; `update` is one optimizer update.
"""

import contextlib
import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.anomaly import failed_operation
from core.answers import answers_of
from core.batches import Batch, Batches
from core.config import TrainConfig
from core.data import Digits
from core.errors import TrainingError
from core.evaluation import evaluating
from core.events import (
    STEP_DTYPE,
    Event,
    RunStarted,
    StepDone,
    StepsEnded,
    StoppedEarly,
    Tested,
    Validated,
)
from core.hardware import choose_device, choose_precision, choose_threads, device_name, read_memory
from core.models import build_model, enter_train_mode, reseed_dropout
from core.schedule import schedule_factor

REPORT_SECONDS = 0.1
# float16's gradient scaler begins too high on purpose and skips updates until it fits; more in a row are a failure.
MAX_SKIPPED_UPDATES = 30


@dataclass(eq=False)
class TrainState:
    """Everything that training changes. A run continues from it exactly, at any step.

    Attributes:
        step: finished optimizer updates. epoch: the current epoch, from 0. batch: batches of it that were used.
        validated_step: the step of the last finished validation, 0 before the first.
        best_*: the validation that was best so far, and its weights with buffers, on the CPU.
        stale_validations: validations since the validation loss last improved.
        whole: False while the optimizer changes the weights: an error in that moment leaves them half changed.
        kept_buffers: the model's buffers, each with what it was before the update that is being made.
    """

    config: TrainConfig
    device: torch.device
    precision: str
    threads: int
    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    plateau: torch.optim.lr_scheduler.ReduceLROnPlateau | None
    scaler: torch.amp.GradScaler
    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    skipped_updates: int = 0
    lowest_loss: float = math.inf
    validated_step: int = 0
    stale_validations: int = 0
    best_score: tuple[float, float] = (-1.0, -math.inf)
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    whole: bool = True
    kept_buffers: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    pending: list[tuple[Any, ...]] = field(default_factory=list)
    pending_data_seconds: float = 0.0
    pending_since: float = 0.0


def new_state(config: TrainConfig, *, shared: bool = False) -> TrainState:
    """Model, optimizer and schedule at step 0. `shared`: the process serves pages too (see `choose_threads`)."""
    device = choose_device(config.device)
    precision = choose_precision(config.precision, device)
    model = build_model(config).to(device)
    if config.model != "mlp" and device.type != "mps":
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimizer = _make_optimizer(config, model, device)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule_factor(config, step))
    plateau = None
    if config.schedule == "plateau":
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=config.schedule_factor, patience=config.schedule_epochs - 1
        )
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
    threads = choose_threads(config.threads, shared=shared)
    return TrainState(config, device, precision, threads, model, optimizer, schedule, plateau, scaler)


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
        return (f"{kept} The cause is the data: image {bad[0]} of the batch holds values that are not finite"
                f"{f', and so do {len(bad) - 1} more' if len(bad) > 1 else ''}. No learning rate mends that.")  # fmt: skip
    if bad := [name for name, value in state.model.named_parameters() if not bool(value.isfinite().all())]:
        return f"{kept} {bad[0]} was not finite before this step already: start from other weights."
    return (f"{kept} Try a learning rate ten times lower ({rate / 10:g}), gradient clipping at 1, or a warm-up; with float16, "
            "try bfloat16 or float32.")  # fmt: skip


def autocast(state: TrainState) -> contextlib.AbstractContextManager[Any]:
    """The forward pass's number format: nothing to do for float32."""
    if state.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(state.device.type, dtype=getattr(torch, state.precision))


def take_pending(state: TrainState) -> StepsEnded | None:
    """The steps that were made since the last report; None when there are none. Waits once for the device."""
    if not state.pending:
        return None
    steps, rates, losses, norms, correct, samples, moments = zip(*state.pending, strict=True)
    numbers = torch.stack([torch.stack(losses), torch.stack(norms).float(), torch.stack(correct).float()]).tolist()
    rows = np.zeros(len(steps), STEP_DTYPE)
    rows["step"], rows["learning_rate"], rows["images"] = steps, rates, samples
    rows["loss"], rows["gradient_norm"], rows["correct"] = numbers
    rows["seconds"] = state.seconds + np.array(moments) - state.pending_since
    duration = moments[-1] - state.pending_since
    data_seconds = min(state.pending_data_seconds, duration)
    state.seconds += duration
    state.pending, state.pending_data_seconds = [], 0.0
    state.pending_since = perf_counter()
    report = read_memory(state.device, state.step, state.seconds)
    report["duration"], report["data_seconds"] = duration, data_seconds
    return StepsEnded(rows, report)


def restart_clock(state: TrainState) -> None:
    """Leave the time since the last report out of the training time: a pause, a validation."""
    state.pending_since = perf_counter()


def _started(state: TrainState) -> RunStarted:
    config = state.config
    notes = []
    train_size = config.split_sizes()[0]
    if config.batches_per_epoch() < math.ceil(train_size / config.batch_size):
        notes.append("The last batch of an epoch would hold a single digit, which BatchNorm cannot normalise: it joins "
                     "the batch before.")  # fmt: skip
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


def _make_optimizer(config: TrainConfig, model: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    rate, decay, parameters = config.learning_rate, config.weight_decay, model.parameters()
    fused = device.type in ("cpu", "cuda")
    match config.optimizer:
        case "sgd":
            return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, fused=fused)
        case "sgd_momentum":
            return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay, fused=fused)
        case "adam":
            return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=fused)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=fused)
        case _:
            return torch.optim.RMSprop(parameters, lr=rate, weight_decay=decay)


def keep_plateau_drops(state: TrainState) -> None:
    """Warm-up sets the rate at each step; what the plateau schedule took off stays off."""
    for group in state.optimizer.param_groups:
        group["lr"] *= group.get("plateau_factor", 1.0)


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
        _step_plateau(state, evaluation.loss)
    state.validated_step = state.step
    enter_train_mode(state.model, state.config)
    yield Validated(state.step, state.step / state.config.steps_per_epoch(), evaluation, best)
    restart_clock(state)


def _step_plateau(state: TrainState, loss: float) -> None:
    assert state.plateau is not None
    before = [group["lr"] for group in state.optimizer.param_groups]
    state.plateau.step(loss if math.isfinite(loss) else math.inf)
    for group, rate in zip(state.optimizer.param_groups, before, strict=True):
        if rate > 0:
            group["plateau_factor"] = group.get("plateau_factor", 1.0) * group["lr"] / rate


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


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers as independent CPU tensors: `state_dict()` itself would change with the next step."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
