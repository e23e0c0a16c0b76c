"""Whether the verdict on a run's speed names what was planted, is silent where nothing was, and what the measuring costs.

Each case trains in a process of its own for some seconds. `cost`: what the clock takes of the quickest network's updates, and a
look at the cores of each second; median of 40 stretches.
"""

import contextlib
import json
from typing import Any

from tests.benchmarks.harness import arguments, busy_neighbour, in_a_process, report

PLANT = """
import json, sys, tempfile, threading, time
from dataclasses import replace
from pathlib import Path
from core.config.presets import preset_named
from core.config.train_config import TrainConfig
import core.data.batches as batches
import core.execution.recorder as recorder
import core.training.loop as loop
from core.runs.reader import RunReader
from core.runs.speed import speed_finding
from core.runs.writer import RunWriter

data, changes, plant = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
config = replace(preset_named(changes.pop("preset", "tutorial")), dataset="mnist", **changes)
kept, plain = [], loop.make_update
if plant == "leak":
    def keeping(state, group):
        plain(state, group)
        kept.append(group[0][0].repeat(8, 1, 1, 1))
    loop.make_update = keeping
if plant == "slow transform":
    moved = batches.augment
    batches.augment = lambda images, config, generator: (time.sleep(0.0005 * len(images)), moved(images, config, generator))[1]
if plant == "pages":
    def spin():
        while True:
            sum(range(1000))
    for _ in range(2):
        threading.Thread(target=spin, daemon=True).start()
with tempfile.TemporaryDirectory() as folder:
    writer = RunWriter.create(Path(folder), config)
    began = None
    with recorder.RecordedRun(config, data, writer, beside_pages=False) as run:
        for event in run.events():
            began = began or (time.perf_counter() if type(event).__name__ == "StepsEnded" else None)
            if began and time.perf_counter() - began > float(sys.argv[4]):
                break
    writer.close()
    found = speed_finding(RunReader(writer.folder).read())
assert found is not None
print(json.dumps({"name": found.name, "told": found.evidence, "verdict": found.verdict, "remedy": dict(found.remedy)}))
"""

# What is planted: settings, what else is done, and the findings that are right.
CASES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "slow transform, 0 workers": ({"pipeline": "dataloader", "augment_rotation": 10.0, "threads": 1}, "", ("Waits for data",)),
    "slow transform, 1 worker": (
        {"pipeline": "dataloader", "workers": 1, "augment_rotation": 10.0, "threads": 1, "model": "mlp"},
        "",
        ("Waits for data",),
    ),
    "slow transform, 4 workers": (
        {"pipeline": "dataloader", "workers": 4, "augment_rotation": 10.0, "threads": 2},
        "",
        ("Waits for data", "Too many workers"),
    ),
    "slow transform, in memory": ({"augment_shift": 1}, "slow transform", ("Waits for data",)),
    "batches of one": ({"batch_size": 1}, "", ("Small batches",)),
    "batches of eight": ({"batch_size": 8}, "", ("Small batches",)),
    "busy neighbour": ({"threads": 2}, "neighbour", ("Busy neighbours",)),
    "more threads than cores": ({"threads": 8}, "", ("Too many threads",)),
    "a leak": ({"model": "mlp"}, "leak", ("Memory creeps",)),
    "busy pages": ({"threads": 1}, "pages", ("The page itself", "Busy pages")),
    "validations": ({"validations_per_epoch": 20, "threads": 1, "batch_size": 256}, "", ("Validates often",)),
    "anomaly detection": ({"detect_anomaly": True}, "", ("Detects anomalies",)),
}
HEALTHY: dict[str, tuple[dict[str, Any], str]] = {
    "tutorial": ({}, ""),
    "fast99": ({"preset": "fast99"}, ""),
    "mlp": ({"model": "mlp"}, ""),
    "large batches": ({"batch_size": 512, "learning_rate": 0.004}, ""),
    "one thread beside a neighbour": ({"threads": 1}, "neighbour"),
    "accumulated": ({"batch_size": 32, "accumulation_steps": 4}, ""),
}

COST = """
import json, statistics, time
import torch
from core.config.train_config import TrainConfig
from core.machine.contention import CpuWatch
from core.training.loop import make_update
from core.training.reporting import take_pending
from core.training.state import new_state
from core.training.step_clock import StepClock

state = new_state(TrainConfig(model="mlp", epochs=1000, threads=1))
torch.set_num_threads(1)
group = [(torch.randn(64, 1, 28, 28), torch.arange(64) % 10)]
clock, watch, shares = StepClock(), CpuWatch(), []
for _ in range(40):
    began = time.perf_counter()
    for _ in range(100):
        make_update(state, group)
    take_pending(state)
    step = (time.perf_counter() - began) / 100
    began = time.perf_counter()
    for number in range(100):
        clock.begin(number, state.device)
        for part in ("", "forward", "backward", "", "optimizer"):
            clock.lap(part)
        clock.end()
    once = (time.perf_counter() - began) / 100
    began = time.perf_counter()
    watch.look()
    shares.append(once / step + (time.perf_counter() - began))  # one look a second
print(json.dumps({"share": statistics.median(shares)}))
"""


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", seconds=12)
    right, silent = 0, 0
    for name, (changes, plant, wanted) in CASES.items():
        with busy_neighbour() if plant == "neighbour" else contextlib.nullcontext():
            found = in_a_process(PLANT, given.data, json.dumps(changes), plant, given.seconds)
        right += found["name"] in wanted
        print(
            f"{name}: {found['name']}{'' if found['name'] in wanted else ' (WRONG)'}. {found['told']} {found['remedy']}",
            flush=True,
        )
    for name, (changes, plant) in HEALTHY.items():
        with busy_neighbour() if plant == "neighbour" else contextlib.nullcontext():
            found = in_a_process(PLANT, given.data, json.dumps(changes), plant, given.seconds)
        silent += found["verdict"] == "ok"
        print(f"healthy, {name}: {found['name']}. {found['told']}", flush=True)
    cost = in_a_process(COST)["share"]
    values = {"right": right, "planted": len(CASES), "silent": silent, "healthy": len(HEALTHY), "cost": cost}
    report(
        given,
        values,
        f"{right} of {len(CASES)} planted causes named, silent in {silent} of {len(HEALTHY)} healthy trainings; measuring "
        f"costs {cost:.2%}",
    )


if __name__ == "__main__":
    main()
