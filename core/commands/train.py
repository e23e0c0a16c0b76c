"""`python -m core train`: one run in this terminal, which the dashboard shows live."""

import argparse
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from core.commands.given import assigned, config_from, print_json
from core.config.text import with_texts
from core.data.sources import data_root, missing_files
from core.errors import ConfigError
from core.execution.trainer import Trainer
from core.runs.folder import RunFolder, run_folder, runs_root
from core.runs.info import read_info
from core.runs.reader import RunView, read_config
from core.status import RunStatus

if TYPE_CHECKING:
    from core.execution.fork import Fork


def train_run(given: argparse.Namespace) -> int:
    """Train, resume or fork one run to its end; 0 unless it failed."""
    data, runs = given.data or data_root(), given.runs or runs_root()
    origin = None
    if given.resume is not None:
        if given.preset or given.set:
            raise ConfigError({"--resume": "a run goes on with its own settings; leave out --preset and --set"})
        config = read_config(run_folder(runs, given.resume))
    elif given.fork is not None:
        origin = _fork(given, runs)
        config = origin.config
    else:
        config = config_from(given.preset or "tutorial", given.set)
    if config.dataset == "mnist" and missing_files(data):
        _download(data, quiet=given.json)
    trainer, shown = Trainer(beside_pages=False), 0
    signal.signal(signal.SIGTERM, _interrupt)  # as Ctrl-C: stop after this step and save
    if given.resume is not None:
        run_id = given.resume
        newest = max(RunFolder(run_folder(runs, run_id)).states(), default=0)
        shown = sum(validation.step <= newest for validation in trainer.readers.read(runs, run_id).validations)
        trainer.resume(run_id, data, runs)
    else:
        run_id = trainer.start(config, data, runs, origin=origin)
    try:
        _follow(trainer, runs, run_id, given.json, shown)
    except KeyboardInterrupt:
        print("\nStopping after this step; press again to give up its last weights.", file=sys.stderr)
        trainer.stop(run_id)
        trainer.wait_until_idle(60)
    return _report_end(trainer.readers.read(runs, run_id), given.json)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _fork(given: argparse.Namespace, runs: Path) -> "Fork":
    from core.execution.fork import fork, longer
    from core.execution.kept_states import newest_state
    from core.training.saved_state import load_state

    parent, mark, step = given.fork.partition("@")
    folder = run_folder(runs, parent)
    read_info(folder)  # says so when there is no such run
    if mark:
        path = RunFolder(folder).states().get(int(step) if step.isdecimal() else -1)
        if path is None:
            kept = ", ".join(map(str, RunFolder(folder).states())) or "none"
            raise ConfigError({"--fork": f"run {parent} keeps no state of step {step!r:.20}; it keeps {kept}"})
        saved = load_state(path)
    else:
        saved = newest_state(folder)
    if given.preset:
        raise ConfigError({"--preset": "a fork has its parent's settings; change them with --set"})
    config = with_texts(saved.config, assigned(given.set))
    return fork(parent, saved, longer(saved, config, given.schedule_then) if given.schedule_then else config)


def _download(root: Path, *, quiet: bool) -> None:
    from core.data.download import download_mnist

    for progress in download_mnist(root):
        if not quiet and sys.stderr.isatty():
            share = f"{progress.done / progress.total:4.0%}" if progress.total else ""
            print(f"\r\033[KDownloading {progress.message} {share}", end="", file=sys.stderr)
    if not quiet:
        print(file=sys.stderr)


def _follow(trainer: Trainer, runs: Path, run_id: str, as_json: bool, shown: int) -> None:
    """Show progress until the run has ended: a bar on a terminal, lines elsewhere or as JSON.

    Args:
        shown: validations that need not be told, since they are of a time before.
    """
    terminal, next_line = sys.stderr.isatty() and not as_json, monotonic()
    idle = False
    while not idle:
        idle = trainer.wait_until_idle(0.2)  # once more after the end: the last validation may have come just before
        snapshot = trainer.readers.read(runs, run_id)
        for validated in snapshot.validations[shown:]:
            evaluation = validated.evaluation
            if as_json:
                print_json(
                    {
                        "kind": "validated",
                        "step": validated.step,
                        "epoch": validated.epoch,
                        "loss": evaluation.loss,
                        "accuracy": evaluation.accuracy,
                    }
                )
            else:
                clear = "\r\033[K" if terminal else ""
                print(
                    f"{clear}epoch {validated.epoch:g}: validation loss {evaluation.loss:.4f}, accuracy "
                    f"{evaluation.accuracy:.2%}{'  (best)' if validated.best else ''}",
                    file=sys.stderr,
                )
        shown = max(shown, len(snapshot.validations))
        if terminal:
            print(f"\r\033[K{_bar(snapshot)}", end="", file=sys.stderr, flush=True)
        elif monotonic() >= next_line:
            next_line = monotonic() + 5
            if as_json:
                print_json(
                    {
                        "kind": "progress",
                        "run_id": run_id,
                        "status": snapshot.info.status,
                        "step": snapshot.step,
                        "total_steps": snapshot.total_steps,
                    }
                )
    if terminal:
        print(file=sys.stderr)


def _bar(snapshot: RunView, width: int = 30) -> str:
    if snapshot.info.status != RunStatus.RUNNING:
        return f"{snapshot.info.status} ..."
    done = snapshot.step / max(1, snapshot.total_steps)
    rate = snapshot.images_per_second()
    loss = float(snapshot.steps.column("loss")[-1]) if len(snapshot.steps) else float("nan")
    filled = round(done * width)
    return (
        f"[{'#' * filled}{'.' * (width - filled)}] step {snapshot.step:,}/{snapshot.total_steps:,}  loss {loss:.3f}  "
        f"{f'{rate:,.0f} images/s' if rate else ''}"
    )


def _report_end(snapshot: RunView, as_json: bool) -> int:
    info = snapshot.info
    images = int(snapshot.steps.column("images").astype("int64").sum()) if len(snapshot.steps) else 0
    rate = images / info.train_seconds if info.train_seconds else None
    if as_json:
        print_json(
            {
                "kind": "result",
                "run_id": info.run_id,
                "status": info.status,
                "test_accuracy": info.test_accuracy,
                "train_images_per_second": rate,
                "train_seconds": info.train_seconds,
                "steps": snapshot.step,
                "best_accuracy": info.best_accuracy,
                "reason": info.reason,
            }
        )
    else:
        tested = f", test accuracy {info.test_accuracy:.2%}" if info.test_accuracy is not None else ""
        print(
            f"Run {info.run_id} {info.status}: {snapshot.step:,} steps in {info.train_seconds:.1f} s"
            f"{f', {rate:,.0f} images/s' if rate else ''}{tested}"
        )
        if info.reason:
            print(info.reason, file=sys.stderr)
    return int(info.status in (RunStatus.FAILED, RunStatus.INTERRUPTED))
