"""Runs as their folders show them, whoever trains them: many viewers of one run share the reading."""

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from core.runs.folder import run_folder
from core.runs.info import RunInfo
from core.runs.reader import RunReader, RunView

MAX_READERS = 48  # a page shows two groups of twenty seeds


class Readers:
    """One `RunReader` for each run that was looked at lately; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: OrderedDict[Path, tuple[threading.Lock, RunReader]] = OrderedDict()
        self._unwritten: dict[str, RunInfo] = {}

    def read(self, runs_root: Path, run_id: str) -> RunView:
        """A run as its folder shows it now. Raises RunError when there is no such run or it cannot be read."""
        folder = run_folder(runs_root, run_id).absolute()
        with self._lock:
            lock, reader = self._readers.setdefault(folder, (threading.Lock(), RunReader(folder)))
            self._readers.move_to_end(folder)
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)
        with lock:
            view = reader.read()
        unwritten = self._unwritten.get(run_id)
        return replace(view, info=unwritten) if unwritten else view

    def tell_instead(self, info: RunInfo) -> None:
        """How a run ended whose disk did not take it: this is told in place of its status.json."""
        self._unwritten[info.run_id] = info

    def forget(self, folder: Path) -> None:
        """Read a run anew: it is taken up again."""
        self._unwritten.pop(folder.name, None)
        self._readers.pop(folder.absolute(), None)
