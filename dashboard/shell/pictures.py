"""Small grey images as pictures within the page. No Streamlit here.

They travel inside the page's HTML: a picture served as a file is gone at the next refresh.
"""

import base64
import io
from functools import lru_cache
from html import escape

import numpy as np
import numpy.typing as npt
from PIL import Image

from core.answers import NO_ANSWER, answers_of
from core.events import Mistake

_WARM, _COOL = np.array([224, 138, 0], np.float32), np.array([58, 143, 208], np.float32)


def source(image: npt.NDArray[np.generic]) -> str:
    """A data URL of a picture: uint8, or floats of 0 to 1; (h, w) grey or (h, w, 3) colour."""
    values = image if image.dtype == np.uint8 else (np.clip(image.astype(np.float32), 0, 1) * 255 + 0.5).astype(np.uint8)
    picture = io.BytesIO()
    Image.fromarray(values).save(picture, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(picture.getvalue()).decode()


def figure(image: npt.NDArray[np.generic], caption: str, alt: str, side: int = 84, smooth: bool = False) -> str:
    """HTML of a picture with its caption below."""
    rendering = "auto" if smooth else "pixelated"
    return (
        f'<figure style="display:inline-block;margin:0 12px 8px 0;text-align:center;vertical-align:top;width:{side}px">'
        f'<img width="{side}" height="{side}" style="image-rendering:{rendering};border-radius:4px;object-fit:contain;'
        f'background:#000" alt="{escape(alt)}" src="{source(image)}"><figcaption style="font-size:0.8rem;opacity:0.8;'
        f'line-height:1.25">{escape(caption)}</figcaption></figure>'
    )


@lru_cache(maxsize=1024)
def mistake(one: Mistake) -> str:
    """HTML of a digit that was answered wrongly: what it is, what was said, how surely."""
    image = np.frombuffer(one.image, np.uint8).reshape(28, 28)
    words = f"{one.label} → {one.predicted} ({one.probability:.0%})"
    return figure(image, words, f"A {one.label} taken for a {one.predicted}")


def answered(image: npt.NDArray[np.generic], probabilities: npt.NDArray[np.float32], color: str, alt: str) -> str:
    """HTML of one digit among several: its picture, its answer and ten small bars."""
    answer = int(answers_of(probabilities[None])[0])
    bars = "".join(
        f'<div title="{digit}: {share:.1%}" style="flex:1;text-align:center;font-size:8px;line-height:10px">'
        f'<div style="height:{24 * (1 - share):.1f}px"></div>'
        f'<div style="height:{24 * share:.1f}px;background:{color};margin:0 1px"></div>{digit}</div>'
        for digit, share in enumerate(np.nan_to_num(probabilities).tolist())
    )
    words = f"{answer} · {probabilities.max():.0%}" if answer != NO_ANSWER else "no answer"
    style = "display:inline-block;vertical-align:top;margin-right:12px"
    return (
        f'<div style="{style}">{figure(image, words, alt, 72)}<div style="display:flex;width:72px" aria-hidden="true">'
        f"{bars}</div></div>"
    )


def boxed(image: npt.NDArray[np.generic], boxes: list[tuple[float, float, float, float]], color: str, side: int = 180) -> str:
    """HTML of a picture with boxes (left, top, right, bottom in its pixels) on it."""
    height, width = image.shape[:2]
    frames = "".join(
        f'<div style="position:absolute;border:2px solid {color};box-sizing:border-box;left:{100 * left / width:.1f}%;'
        f"top:{100 * top / height:.1f}%;width:{100 * (right - left) / width:.1f}%;"
        f'height:{100 * (bottom - top) / height:.1f}%"></div>'
        for left, top, right, bottom in boxes
    )
    style = f"position:relative;display:inline-block;vertical-align:top;margin-right:12px;width:{side}px"
    return (
        f'<div style="{style}"><img width="{side}" style="display:block;border-radius:4px" '
        f'alt="The source with a box around each of {len(boxes)} digits" src="{source(image)}">{frames}</div>'
    )


def overlay(image: npt.NDArray[np.float32], values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """A (28, 28) grey image of 0 to 1 with a map on it, scaled to its own maximum: warm where positive, cool where negative.

    Returns: uint8 (28, 28, 3).
    """
    values = np.nan_to_num(values, posinf=0.0, neginf=0.0)  # where a broken network gives no number nothing is tinted
    strength = np.abs(values) / max(float(np.abs(values).max()), 1e-9)
    tint = np.where(values[..., None] >= 0, _WARM, _COOL)
    mixed = image[..., None] * 150 * (1 - strength[..., None]) + tint * strength[..., None]
    return np.clip(mixed, 0, 255).astype(np.uint8)


def montage(maps: npt.NDArray[np.float32], columns: int = 16) -> npt.NDArray[np.float32]:
    """(channels, h, w) as one picture, each channel stretched to its own range, with a line between them."""
    count, height, width = maps.shape
    maps = np.nan_to_num(maps, posinf=0.0, neginf=0.0)
    rows = -(-count // columns)
    low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
    stretched = (maps - low) / np.maximum(high - low, 1e-9)
    sheet = np.full((rows * (height + 1), min(columns, count) * (width + 1)), 0.25, np.float32)
    for number, one in enumerate(stretched):
        y, x = number // columns * (height + 1), number % columns * (width + 1)
        sheet[y : y + height, x : x + width] = one
    return sheet[:-1, :-1]
