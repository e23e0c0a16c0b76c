"""Everything that changes while a network trains, made anew."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.machine.hardware import choose_device, choose_precision, choose_threads
from core.model.networks import build_model
from core.training.schedule import schedule_factor


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
    if MODELS[config.model].has_convolutions and device.type != "mps":
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


def step_plateau(state: TrainState, loss: float) -> None:
    """Tell the plateau schedule a validation loss; it may lower the learning rate."""
    assert state.plateau is not None
    before = [group["lr"] for group in state.optimizer.param_groups]
    state.plateau.step(loss if math.isfinite(loss) else math.inf)
    for group, rate in zip(state.optimizer.param_groups, before, strict=True):
        if rate > 0:
            group["plateau_factor"] = group.get("plateau_factor", 1.0) * group["lr"] / rate
