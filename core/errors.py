"""What can go wrong, in words for the person at the dashboard or the terminal.

CoreError               says what happened, what was given and what to do
    ConfigError         settings
        UnknownSettingError     such as there are none here
    DataError           a data set
    DeviceError         a device
    TrainingError       a training that had to stop
    RunError            a run's folder
        NewerFormatError    written by a newer version
    CheckpointError     a file with weights or a state
        MoreThanWeightsError    it holds code that would run (core/storage/torch_files.py)
    ArchiveError        a zip (core/storage/archives.py)
    DrawingError        a drawing or a picture
    BatchOfOneError     BatchNorm with a single value
    ModelChangedError   a defect of this program
"""

from collections.abc import Mapping
from enum import StrEnum


class Failure(StrEnum):
    """The kind of a failure, as status.json and a job keep it. Other errors are kept by the name of their class."""

    CORE = "CoreError"
    CONFIG = "ConfigError"
    DATA = "DataError"
    DEVICE = "DeviceError"
    TRAINING = "TrainingError"
    RUN = "RunError"
    CHECKPOINT = "CheckpointError"
    DRAWING = "DrawingError"
    BATCH_OF_ONE = "BatchOfOneError"
    MODEL_CHANGED = "ModelChangedError"
    MEMORY = "OutOfMemoryError"
    """Memory ran out, whichever library said so."""
    SHUT_DOWN = "ShutDown"
    """No error: the server of a run was shut down, and it would have gone on."""


class CoreError(Exception):
    """A failure with a message that says what happened, what was given and what to do."""

    failure = Failure.CORE


def failure_of(error: BaseException) -> str:
    """The kind of an error, to be kept: of ours a `Failure`, whatever its class is called later."""
    return error.failure if isinstance(error, CoreError) else type(error).__name__


class ConfigError(CoreError):
    """One or more settings are unusable.

    Attributes:
        problems: field name -> what is wrong with it, in words. Never empty.
    """

    failure = Failure.CONFIG

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("\n".join(f"{field}: {problem}" for field, problem in self.problems.items()))


class UnknownSettingError(ConfigError):
    """Settings that this version does not have: most likely those of a newer one."""


class DataError(CoreError):
    """A data set is missing, damaged or not the one it claims to be.

    Attributes:
        files: names of the files that are to be replaced; empty when no single file is at fault.
    """

    failure = Failure.DATA

    def __init__(self, message: str, files: tuple[str, ...] = ()) -> None:
        self.files = files
        super().__init__(message)


class DeviceError(CoreError):
    """The device that was asked for cannot be used."""

    failure = Failure.DEVICE


class TrainingError(CoreError):
    """Training had to stop: a non-finite loss or gradient, or memory that ran out."""

    failure = Failure.TRAINING


class RunError(CoreError):
    """A run's folder is missing, damaged or cannot be written."""

    failure = Failure.RUN


class NewerFormatError(RunError):
    """A run that a newer version wrote: nothing is wrong with it, but it cannot be read here."""


class CheckpointError(CoreError):
    """A checkpoint file is missing, damaged or does not fit."""

    failure = Failure.CHECKPOINT


class DrawingError(CoreError):
    """A drawing or a picture cannot be read as a digit."""

    failure = Failure.DRAWING


class BatchOfOneError(CoreError):
    """BatchNorm cannot normalise a single value by itself."""

    failure = Failure.BATCH_OF_ONE


class ModelChangedError(CoreError):
    """An experiment changed the model it was to look at: a defect of this program."""

    failure = Failure.MODEL_CHANGED
