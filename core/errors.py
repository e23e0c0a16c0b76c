"""What can go wrong, in words for the person at the dashboard or the terminal."""

from collections.abc import Mapping


class CoreError(Exception):
    """A failure with a message that says what happened, what was given and what to do."""


class ConfigError(CoreError):
    """One or more settings are unusable.

    Attributes:
        problems: field name -> what is wrong with it, in words. Never empty.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("\n".join(f"{field}: {problem}" for field, problem in self.problems.items()))


class DataError(CoreError):
    """A data set is missing, damaged or not the one it claims to be.

    Attributes:
        files: names of the files that are to be replaced; empty when no single file is at fault.
    """

    def __init__(self, message: str, files: tuple[str, ...] = ()) -> None:
        self.files = files
        super().__init__(message)


class DeviceError(CoreError):
    """The device that was asked for cannot be used."""


class TrainingError(CoreError):
    """Training had to stop: a non-finite loss or gradient, or memory that ran out."""


class RunError(CoreError):
    """A run's folder is missing, damaged or cannot be written."""


class NewerFormatError(RunError):
    """A run that a newer version wrote: nothing is wrong with it, but it cannot be read here."""


class CheckpointError(CoreError):
    """A checkpoint file is missing, damaged or does not fit."""


class DrawingError(CoreError):
    """A drawing or a picture cannot be read as a digit."""
