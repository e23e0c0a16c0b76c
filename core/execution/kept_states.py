"""Which saved states of a run are kept, found again, and forgotten."""

from contextlib import suppress
from pathlib import Path

from core.errors import CheckpointError
from core.runs.folder import RunFolder
from core.training.saved_state import SavedState, load_state


def newest_state(run: Path, up_to: int | None = None) -> SavedState:
    """The last state that is whole; `up_to`: of this step or before.

    Raises:
        CheckpointError: there is none, or all are damaged; says which and why.
    """
    problems = []
    for step, path in reversed(RunFolder(run).states().items()):
        if up_to is not None and step > up_to:
            problems.append(f"{path.name} is of a step whose metrics are missing: they reach to step {up_to:,}. Fork it.")
            continue
        for file in dict.fromkeys((path, RunFolder(run).state(step, kept=True))):  # of one step there may be both
            if not file.exists():
                continue
            try:
                found = load_state(file)
                if found.step == step:
                    return found
                problems.append(f"{file.name} holds the state of step {found.step:,}.")
            except CheckpointError as error:
                problems.append(str(error))
    raise CheckpointError(f"Run {run.name} keeps no state to go on from. {' '.join(problems)}".strip())


def thin_out(run: Path, keep: int, best_step: int = 0) -> None:
    """Delete all but the `keep` newest states; those a person asked for stay, and so does that of the best validation."""
    automatic = [
        path for step, path in RunFolder(run).states().items() if not path.stem.endswith("-kept") and not 0 < step == best_step
    ]
    for path in automatic[: max(0, len(automatic) - keep)]:
        with suppress(OSError):  # it is in the way of nobody
            path.unlink()


def rewind(run: Path, step: int) -> None:
    """Delete the states and snapshots after a step that a run goes on from; states that a person asked for stay.

    They are damaged, or of steps that are trained again, and would count as the newest. The metrics are taken back by
    `RunWriter.take_back`.
    """
    folder = RunFolder(run)
    later = [path for after, path in folder.states().items() if after > step and not path.stem.endswith("-kept")]
    later += [path for after, path in folder.snapshots().items() if after > step]
    for path in later:
        with suppress(OSError):
            path.unlink()
