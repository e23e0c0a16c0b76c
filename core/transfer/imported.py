"""A file with weights becomes a run of its own, so that every page can ask it."""

from pathlib import Path

from core.model.weights import save_weights
from core.runs.folder import RunFolder
from core.runs.writer import RunWriter
from core.status import RunStatus
from core.storage.disk_use import check_disk
from core.transfer.weights_in import FoundWeights


def import_run(found: FoundWeights, name: str, runs_root: Path) -> str:
    """Keep weights as a run that was not trained here, and return its id.

    Args:
        name: what the file was called; it is kept as words only.

    Raises:
        RunError, CheckpointError: the folder cannot be written, or there is no room.
    """
    check_disk(runs_root)
    writer = RunWriter.create(runs_root, found.config)
    try:
        save_weights(RunFolder(writer.folder).best, found.weights, found.config, found.step, None)
        writer.update(imported=name[:120] or "a file", step=found.step)
        writer.set_status(RunStatus.STOPPED, " ".join(found.notes))
    finally:
        writer.close()
    return writer.run_id
