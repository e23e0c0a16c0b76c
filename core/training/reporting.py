"""What a training reports of its steps, gathered so that the device need not wait for every one."""

from dataclasses import asdict
from time import perf_counter

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from core.data.batches import Batch
from core.events import REPORT_DTYPE, STEP_DTYPE, StepsEnded
from core.machine.contention import CpuWatch
from core.machine.memory import resident_bytes
from core.training.state import TrainState


def read_memory(device: "torch.device", step: int, seconds: float) -> npt.NDArray[np.void]:
    """One row of REPORT_DTYPE with this moment's memory. Asks the allocator only; does not wait for the device."""
    row = np.zeros(1, REPORT_DTYPE)
    row["step"], row["seconds"], row["resident"] = step, seconds, resident_bytes()
    if device.type == "cuda":
        import torch

        row["allocated"] = torch.cuda.memory_allocated(device)
        row["reserved"] = torch.cuda.memory_reserved(device)
        row["peak"] = torch.cuda.max_memory_allocated(device)
        row["total"] = torch.cuda.get_device_properties(device).total_memory
    return row


REPORT_SECONDS = 0.1
_LOOK_SECONDS = 1.0  # between two looks at who has the cores: one takes about a millisecond


def note_step(state: TrainState, group: list[Batch], loss: Tensor, norm: Tensor, correct: Tensor) -> None:
    """Keep a step for the next report, whether its update was made or failed: charts show both."""
    rate, samples = state.optimizer.param_groups[0]["lr"], digits_in(state, group)
    state.pending.append((state.step + 1, rate, loss, norm, correct, samples, perf_counter()))


def digits_in(state: TrainState, group: list[Batch]) -> int:
    """Digits of an update, in whichever process they are."""
    count = sum(len(labels) for _, labels in group)
    return count if state.world.size == 1 else int(state.world.total(torch.tensor(count)))


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
    report["sampled_steps"], report["sampled_seconds"], parts = state.clock.take()
    for part, spent in parts.items():
        report[f"{part}_seconds"] = spent
    _look_at_cores(state, report)
    return StepsEnded(rows, report)


def _look_at_cores(state: TrainState, report: npt.NDArray[np.void]) -> None:
    if state.watch is None:
        state.watch = CpuWatch()
    elif state.watch.since() >= _LOOK_SECONDS:
        for name, spent in asdict(state.watch.look()).items():
            report[f"cpu_{name}"] = spent


def restart_clock(state: TrainState) -> None:
    """Leave the time since the last report out of the training time: a pause, a validation."""
    state.pending_since = perf_counter()
    if state.watch is not None:
        state.watch.restart()
