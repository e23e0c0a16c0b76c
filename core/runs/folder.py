"""A run's folder: the truth about a run, whoever trained it. Written by appending; `reader.py` reads it by tailing.

runs/<id>/config.json        settings (TrainConfig.to_json)
          environment.json   versions and machine
          status.json        state, reason, progress, result; replaced as a whole about once a second
          steps.bin          rows of events.STEP_DTYPE, appended about ten times a second
          reports.bin        rows of events.REPORT_DTYPE, likewise
          events.jsonl       started, validated, tested, stopped early: one JSON object a line
          best.pt, last.pt   weights (core.model.weights)
          snapshots/         weights along the way (core.runs.snapshots)
          states/            whole training states to go on from (core.training.saved_state)
          drawings.npz       what a lesson taught besides its data set (core.execution.lesson)
          notes.json         what a person says about the run (core.runs.notes)
          lock               held by the process that trains, so that a killed run is not taken for a running one
"""

import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.errors import RunError

CONFIG, ENVIRONMENT, STATUS, NOTES = "config.json", "environment.json", "status.json", "notes.json"
STEPS, REPORTS, EVENTS = "steps.bin", "reports.bin", "events.jsonl"
BEST, LAST, DRAWINGS, LOCK = "best.pt", "last.pt", "drawings.npz", "lock"
SNAPSHOTS, STATES = "snapshots", "states"
# What a run's folder holds, its lock and half-written files left out: what leaves in a zip and may come in with one.
FILES = (CONFIG, ENVIRONMENT, STATUS, NOTES, STEPS, REPORTS, EVENTS, BEST, LAST, DRAWINGS)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BY_STEP = {
    SNAPSHOTS: re.compile(r"step-(\d{8})\.pt", re.ASCII),
    STATES: re.compile(r"step-(\d{8})(-kept)?\.pt", re.ASCII),
}


@dataclass(frozen=True)
class RunFolder:
    """The files of one run by what they are; nothing is read or written here, but names are listed."""

    path: Path

    @classmethod
    def of(cls, run_id: str) -> Self:
        """A run of this process's runs folder. Raises RunError for an id that is none."""
        return cls(run_folder(runs_root(), run_id))

    @property
    def best(self) -> Path:
        """The weights of the best validation."""
        return self.path / BEST

    @property
    def last(self) -> Path:
        """The weights after the last step."""
        return self.path / LAST

    def weights(self, which: str) -> Path:
        """The file of "best" or "last" weights."""
        return {"best": self.best, "last": self.last}[which]

    def snapshot(self, step: int) -> Path:
        """Where the weights of a step are kept."""
        return self.path / SNAPSHOTS / f"step-{step:08d}.pt"

    def snapshots(self) -> dict[int, Path]:
        """Step -> file of the snapshots that the run has so far, by step."""
        return self._by_step(SNAPSHOTS)

    def state(self, step: int, *, kept: bool = False) -> Path:
        """Where the training state of a step lies; `kept`: a person asked for it, so it is never thinned out."""
        return self.path / STATES / f"step-{step:08d}{'-kept' if kept else ''}.pt"

    def states(self) -> dict[int, Path]:
        """Step -> file of the training states that the run can go on from, by step. Of one step that was saved by itself and
        by hand the automatic file is given, so that it can be thinned out."""
        return self._by_step(STATES)

    def _by_step(self, part: str) -> dict[int, Path]:
        try:
            names = [
                (match, entry) for entry in (self.path / part).iterdir() if (match := _BY_STEP[part].fullmatch(entry.name))
            ]
        except OSError:
            return {}
        # In this order the shorter, automatic name of a state comes last and stays.
        names.sort(key=lambda named: -len(named[1].name))
        return dict(sorted({int(match[1]): entry for match, entry in names}.items()))

    def disk_bytes(self) -> dict[str, int]:
        """What the run takes on the disk, in bytes: "states", "snapshots", and the "rest" (metrics, best and last weights)."""
        sizes = {STATES: 0, SNAPSHOTS: 0, "rest": 0}
        for part in sizes:
            with suppress(OSError), os.scandir(self.path if part == "rest" else self.path / part) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # thinned out meanwhile
                        sizes[part] += entry.stat().st_size if entry.is_file() else 0
        return sizes


def is_run_file(name: str) -> bool:
    """True for a file that a run's folder holds, named from that folder on with "/", such as "states/step-00000010.pt"."""
    part, _, file = name.rpartition("/")
    return name in FILES if not part else part in _BY_STEP and _BY_STEP[part].fullmatch(file) is not None


def runs_root() -> Path:
    """The runs folder: DIGIT_LAB_RUNS, else `runs` in the working directory."""
    return Path(os.environ.get("DIGIT_LAB_RUNS") or "runs")


def run_folder(root: Path, run_id: str) -> Path:
    """The folder of a run. Raises RunError for an id that is none, so no text from a browser becomes another path."""
    if not _ID.fullmatch(run_id):
        raise RunError(
            "This is not a run's id, which has letters, digits, - and _ only."
        )  # not repeated: a link may say anything
    return root / run_id


def fresh_id(root: Path, created: float | None = None) -> str:
    """An id that no run has. It says when, in local time, to 1/256 of a second, so that ids are in the order of time."""
    created = time.time() if created is None else created
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created)) + f"-{int(created % 1 * 256):02x}"
    while (root / (name := f"{stamp}{secrets.token_hex(1)}")).exists():
        pass
    return name


def run_names(root: Path) -> list[str]:
    """Names of all folders that a run could have, in no order."""
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if _ID.fullmatch(entry.name) and entry.is_dir()]
    except OSError:
        return []
