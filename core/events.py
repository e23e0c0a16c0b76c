"""What a training loop reports: plain frozen values, and the states a run can be in."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# What a run's device can be called, the most threads it can have and the most cores of its machine: files from elsewhere are
# held against them.
DEVICE = re.compile(r"cpu|mps|cuda(:\d{1,3})?", re.ASCII)
MAX_THREADS, MAX_CORES = 256, 65_536

# One row a step. `seconds` counts training time since the first step, validations and pauses left out.
STEP_DTYPE = np.dtype(
    [
        ("step", "<u8"),
        ("seconds", "<f8"),
        ("learning_rate", "<f8"),
        ("loss", "<f4"),
        ("gradient_norm", "<f4"),
        ("correct", "<u4"),
        ("images", "<u4"),
    ]
)

# One row a report, about ten a second. Seconds: time spent on it, waiting for batches in it; of its sampled updates how many,
# how long, and their parts (core/training/step_clock.py). About once a second who had the cores (core/machine/contention.py) in
# how many seconds; 0 in the other rows. Bytes of memory (GPU columns are 0 without a GPU).
REPORT_DTYPE = np.dtype(
    [
        ("step", "<u8"),
        ("seconds", "<f8"),
        ("duration", "<f8"),
        ("data_seconds", "<f8"),
        ("sampled_steps", "<u4"),
        ("sampled_seconds", "<f8"),
        ("forward_seconds", "<f8"),
        ("backward_seconds", "<f8"),
        ("optimizer_seconds", "<f8"),
        ("cpu_period", "<f8"),
        ("cpu_wanted", "<f8"),
        ("cpu_delay", "<f8"),
        ("cpu_blocked", "<f8"),
        ("cpu_pages", "<f8"),
        ("cpu_elsewhere", "<f8"),
        ("resident", "<u8"),
        ("allocated", "<u8"),
        ("reserved", "<u8"),
        ("peak", "<u8"),
        ("total", "<u8"),
    ]
)


@dataclass(frozen=True)
class RunStarted:
    """The first event: what is about to be trained.

    Attributes:
        parameters: trainable numbers of the model.
        total_steps, steps_per_epoch: optimizer updates.
        device, device_name, precision, threads: what auto settings became.
        fastest_precision: what precision "auto" is on this device; "" in runs that did not record it. cores: that it may use; 0
            likewise.
        notes: choices made on the run's behalf that a person should know of, in words.
    """

    parameters: int
    total_steps: int
    steps_per_epoch: int
    device: str
    device_name: str
    precision: str
    threads: int
    notes: tuple[str, ...] = ()
    fastest_precision: str = ""
    cores: int = 0


@dataclass(frozen=True)
class StepDone:
    """One optimizer update is done: a place to pause or stop. Carries no values, so nothing waits for the device."""


@dataclass(frozen=True)
class StepsEnded:
    """The values of the steps since the last such event, about ten times a second.

    Attributes:
        steps: rows of STEP_DTYPE, at least one.
        report: one row of REPORT_DTYPE.
    """

    steps: npt.NDArray[np.void]
    report: npt.NDArray[np.void]


@dataclass(frozen=True)
class Mistake:
    """A digit that the model got wrong.

    Attributes:
        index: its place in the split.
        label, predicted: 0 to 9.
        probability: of the predicted digit, in [0, 1].
        image: 784 grey values, row by row, 0 black to 255 white.
    """

    index: int
    label: int
    predicted: int
    probability: float
    image: bytes


@dataclass(frozen=True)
class Evaluation:
    """A model's score over one split, each digit weighing the same.

    Attributes:
        loss: mean cross-entropy in nats, without label smoothing; NaN when the model gives NaN.
        accuracy: in [0, 1].
        confusion: ten rows (label) of ten counts (predicted digit).
        mistakes: the most confidently wrong digits, worst first.
        seconds: duration.
        unanswered: digits for which the model gave NaN or infinity, which is no answer; they count as wrong.
        unanswered_by_label: the same for each of the ten labels; they are in no column of the confusion matrix.
    """

    loss: float
    accuracy: float
    confusion: tuple[tuple[int, ...], ...]
    mistakes: tuple[Mistake, ...]
    seconds: float
    unanswered: int = 0
    unanswered_by_label: tuple[int, ...] = (0,) * 10


@dataclass(frozen=True)
class Validated:
    """The validation split was scored after `step` updates. `best`: better than every validation before."""

    step: int
    epoch: float
    evaluation: Evaluation
    best: bool


@dataclass(frozen=True)
class Tested:
    """The test split was scored once, with the weights of `step`, at the end of the run."""

    step: int
    evaluation: Evaluation


@dataclass(frozen=True)
class StoppedEarly:
    """Early stopping ended the run before its last epoch."""

    step: int
    reason: str


Event = RunStarted | StepDone | StepsEnded | Validated | Tested | StoppedEarly
