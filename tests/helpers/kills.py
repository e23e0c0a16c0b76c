"""Kill -9 a training again and again, at random moments, and see what is left each time.

One process imports torch and forks the trainings, which therefore begin at once. Each takes the run up where the one before
left it, saves its whole state after every report, so that many kills hit a file that is being written, and tells through a
pipe what it has finished.
"""

import json
import os
import random
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from core.config.train_config import TrainConfig
from core.data.sources import load_splits
from core.errors import CoreError
from core.events import StepsEnded
from core.execution.kept_states import newest_state
from core.execution.recorder import RecordedRun
from core.model.weights import copy_weights, load_weights
from core.runs.folder import RunFolder
from core.runs.reader import RunReader
from core.runs.writer import RunWriter
from core.status import RunStatus
from core.training.saved_state import load_state, restored
from core.training.state import new_state
from tests.helpers.trainings import followed

KILLED = TrainConfig(
    dataset="mnist_sample",
    model="lab_cnn",
    dropout=0.3,
    train_size=640,
    validation_size=100,
    batch_size=16,
    epochs=1000,
    threads=1,
    device="cpu",
    validations_per_epoch=4,
    checkpoints_kept=2,
)


@dataclass
class Kills:
    """What many kills did.

    Attributes:
        lost_checkpoints: kills after which a state or the best weights that had been finished could not be read.
        unresumable: kills after which the run could not be taken up.
        lost_steps: the most steps that had been reported as recorded and were gone.
        during_save: kills that left a half-written file.
        steps: how far the run got. problems: in words.
    """

    kills: int = 0
    lost_checkpoints: int = 0
    unresumable: int = 0
    lost_steps: int = 0
    during_save: int = 0
    steps: int = 0
    problems: tuple[str, ...] = ()


def _child(folder: Path, config: TrainConfig, say: int, goes_on: bool) -> None:
    """Train until killed; tells `step N`, `saved N` and `validated N` when each is finished."""
    writer = RunWriter.reopen(folder)
    with RecordedRun(config, Path("none"), writer, beside_pages=False, goes_on=goes_on) as recorded:
        for event in recorded.events():
            if isinstance(event, StepsEnded):
                os.write(say, f"step {int(event.steps['step'][-1])}\n".encode())
                recorded.save_state()
                os.write(say, f"saved {int(event.steps['step'][-1])}\n".encode())
    os.write(say, b"end 0\n")


def _fork(folder: Path, config: TrainConfig, goes_on: bool) -> tuple[int, int]:
    """(process id, pipe to read from) of a training."""
    listen, say = os.pipe()
    process = os.fork()
    if process:
        os.close(say)
        return process, listen
    os.close(listen)
    try:
        _child(folder, config, say, goes_on)
        os._exit(0)
    except BaseException as error:
        os.write(say, f"failed {type(error).__name__}: {error}\n".encode()[:500].replace(b"\n", b" ") + b"\n")
        os._exit(1)


def _listen(pipe: int, seconds: float) -> list[str]:
    """Lines that come within so many seconds, or until the other end closes."""
    deadline, text = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 65536)
        if not part:
            break
        text += part
    return text.decode().splitlines()


def kill_often(runs: Path, count: int, seed: int) -> Kills:
    """Kill one run `count` times. Each training lives until a random moment of up to 0.3 s after its first report."""
    moments, found = random.Random(seed), Kills()
    # What a training reads and imports at its first step is then there in each. With one thread a fork loses none.
    followed(new_state(KILLED), load_splits(KILLED, Path("none")), (2, False))
    writer = RunWriter.create(runs, KILLED)
    folder = writer.folder
    writer.set_status(RunStatus.RUNNING)
    writer.close()
    reader, told = RunReader(folder), {"step": 0, "saved": 0}
    for number in range(count):
        process, pipe = _fork(folder, KILLED, goes_on=number > 0)
        lines = _listen_for_first(pipe)
        lines += _listen(pipe, moments.uniform(0, 0.3))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        lines += _listen(pipe, 5)
        os.close(pipe)
        found.kills += 1
        failed = [line for line in lines if line.startswith("failed")]
        if failed or not lines:
            found.unresumable += 1
            found.problems += (f"kill {number}: {failed[0] if failed else 'nothing was heard'}",)
            continue
        for line in lines:
            kind, _, value = line.partition(" ")
            told[kind] = int(value)
        found.during_save += any(folder.rglob("*.part"))
        _look(folder, reader, told, found)
        found.steps = told["step"]
    return found


def _listen_for_first(pipe: int) -> list[str]:
    """The first lines, once a training is under way."""
    for _ in range(600):
        if lines := _listen(pipe, 0.1):
            return lines
    return []


def _look(folder: Path, reader: RunReader, told: dict[str, int], found: Kills) -> None:
    """What is on the disk after a kill, against what had been told as finished."""
    try:
        snapshot = reader.read()
        found.lost_steps = max(found.lost_steps, told["step"] - snapshot.step)
        if snapshot.damage or snapshot.info.status != RunStatus.INTERRUPTED:
            found.problems += (f"after step {told['step']}: {snapshot.info.status} {snapshot.damage}",)
        newest = newest_state(folder).step
        whole = all(load_state(path).step == step for step, path in RunFolder(folder).states().items())
        best = [one.step for one in snapshot.validations if one.best]
        best_whole = not best or load_weights(folder / "best.pt")["step"] >= best[-1]  # written before it is recorded
        if newest < told["saved"] or not whole or not best_whole:
            found.lost_checkpoints += 1
            found.problems += (f"saved {told['saved']}, newest {newest}, all whole: {whole}, best whole: {best_whole}",)
    except CoreError as error:
        found.lost_checkpoints += 1
        found.problems += (f"after step {told['step']}: {error}",)


def finish_and_compare(runs: Path, steps: int) -> str:
    """Let the killed run go on to a last step, train it again in one go, and name what differs; "" when nothing does."""
    splits = load_splits(KILLED, Path("none"))
    folder = next(path for path in runs.iterdir() if path.is_dir())
    killed, whole = restored(newest_state(folder)), new_state(KILLED)
    last = max(steps, killed.step) + 10
    for state in (killed, whole):
        followed(state, splits, (last, False))
    first, second = copy_weights(killed.model), copy_weights(whole.model)
    return next((name for name in first if not first[name].equal(second[name])), "")


def main() -> None:
    """argv: runs folder, kills, seed. The last line is JSON."""
    import torch

    torch.set_num_threads(1)
    runs, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    found = kill_often(runs, count, seed)
    differs = finish_and_compare(runs, found.steps)
    print(json.dumps({**asdict(found), "differs": differs}))


if __name__ == "__main__":
    main()
