"""All runs of a folder as rows of a table. Thousands of them: what was read once is read again only when its files change."""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.config.text import format_value
from core.config.train_config import TrainConfig
from core.errors import NewerFormatError, RunError
from core.runs.folder import CONFIG, NOTES, STATUS, STEPS, run_names
from core.runs.info import RunInfo, read_info
from core.runs.notes import RunNotes, read_notes
from core.runs.reader import read_config
from core.status import RunStatus

# By these files a row is known to be as it was.
_WATCHED = (STATUS, CONFIG, NOTES)
RESULTS = {
    "best_accuracy": "Best validation accuracy",
    "test_accuracy": "Test accuracy",
    "images_per_second": "Images/s",
    "train_seconds": "Training time (s)",
}


@dataclass(frozen=True)
class RunRow:
    """One run.

    Attributes:
        config: None when its settings cannot be read. damage: what of the folder cannot be read, in words; "" when all is well.
    """

    info: RunInfo
    notes: RunNotes
    config: TrainConfig | None
    damage: str = ""

    @property
    def run_id(self) -> str:
        """Its folder's name."""
        return self.info.run_id

    @property
    def title(self) -> str:
        """The name a person gave it, or its id."""
        return self.notes.name or self.run_id

    @property
    def images_per_second(self) -> float | None:
        """Training digits per second of training time; None before there is a figure that can be."""
        if not self.info.images or self.info.train_seconds < 1e-6:
            return None
        rate = self.info.images / self.info.train_seconds
        return rate if rate < 1e12 else None

    def result(self, name: str) -> float | None:
        """One of RESULTS; None when it is not known."""
        value = self.images_per_second if name == "images_per_second" else getattr(self.info, name)
        return None if name == "train_seconds" and not value else value

    @functools.cached_property
    def group_key(self) -> str:
        """What a run has in common with those that differ from it in nothing but the seed; "" where that is not known. Forks,
        lessons and runs from elsewhere began with weights that their seed does not say: they have nothing in common."""
        if self.config is None or self.info.parent is not None or self.info.imported:
            return ""
        return group_key(self.config)

    @functools.cached_property
    def changed(self) -> str:
        """What differs from the default settings, in one line."""
        if self.config is None:
            return ""
        return ", ".join(f"{name} {format_value(value) or 'none'}" for name, value in self.config.changed().items())

    @functools.cached_property
    def text(self) -> str:
        """All that a search looks at, in lower case."""
        config = self.config.to_dict() if self.config else {}
        settings = (f"{name}={format_value(value)}" for name, value in config.items())
        parts = (
            self.run_id,
            self.notes.name,
            *self.notes.tags,
            self.notes.note,
            self.info.status,
            self.info.preset or "",
            self.info.parent or "",
            self.info.imported,
            self.changed,
            *settings,
        )
        return " ".join(parts).lower()


# What does not change what is learned.
_ASIDE = ("seed", "checkpoint_seconds", "checkpoints_kept")


def group_key(config: TrainConfig) -> str:
    """The settings that runs of one group have in common, as text."""
    usual = TrainConfig()
    return replace(config, **{name: getattr(usual, name) for name in _ASIDE}).to_json()


class RunIndex:
    """The rows of one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[tuple[Any, ...], RunRow]] = {}

    def rows(self) -> list[RunRow]:
        """Every run, newest first; damaged ones too, with words. Folders that hold nothing of a run are passed over."""
        found: dict[str, tuple[tuple[Any, ...], RunRow]] = {}
        root = str(self._root)
        for name in sorted(run_names(self._root), reverse=True):
            stamp = _stamp(f"{root}/{name}")
            known = self._known.get(name)
            if known is None or known[0] != stamp or known[1].info.status.is_active:
                if (row := read_row(self._root / name)) is None:
                    continue
                known = stamp, row
            found[name] = known
        self._known = found  # one assignment: two pages may read at a time
        return [row for _, row in found.values()]


@functools.lru_cache(maxsize=4)
def index_of(root: Path) -> RunIndex:
    """The index of a folder, shared by all who look."""
    return RunIndex(root)


def _stamp(folder: str) -> tuple[Any, ...]:
    """Changes with every change of the watched files. Plain strings: making paths of them takes longer than looking."""
    stamps: list[Any] = []
    for name in _WATCHED:
        try:
            status = os.stat(f"{folder}/{name}")
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def read_row(folder: Path) -> RunRow | None:
    """One run, whatever state its folder is in; None when nothing in it belongs to a run."""
    problems = []
    info, notes, config = RunInfo(folder.name, RunStatus.FAILED), RunNotes(), None
    try:
        info = read_info(folder)
    except NewerFormatError as error:
        return RunRow(info, notes, config, str(error))
    except RunError as error:
        if not any((folder / name).exists() for name in (STATUS, CONFIG, STEPS)):
            return None
        problems.append(f"status.json cannot be read: what became of it is unknown. ({error})")
    try:
        notes = read_notes(folder)
    except RunError as error:
        problems.append(str(error))
    try:
        config = read_config(folder)
    except NewerFormatError as error:
        problems.append(str(error))
    except RunError as error:
        problems.append(f"config.json cannot be read: its settings are unknown. ({error})")
    return RunRow(info, notes, config, " ".join(problems))


def differing(rows: Sequence[RunRow]) -> dict[str, list[str]]:
    """Settings in which runs differ: name -> the value of each, as text; "?" where settings cannot be read."""
    configs = [row.config.to_dict() if row.config else None for row in rows]
    names = next((list(config) for config in configs if config), [])
    table = {name: [format_value(config[name]) or "none" if config else "?" for config in configs] for name in names}
    return {name: values for name, values in table.items() if len(set(values) - {"?"}) > 1}
