"""What the benchmarks share: arguments, the result line, the tutorial's script, a busy neighbour."""

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.model.predictor import Predictor

ROOT = Path(__file__).resolve().parents[2]


def arguments(description: str, **numbers: int) -> argparse.Namespace:
    """--data, --json, and a whole number for each keyword."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DIGIT_LAB_DATA") or "data"))
    parser.add_argument("--json", action="store_true")
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser.parse_args()


def report(given: argparse.Namespace, values: dict[str, Any], words: str) -> None:
    """One sentence for people; with --json the figures as the last line."""
    print(words)
    if given.json:
        print(json.dumps(values))


def _spin() -> None:
    while True:
        sum(range(10_000))


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    """A second process that keeps one core busy."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def in_a_process(code: str, *words: object) -> dict[str, Any]:
    """Run Python code in a fresh process; its last line is JSON."""
    command = [sys.executable, "-c", code, *map(str, words)]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def train(*words: object) -> dict[str, Any]:
    """`python -m core train ... --json` in a fresh process: its result line."""
    command = [sys.executable, "-m", "core", "train", "--json", *map(str, words)]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


# The way of most tutorials: per-image transforms, a DataLoader without workers, batch 64, Adam, float32.
# argv: data folder, steps (0: whole epochs until the test accuracy is 99.0 %).
TUTORIAL = """
import json, shutil, sys, tempfile, time
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional as F
from torchvision import datasets, transforms

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc = nn.Linear(64 * 7 * 7, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(torch.flatten(x, 1))

root, limit = Path(sys.argv[1]), int(sys.argv[2])
folder = Path(tempfile.mkdtemp())
raw = folder / "MNIST" / "raw"
raw.mkdir(parents=True)
for file in (root / "MNIST" / "raw").iterdir():
    if file.is_file() and "ubyte" in file.name:
        shutil.copy(file, raw)
for file in raw.glob("*.gz"):
    from torchvision.datasets.utils import extract_archive
    extract_archive(str(file), str(raw))
transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
train_set = datasets.MNIST(folder, train=True, transform=transform)
test_set = datasets.MNIST(folder, train=False, transform=transform)
shutil.rmtree(folder)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=64, shuffle=True)
test_loader = torch.utils.data.DataLoader(test_set, batch_size=1000)
torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
began, seen, steps, accuracy, epochs = time.perf_counter(), 0, 0, 0.0, 0
while accuracy < 0.99 and epochs < 20 and not (limit and steps >= limit):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps == 20 and limit:
            began, seen = time.perf_counter(), -len(data)
        seen += len(data)
        if limit and steps >= limit:
            break
    epochs += 1
    if not limit:
        model.eval()
        with torch.no_grad():
            right = sum((model(data).argmax(1) == target).sum().item() for data, target in test_loader)
        accuracy = right / len(test_set)
seconds = time.perf_counter() - began
print(json.dumps({"images_per_second": seen / seconds, "seconds": seconds, "epochs": epochs, "accuracy": accuracy}))
"""


def quick_predictor() -> "Predictor":
    """The best weights of the quick preset, trained here and now on what digits there are."""
    from core.data.sources import data_root, missing_files
    from core.model.predictor import load_predictor

    data = "mnist_sample" if missing_files(data_root()) else "mnist"
    more = () if data == "mnist" else ("--set", "epochs=12")
    with tempfile.TemporaryDirectory() as folder:
        result = train("--preset", "fast99", "--set", f"dataset={data}", *more, "--runs", folder)
        return load_predictor(Path(folder) / str(result["run_id"]) / "best.pt")
