"""Does a run repeat, and does it go on after a stop? Tried out on the spot, step by step, bit by bit.

`python -m core prove` runs these in a process of their own, so that a training beside it keeps its threads and algorithms.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.sources import Splits, load_splits
from core.errors import ConfigError, RunError
from core.events import StepDone
from core.machine.hardware import numerics
from core.model.checkpoint_file import content_digest
from core.status import Progress
from core.training.loop import train
from core.training.reporting import take_pending
from core.training.saved_state import load_state, restored, save_state
from core.training.state import TrainState, new_state

ProofKind = Literal["repeat", "resume"]
PROOF_STEPS = 60


@dataclass(frozen=True)
class Proof:
    """What came of it.

    Attributes:
        steps: how many steps were compared. cut: after which of them the second training was saved, loaded and continued; 0
            when it was not.
        tensors: how many tensors and plain values were compared after each step.
        digest: SHA-256 over the last state of the first training.
        first_step, name: where the two differ first; 0 and "" when they never do.
        advice: which setting would mend it, in words; "" when nothing differs.
    """

    kind: ProofKind
    steps: int
    cut: int
    tensors: int
    digest: str
    first_step: int = 0
    name: str = ""
    advice: str = ""

    @property
    def holds(self) -> bool:
        """True when every bit was the same after every step."""
        return not self.first_step


def prove(kind: ProofKind, config: TrainConfig, data_root: Path, *, steps: int = PROOF_STEPS) -> Iterator[Progress | Proof]:
    """Train the first steps of a run twice and compare weights, buffers, optimizer and learning rates after each.

    Args:
        kind: "repeat": both from the start. "resume": the second is saved to a file half way, loaded and continued.
        steps: how many; fewer when the run is shorter.

    Raises:
        ConfigError, DataError, DeviceError, TrainingError: as a run would.
    """
    steps = min(steps, config.total_steps())
    if kind == "resume" and steps < 2:
        raise ConfigError({"steps": f"training that is cut in two needs at least 2 steps; got {steps}"})
    cut = steps // 2 if kind == "resume" else 0
    yield Progress(0, 2 * steps, "Reading the digits", "steps")
    splits = load_splits(config, data_root)
    first: list[dict[str, str]] = []
    fresh = new_state(config, beside_pages=True)
    with numerics(fresh.threads, deterministic=config.deterministic):
        for state in _steps(fresh, splits, steps):
            first.append(_digests(state))
            yield Progress(state.step, 2 * steps, "First training", "steps")
        digest = content_digest(first[-1])
        for state in _second(config, splits, steps, cut):
            found = _digests(state)
            expected = first[state.step - 1]
            if differing := [name for name in expected if found.get(name) != expected[name]]:
                advice = _advice(config, state)
                yield Proof(kind, steps, cut, len(found), digest, state.step, differing[0], advice)
                return
            yield Progress(steps + state.step, 2 * steps, "Second training, compared step by step", "steps")
    yield Proof(kind, steps, cut, len(first[-1]), digest)


def _steps(state: TrainState, splits: Splits, last: int) -> Iterator[TrainState]:
    """The state after each step up to `last`."""
    batches = make_batches(state.config, splits.train, state.device)
    done = state.step
    try:
        if done >= last:
            return
        for event in train(state, batches, splits.validation, splits.test):
            if isinstance(event, StepDone) and state.step > done:
                done = state.step
                yield state
                if done >= last:
                    return
    finally:
        batches.close()


def _second(config: TrainConfig, splits: Splits, steps: int, cut: int) -> Iterator[TrainState]:
    state = new_state(config, beside_pages=True)
    yield from _steps(state, splits, cut or steps)
    if not cut:
        return
    take_pending(state)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        save_state(path, state, durable=False)
        again = restored(load_state(path))
    yield from _steps(again, splits, steps)


def _digests(state: TrainState) -> dict[str, str]:
    """A short digest of each tensor and plain value of a state, by name."""
    parts = {"model": state.model.state_dict(), "optimizer": state.optimizer.state_dict()}
    return {name: content_digest(value) for name, value in flat(parts).items()}


def _advice(config: TrainConfig, state: TrainState) -> str:
    if state.device.type != "cpu" and not config.deterministic:
        return "Switch on Deterministic algorithms: on this device some of PyTorch's fast ones add numbers in changing order."
    if state.device.type == "cpu" and config.threads is None:
        return "Set CPU threads to a number: the order of additions, and so the last bits, hang on it."
    return (
        "No setting is known to mend this: please report it with these settings, the name of the tensor and what "
        "`python -m core check` says."
    )


def prove_apart(kind: ProofKind, config: TrainConfig, data_root: Path) -> Iterator[Progress | Proof]:
    """`prove` in a process of its own; ending the iteration ends the process. Raises RunError with its words."""
    data = str(data_root.absolute())
    command = [sys.executable, "-m", "core", "prove", kind, "--json", "--data", data, "--config", config.to_json()]
    root = Path(__file__).resolve().parents[2]
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would hold the process when it is full
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        yield Progress(0, 0, "Starting a process of its own")
        for line in process.stdout:
            values = json.loads(line)
            yield Proof(**values["proof"]) if "proof" in values else Progress(**values["progress"])
        if process.wait():
            errors.seek(0)
            words = errors.read().decode(errors="replace").strip()
            raise RunError(words.splitlines()[-1] if words else "The process ended without a word.")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        errors.close()


def words_of(proof: Proof) -> str:
    """The result in a sentence."""
    how = "twice from the same start"
    if proof.kind == "resume":
        how = f"in one go, and saved, loaded and continued after step {proof.cut:,}"
    if proof.holds:
        return (
            f"It holds: {proof.steps:,} steps trained {how}; after each of them all {proof.tensors} weights, buffers and "
            f"optimizer values had the same bits (last state {proof.digest[:12]})."
        )
    return f"It does not hold: trained {how}, {proof.name} differs after step {proof.first_step:,}. {proof.advice}"


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested dictionaries and lists as one dictionary with names such as state.0.exp_avg."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if entries is None:
        return {name: value}
    return {key: one for place, part in entries for key, one in flat(part, f"{name}.{place}".lstrip(".")).items()}
