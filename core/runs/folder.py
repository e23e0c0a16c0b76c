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
          lock               held by the process that trains, so that a killed run is not taken for a running one
"""

import os
import re
import secrets
import time
from pathlib import Path

from core.errors import RunError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STATE = re.compile(r"step-(\d{8})(-kept)?\.pt", re.ASCII)


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


def state_path(folder: Path, step: int, *, kept: bool = False) -> Path:
    """Where the training state of a step lies; `kept`: a person asked for it, so it is never thinned out."""
    return folder / "states" / f"step-{step:08d}{'-kept' if kept else ''}.pt"


def saved_states(folder: Path) -> dict[int, Path]:
    """Step -> file of the training states that a run can go on from, by step; looks at names only. Of one step that was saved
    by itself and by hand the automatic file is given, so that it can be thinned out."""
    try:
        found = {path.name: int(match[1]) for path in (folder / "states").iterdir() if (match := _STATE.fullmatch(path.name))}
    except OSError:
        return {}
    # In this order the shorter, automatic name comes last and stays.
    return dict(sorted((step, folder / "states" / name) for name, step in sorted(found.items(), key=lambda one: -len(one[0]))))
