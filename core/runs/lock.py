"""Whether a run is held by a training, here or in another process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import RunError
from core.runs.folder import LOCK

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


_LOCK_SECONDS = 1.0  # somebody may just be looking whether it is held


def is_held(folder: Path) -> bool:
    """True while some process trains this run.

    On POSIX looking takes a shared lock, so that any number of people may look at a time, and a folder that cannot be
    written can be looked at, too.
    """
    if fcntl is None:  # Windows
        lock = FileLock(folder / LOCK, thread_local=False)
        try:
            lock.acquire(timeout=0.05)
        except Timeout:
            return True
        except OSError:
            return False
        lock.release()
        return False
    try:
        with open(folder / LOCK, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's lock, so that nobody begins to train it meanwhile. Raises RunError: somebody trains it."""
    lock = locked(folder, "is being trained or waits in the queue. Stop it first.", "changed")
    try:
        yield
    finally:
        lock.release()


def locked(folder: Path, when_held: str, what: str) -> FileLock:
    """A run's lock, taken. Raises RunError: "Run X" with `when_held`, or that it cannot be `what`."""
    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
    except Timeout:
        raise RunError(f"Run {folder.name} {when_held}") from None
    except OSError as error:
        raise RunError(f"Run {folder.name} cannot be {what}: {error.strerror or error}.") from error
    return lock
