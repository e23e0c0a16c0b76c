"""The small network that tells one digit from two that touch: trains it anew, prints what it finds, and with --write replaces
`core/drawing/touching.npz`: `python -m tests.benchmarks.touching [--write]`. Needs the real MNIST; some ten minutes.

Fields: `found`: share of pushed-together pairs of test digits taken for two; `false_alarms`: share of single ones.
"""

import argparse
import json

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from core.data.sources import Digits, data_root, load_mnist
from core.drawing.digit_image import Preprocessing
from core.drawing.from_picture import masked_picture_digit
from core.drawing.touching import THRESHOLD, WEIGHTS, score
from tests.helpers.pictures import pushed_together

PAIRS, EPOCHS, BATCH = 60_000, 10, 256


def centred(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """As the Draw page would see it, large: float32 (28, 28)."""
    height, width = image.shape
    large = np.asarray(Image.fromarray(np.pad(image, 2)).resize(((width + 4) * 5, (height + 4) * 5), Image.Resampling.BICUBIC))
    ink = np.clip(large.astype(np.float32) / 255, 0, 1)
    return masked_picture_digit(ink, ink > 0.4, Preprocessing()).centred


def examples(
    digits: Digits, count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(images (2 count, 28, 28), 1.0 where two touch): as many single digits as pairs."""
    images, two = [], []
    while len(two) < 2 * count:
        one, other = (digits.images[place, 0] for place in random.integers(0, len(digits), 2))
        pair = pushed_together(one, other, random)
        if pair is not None:
            images += [centred(pair), centred(one)]
            two += [1.0, 0.0]
    return np.stack(images), np.array(two, np.float32)


def trained(images: npt.NDArray[np.float32], two: npt.NDArray[np.float32]) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(24 * 7 * 7, 1),
    )
    inputs, targets = torch.from_numpy(images)[:, None], torch.from_numpy(two)
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3, weight_decay=1e-3)
    steps = -(-len(inputs) // BATCH) * EPOCHS
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            moved = torch.roll(inputs[batch], torch.randint(-1, 2, (2,)).tolist(), (2, 3))
            loss = F.binary_cross_entropy_with_logits(model(moved)[:, 0], targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {loss.item():.4f}", flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace core/drawing/touching.npz")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    train, test = load_mnist(data_root())
    random = np.random.default_rng(0)
    if given.write:
        names = {"0": "0", "3": "3", "6": "6", "10": "last"}
        values = trained(*examples(train, PAIRS, random)).state_dict()
        kept = {f"{names[name.split('.')[0]]}.{name.split('.')[1]}": value for name, value in values.items()}
        kept["last.weight"] = kept["last.weight"].reshape(-1)
        np.savez_compressed(WEIGHTS, **{name: value.numpy().astype(np.float16) for name, value in kept.items()})
    images, two = examples(test, 2000, np.random.default_rng(1))
    scores = np.array([score(image) for image in images])
    result = {
        "found": float((scores[two == 1] > THRESHOLD).mean()),
        "false_alarms": float((scores[two == 0] > THRESHOLD).mean()),
    }
    print(
        json.dumps(result) if given.json else f"found {result['found']:.1%} of pairs, false alarms {result['false_alarms']:.2%}"
    )


if __name__ == "__main__":
    main()
