"""Everything that changes while a network trains, made anew."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.machine.contention import CpuWatch
from core.machine.hardware import choose_device, choose_precision, choose_threads
from core.model.networks import build_model
from core.training.step_clock import StepClock
from core.training.world import ONE_PROCESS, World


@dataclass(eq=False)
class TrainState:
    """Everything that training changes. A run continues from it exactly, at any step.

    Attributes:
        step: finished optimizer updates. epoch: the current epoch, from 0. batch: batches of it that were used.
        validated_step: the step of the last finished validation, 0 before the first.
        best_*: the validation that was best so far, and its weights with buffers, on the CPU.
        stale_validations: validations since the validation loss last improved.
        plateau_factor: what reduce on plateau has taken off the learning rate so far, in (0, 1]. plateau_best,
            plateau_stale: the validation loss it compares with, and how many validations have not been better.
        precision: of the forward pass: "float32", "bfloat16" or "float16". threads: of one tensor operation on the CPU.
        scaler: float16's; for the others it does nothing.
        seconds: training time so far, validations and pauses left out. skipped_updates: by the scaler, in a row.
        lowest_loss: of all validations, in nats.
        pending: a tuple a step that was not reported yet: (step, learning rate, loss, gradient norm, right answers, digits,
            when). pending_data_seconds: waited for batches since the last report. pending_since: when that was.
        whole: False while the optimizer changes the weights: an error in that moment leaves them half changed.
        world: the processes that train this model together.
        clock: what the parts of the sampled updates took. watch: who had the cores; None before the first report.
        kept_buffers: the model's buffers, each with what it was before the update that is being made.
    """

    config: TrainConfig
    device: torch.device
    precision: str
    threads: int
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    skipped_updates: int = 0
    lowest_loss: float = math.inf
    validated_step: int = 0
    stale_validations: int = 0
    plateau_factor: float = 1.0
    plateau_best: float = math.inf
    plateau_stale: int = 0
    best_score: tuple[float, float] = (-1.0, -math.inf)
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    whole: bool = True
    kept_buffers: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    pending: list[tuple[Any, ...]] = field(default_factory=list)
    pending_data_seconds: float = 0.0
    pending_since: float = 0.0
    clock: StepClock = field(default_factory=StepClock)
    watch: CpuWatch | None = None
    world: World = ONE_PROCESS


def new_state(config: TrainConfig, *, beside_pages: bool = False) -> TrainState:
    """Model and optimizer at step 0. `beside_pages`: the process serves pages too (see `choose_threads`)."""
    device = choose_device(config.device)
    precision = choose_precision(config.precision, device)
    model = build_model(config).to(device)
    if MODELS[config.model].has_convolutions and device.type != "mps":
        # The channels of a pixel side by side is how convolutions read them (oneDNN on CPUs, tensor cores on GPUs): in the
        # default layout each call would first make such a copy. It adds in another order, so it is part of a run's bits.
        model = model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimizer = _make_optimizer(config, model, device)
    # float16 ends at 6e-8: most gradients would become 0. A factor on the loss lifts them; bfloat16 reaches as far as float32.
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")
    threads = choose_threads(config.threads, beside_pages=beside_pages)
    return TrainState(config, device, precision, threads, model, optimizer, scaler)


def _make_optimizer(config: TrainConfig, model: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    rate, decay, parameters = config.learning_rate, config.weight_decay, model.parameters()
    # One kernel for all parameters at once. Otherwise the step is a dozen small calls a tensor, which on networks of this size
    # takes as long as a layer. PyTorch has none for RMSprop.
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
