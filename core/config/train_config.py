"""The settings of a run: every field with its default, limits and meaning in one place."""

import json
import math
from dataclasses import dataclass, fields
from typing import Any, Self, get_type_hints

from core.config.models import MODELS
from core.config.setting import Setting, described, device_problem, field_problem, plain_kind
from core.errors import ConfigError, UnknownSettingError

OPTIMIZERS = ("sgd", "sgd_momentum", "adam", "adamw", "rmsprop")
SCHEDULES = ("constant", "step", "cosine", "one_cycle", "plateau")
PIPELINES = ("memory", "dataloader")
ORDERS = ("shuffled", "stored", "by_class")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")

# Sizes of the data sets that exist, so that a form can be checked before any file is read.
DATASETS: dict[str, tuple[int, int]] = {"mnist": (60_000, 10_000), "mnist_sample": (4_500, 500)}
DEFAULT_VALIDATION: dict[str, int] = {"mnist": 5_000, "mnist_sample": 500}


_WITHOUT_BATCHNORM = tuple(name for name, spec in MODELS.items() if not spec.has_batchnorm)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All settings of one run. Immutable; `problems()` says what is unusable about it.

    Each field's unit, limits and meaning stand in its `Setting` (see `settings()`).
    """

    dataset: str = described(
        "mnist",
        "Data set",
        "MNIST: 60,000 digits to train on, 10,000 to test. The sample holds 5,000 real MNIST "
        "digits that come with the installation.",
        "Main",
        choices=tuple(DATASETS),
    )
    model: str = described(
        "simple_cnn",
        "Model",
        " ".join(f"{name}: {spec.help}." for name, spec in MODELS.items()),
        "Main",
        choices=MODELS.keys(),
    )
    epochs: int = described(10, "Epochs", "How many times every training digit is seen.", "Main", low=1, high=1000)
    batch_size: int = described(
        64,
        "Batch size",
        "Digits per forward pass. One optimizer update follows each batch, unless gradients are accumulated.",
        "Main",
        low=1,
        high=60_000,
    )
    learning_rate: float = described(
        1e-3,
        "Learning rate",
        "How far one update moves the weights. The setting that matters most; with a schedule it is the highest value reached.",
        "Main",
        above=0.0,
        high=1e6,
    )
    seed: int = described(
        0,
        "Seed",
        "Start of every random number of the run: first weights, order, dropout, augmentation. The same "
        "seed gives the same run.",
        "Main",
        low=0,
        high=2**32 - 1,
    )

    train_size: int | None = described(
        None,
        "Training digits",
        "How many digits to train on, each class in its share.",
        "Data",
        low=10,
        high=60_000,
        empty="all that remain",
    )
    validation_size: int | None = described(
        None,
        "Validation digits",
        "Held out of the training set to watch progress and to choose the best weights. "
        "Always the same digits for the same number.",
        "Data",
        low=10,
        high=50_000,
        empty="5,000 of MNIST, 500 of the sample",
    )
    pipeline: str = described(
        "memory",
        "Pipeline",
        "memory: all images as one uint8 tensor on the device, a batch is one indexing. "
        "dataloader: each image goes through transforms and a DataLoader, as tutorials do.",
        "Data",
        choices=PIPELINES,
    )
    workers: int = described(
        0,
        "DataLoader workers",
        "Processes that prepare images (dataloader only). 0: in the training thread.",
        "Data",
        low=0,
        high=32,
    )
    order: str = described(
        "shuffled",
        "Order of digits",
        "shuffled: a new order each epoch. stored: as in the file. by_class: all 0s, "
        "then all 1s, ... as when folders are read one by one.",
        "Data",
        choices=ORDERS,
    )

    dropout: float = described(
        0.0,
        "Dropout",
        "Share of activations set to zero before the last layer, in train mode only.",
        "Model",
        low=0.0,
        high=0.95,
    )
    batchnorm_momentum: float | None = described(
        0.1,
        "BatchNorm momentum",
        "Weight of the newest batch in the running statistics. PyTorch's meaning: "
        "other frameworks call 1 minus this number momentum.",
        "Model",
        low=0.0,
        high=1.0,
        empty="a plain average over all batches",
    )
    batchnorm_frozen: bool = described(
        False,
        "Freeze BatchNorm",
        "BatchNorm stays in eval mode while training: it uses its running statistics and does not "
        "move them, as is usual when a trained network is trained on. Useful in a fork.",
        "Model",
    )

    optimizer: str = described(
        "adam", "Optimizer", "The rule that turns gradients into updates.", "Optimization", choices=OPTIMIZERS
    )
    weight_decay: float = described(
        0.0, "Weight decay", "Pulls weights towards zero at each update.", "Optimization", low=0.0, high=10.0
    )
    accumulation_steps: int = described(
        1,
        "Gradient accumulation",
        "Batches whose gradients are added up before one update: without BatchNorm 4 batches of 64 "
        "act like one of 256. BatchNorm still normalises each batch by itself.",
        "Optimization",
        low=1,
        high=1024,
    )
    schedule: str = described(
        "constant", "Schedule", "How the learning rate changes during the run.", "Optimization", choices=SCHEDULES
    )
    warmup_steps: int = described(
        0,
        "Warm-up steps",
        "The learning rate rises in a line over so many first steps. One-cycle has a warm-up of "
        "its own (the first quarter) unless a number is given here.",
        "Optimization",
        low=0,
        high=1_000_000,
    )
    schedule_start: int = described(
        0,
        "Schedule starts at step",
        "The schedule and its warm-up reach from this step to the end of the run. Above 0 in a "
        "fork whose schedule begins anew.",
        "Optimization",
        low=0,
        high=10_000_000,
    )
    schedule_epochs: int = described(
        3,
        "Epochs between drops",
        "step: drop after so many epochs. plateau: drop when the validation loss has not improved for so many validations.",
        "Optimization",
        low=1,
        high=1000,
    )
    schedule_factor: float = described(
        0.1, "Drop factor", "step and plateau multiply the learning rate by this.", "Optimization", above=0.0, high=1.0
    )
    gradient_clip: float | None = described(
        None,
        "Gradient clipping",
        "Gradients longer than this (L2 norm) are shortened to it.",
        "Optimization",
        above=0.0,
        high=1e6,
        empty="off",
    )
    label_smoothing: float = described(
        0.0, "Label smoothing", "Share of each target spread evenly over all ten digits.", "Optimization", low=0.0, high=0.9
    )

    augment_shift: int = described(
        0, "Shift (pixels)", "Each training digit moves by up to so many pixels each way.", "Augmentation", low=0, high=10
    )
    augment_rotation: float = described(
        0.0,
        "Rotation (degrees)",
        "Each training digit turns by up to so many degrees each way.",
        "Augmentation",
        low=0.0,
        high=180.0,
    )
    augment_scale: float = described(
        0.0,
        "Scale",
        "Each training digit grows or shrinks by up to this share: 0.1 is 90 % to 110 %.",
        "Augmentation",
        low=0.0,
        high=0.5,
    )

    validations_per_epoch: int = described(
        1,
        "Validations per epoch",
        "How often the validation digits are scored. 0: only at the end.",
        "Evaluation",
        low=0,
        high=20,
    )
    early_stopping_patience: int | None = described(
        None,
        "Early stopping patience",
        "Stop when the validation loss has not improved for so many validations.",
        "Evaluation",
        low=1,
        high=1000,
        empty="off",
    )

    checkpoint_seconds: int = described(
        30,
        "Seconds between checkpoints",
        "How often the whole training state is saved while it runs: a crash loses at most "
        "so much training. The start, each best validation, a stop and the end save it anyway.",
        "Saving",
        low=1,
        high=86_400,
    )
    checkpoints_kept: int = described(
        2,
        "Checkpoints kept",
        "Older ones are deleted, except that of the best validation and those you saved by hand. Each "
        "takes about four times the size of the weights: 1 to 8 MB.",
        "Saving",
        low=1,
        high=100,
    )

    device: str = described(
        "auto",
        "Device",
        "auto: the GPU when one is usable, else the CPU. Or cpu, cuda, cuda:1, mps.",
        "Hardware",
        check=device_problem,
    )
    precision: str = described(
        "float32",
        "Precision",
        "Number format of the forward pass. auto: bfloat16 where the hardware computes with "
        "it, else float32. float16 needs CUDA.",
        "Hardware",
        choices=PRECISIONS,
    )
    threads: int | None = described(
        None,
        "CPU threads",
        "Threads for one tensor operation. On the CPU the thread count changes the last bits "
        "of the result, so a run records it.",
        "Hardware",
        low=1,
        high=256,
        empty="chosen to keep this page quick",
    )
    deterministic: bool = described(
        False,
        "Deterministic algorithms",
        "On a GPU: the same seed gives the same bits, at the price of speed. On the CPU runs repeat anyway.",
        "Hardware",
    )
    detect_anomaly: bool = described(
        False,
        "Detect anomaly",
        "autograd names the operation whose backward pass made a NaN. Slow: several times for small networks.",
        "Hardware",
    )

    def problems(self) -> dict[str, str]:
        """Say everything that is wrong with these settings: field name -> words. Empty when usable."""
        found: dict[str, str] = {}
        for name, setting in settings().items():
            problem = field_problem(getattr(self, name), setting, KINDS[name])
            if problem:
                found[name] = problem
        if not found:
            found.update(self._joint_problems())
        return found

    def validate(self) -> Self:
        """Return self. Raises ConfigError naming every unusable field."""
        found = self.problems()
        if found:
            raise ConfigError(found)
        return self

    def split_sizes(self) -> tuple[int, int, int]:
        """Numbers of digits (train, validation, test), with the defaults filled in."""
        pool, test = DATASETS[self.dataset]
        validation = DEFAULT_VALIDATION[self.dataset] if self.validation_size is None else self.validation_size
        return (pool - validation if self.train_size is None else self.train_size), validation, test

    def batches_per_epoch(self) -> int:
        """Forward passes in one epoch. See `joins_last_digit`."""
        train, _, _ = self.split_sizes()
        batches = math.ceil(train / self.batch_size)
        return batches - self.joins_last_digit()

    def joins_last_digit(self) -> bool:
        """Whether a last batch of a single digit joins the one before: BatchNorm cannot normalise one digit."""
        train, _, _ = self.split_sizes()
        return MODELS[self.model].has_batchnorm and train > self.batch_size and train % self.batch_size == 1

    def augments(self) -> bool:
        """Whether training digits are moved, turned or scaled."""
        return bool(self.augment_shift or self.augment_rotation or self.augment_scale)

    def steps_per_epoch(self) -> int:
        """Optimizer updates in one epoch; the last one may cover fewer digits."""
        return math.ceil(self.batches_per_epoch() / self.accumulation_steps)

    def total_steps(self) -> int:
        """Optimizer updates of the whole run, early stopping aside."""
        return self.steps_per_epoch() * self.epochs

    def validates_after(self, step: int) -> bool:
        """Whether the validation digits are scored after so many updates: at even places of each epoch, and at the end."""
        if step == self.total_steps():
            return True
        per_epoch, times = self.steps_per_epoch(), self.validations_per_epoch
        done = (step - 1) % per_epoch + 1
        return step > 0 and times > 0 and done * times // per_epoch > (done - 1) * times // per_epoch

    def validations(self, first: int, last: int) -> int:
        """How many of them there are after the updates `first + 1` to `last`."""
        return sum(self._validations_until(step) * sign for step, sign in ((last, 1), (first, -1)))

    def _validations_until(self, step: int) -> int:
        per_epoch, times, total = self.steps_per_epoch(), self.validations_per_epoch, self.total_steps()
        epochs, done = divmod(min(step, total), per_epoch)
        times_each = min(times, per_epoch)  # an epoch of three steps has at most three
        return epochs * times_each + min(done, done * times // per_epoch) + (step >= total and not times)

    def to_dict(self) -> dict[str, Any]:
        """Plain values by field name, ready for JSON."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def to_json(self) -> str:
        """Readable JSON of all fields."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=True) + "\n"

    def changed(self) -> dict[str, Any]:
        """Only the fields that differ from the defaults."""
        return {entry.name: value for entry in fields(self) if (value := getattr(self, entry.name)) != entry.default}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Build and check a configuration. Raises ConfigError for unknown keys, wrong types and wrong values."""
        if not isinstance(values, dict):
            raise ConfigError({"config": f"a configuration is a JSON object with one entry a field; got {values!r:.60}"})
        unknown = {str(key): "there is no such setting" for key in values if key not in KINDS}
        if unknown:
            # Most of ours and some more are the settings of another version; a few of ours are something else altogether.
            ours = len(KINDS.keys() & values.keys()) > len(KINDS) // 2
            raise (UnknownSettingError if ours else ConfigError)(unknown)
        return cls(**values).validate()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Inverse of `to_json`. Raises ConfigError with the place of a JSON mistake."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError({"config": f"this is not JSON: {error}"}) from None
        return cls.from_dict(values)

    def _joint_problems(self) -> dict[str, str]:
        found: dict[str, str] = {}
        pool, _ = DATASETS[self.dataset]
        train, validation, _ = self.split_sizes()
        if train + validation > pool:
            found["train_size" if self.train_size is not None else "validation_size"] = (
                f"{self.dataset} has {pool:,} digits to share out; {max(train, 0):,} for training and {validation:,} "
                "for validation are too many"
            )
        elif train < 10:
            found["validation_size"] = f"validation takes {validation:,} of {pool:,} digits: too few are left to train on"
        elif self.batch_size > train:
            found["batch_size"] = f"must be at most the number of training digits, {train:,}; got {self.batch_size:,}"
        if self.batch_size == 1 and MODELS[self.model].has_batchnorm:
            found["batch_size"] = (
                "BatchNorm compares a digit with the others in its batch, so a batch needs at least 2; got 1. "
                f"Choose a larger batch or a model without BatchNorm ({', '.join(_WITHOUT_BATCHNORM)})"
            )
        if self.workers and self.pipeline == "memory":
            found["workers"] = f"only the dataloader pipeline has workers; got {self.workers}. Set 0, or choose dataloader"
        if self.schedule == "plateau" and self.schedule_factor == 1:
            found["schedule_factor"] = "must be below 1 for reduce on plateau, which would reduce nothing; got 1"
        if not self.validations_per_epoch and (self.schedule == "plateau" or self.early_stopping_patience):
            what = "reduce on plateau" if self.schedule == "plateau" else "early stopping"
            found["validations_per_epoch"] = f"{what} needs validations during the run; got 0. Set 1 or more"
        left = self.total_steps() - self.schedule_start if not found else 0
        if not found and left <= 0:
            found["schedule_start"] = f"must be below the number of steps of the run, {self.total_steps():,}; got " + (
                f"{self.schedule_start:,}"
            )
        elif not found and self.warmup_steps > left:
            found["warmup_steps"] = f"must be at most the number of steps of the schedule, {left:,}; got {self.warmup_steps:,}"
        if self.precision == "float16" and not (self.device.startswith("cuda") or self.device == "auto"):
            found["precision"] = f"float16 training needs a CUDA GPU; the device is {self.device}. Choose float32 or bfloat16"
        return found


def settings() -> dict[str, Setting]:
    """Field name -> its Setting, in the order of the form."""
    return {entry.name: entry.metadata["setting"] for entry in fields(TrainConfig)}


def field_kind(name: str) -> type:
    """The plain type of a field (int, float, bool or str), whether or not it may be empty."""
    return KINDS[name]


KINDS: dict[str, type] = {name: plain_kind(hint) for name, hint in get_type_hints(TrainConfig).items()}
