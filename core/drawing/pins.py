"""A person's own test set: up to ten drawings with the digit that was meant, kept beside the runs."""

import base64
import csv
import io
import json
import secrets
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock
from PIL import Image

from core.data.sources import Digits
from core.drawing.digit_image import to_model_input
from core.errors import DrawingError
from core.runs.drawings import MAX_DRAWINGS
from core.storage.atomic import replace_text

MAX_PINS = MAX_DRAWINGS
_FILE = "drawings.json"


@dataclass(frozen=True, eq=False)
class Pin:
    """One kept drawing.

    Attributes:
        pin_id: eight hexadecimal digits. label: the digit that was meant, 0 to 9.
        image: uint8 (28, 28), what a model sees before normalisation.
    """

    pin_id: str
    label: int
    image: npt.NDArray[np.uint8]


def load_pins(runs: Path) -> tuple[Pin, ...]:
    """The kept drawings, oldest first. Raises DrawingError when the file is damaged; it is then left as it is."""
    try:
        text = (runs / _FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise DrawingError(f"{_FILE} in {runs} cannot be read: {error.strerror or error}.") from error
    try:
        return tuple(_pin_of(entry) for entry in json.loads(text)["drawings"])
    except (ValueError, KeyError, TypeError) as error:
        raise DrawingError(f"{_FILE} in {runs} is damaged ({type(error).__name__}). Rename it to begin anew.") from error


def _pin_of(entry: dict[str, str | int]) -> Pin:
    image = np.frombuffer(base64.b64decode(str(entry["image"]), validate=True), np.uint8).reshape(28, 28)
    label = int(entry["label"])
    if not 0 <= label <= 9:
        raise ValueError(label)
    return Pin(str(entry["id"]), label, image)


def add_pin(runs: Path, image: npt.NDArray[np.uint8], label: int) -> Pin:
    """Keep a drawing. Raises DrawingError when ten, or this very one, are kept already or the folder cannot be written."""
    pin = Pin(secrets.token_hex(4), label, image.copy())
    with _changing(runs):
        pins = load_pins(runs)
        if len(pins) >= MAX_PINS:
            raise DrawingError(f"{MAX_PINS} drawings are pinned already. Remove one first.")
        if same := next((one for one in pins if np.array_equal(one.image, image)), None):
            raise DrawingError(f"This drawing is pinned as {same.label} already. Its label can be changed there.")
        _save(runs, (*pins, pin))
    return pin


def remove_pin(runs: Path, pin_id: str) -> None:
    """Drop a drawing; nothing happens when it is gone already."""
    with _changing(runs):
        _save(runs, tuple(pin for pin in load_pins(runs) if pin.pin_id != pin_id))


def relabel_pin(runs: Path, pin_id: str, label: int) -> None:
    """Change which digit was meant."""
    with _changing(runs):
        pins = load_pins(runs)
        _save(runs, tuple(Pin(pin.pin_id, label, pin.image) if pin.pin_id == pin_id else pin for pin in pins))


def as_digits(pins: tuple[Pin, ...]) -> Digits:
    """The drawings as a data set."""
    images = np.stack([pin.image for pin in pins])[:, None] if pins else np.zeros((0, 1, 28, 28), np.uint8)
    return Digits(images, np.array([pin.label for pin in pins], np.int64))


def as_inputs(pins: Sequence[Pin]) -> npt.NDArray[np.float32]:
    """The drawings as a network takes them: float32 (n, 1, 28, 28), normalised."""
    images = [to_model_input(pin.image.astype(np.float32) / np.float32(255)) for pin in pins]
    return np.stack(images) if images else np.zeros((0, 1, 28, 28), np.float32)


def as_csv(pins: tuple[Pin, ...]) -> bytes:
    """One row a drawing: label, then 784 grey values row by row, as MNIST is often passed around."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", *(f"pixel{number}" for number in range(784))])
    writer.writerows([pin.label, *pin.image.ravel().tolist()] for pin in pins)
    return text.getvalue().encode()


def as_zip(pins: tuple[Pin, ...]) -> bytes:
    """A zip of 28x28 grey PNG files, named by label and number."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, pin in enumerate(pins, 1):
            picture = io.BytesIO()
            Image.fromarray(pin.image).save(picture, "PNG")
            archive.writestr(f"{pin.label}-{number:02d}.png", picture.getvalue())
    return packed.getvalue()


@contextmanager
def _changing(runs: Path) -> Iterator[None]:
    """Hold the file while it is changed. Raises DrawingError when the folder cannot be written or somebody else holds on."""
    lock = FileLock(runs / f"{_FILE}.lock", timeout=10)
    try:
        runs.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:  # a lock's Timeout is one, too
        raise DrawingError(f"Drawings cannot be kept in {runs}: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()


def _save(runs: Path, pins: tuple[Pin, ...]) -> None:
    entries = [{"id": pin.pin_id, "label": pin.label, "image": base64.b64encode(pin.image.tobytes()).decode()} for pin in pins]
    try:
        replace_text(runs / _FILE, json.dumps({"drawings": entries}, indent=1))
    except OSError as error:
        raise DrawingError(f"The drawing cannot be kept in {runs}: {error.strerror or error}.") from error
