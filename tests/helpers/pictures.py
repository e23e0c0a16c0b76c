"""Pictures of digits as people photograph, scan, export and screenshot them, made from real digits. Each kind by a seed."""

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps
from scipy import ndimage

from core.data.sources import Digits

Grey = npt.NDArray[np.float32]
PAPER, DESKS = 0.86, (0.12, 0.2, 0.32)


@dataclass(frozen=True)
class Sample:
    """A picture's file, and the digits it shows: what should be read. `rows`: they stand in two lines and must be refused."""

    content: bytes
    digits: tuple[int, ...]
    rows: bool = False


def ink_of(image: npt.NDArray[np.uint8], side: int, random: np.random.Generator, pen: float = 0.0) -> Grey:
    """A digit of 28x28 as smooth ink of 0 to 1 on a square of `side`; `pen`: pixels thicker or thinner."""
    large = np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BICUBIC), np.float32) / 255
    crisp = ndimage.gaussian_filter(large, side / 90)
    mask = crisp > 0.45
    if pen:
        distance = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
        mask = distance <= pen
    return np.clip(ndimage.gaussian_filter(mask.astype(np.float32), 0.8), 0, 1)


def _pick(digits: Digits, random: np.random.Generator, count: int = 1) -> tuple[list[npt.NDArray[np.uint8]], tuple[int, ...]]:
    chosen = random.integers(0, len(digits), count)
    return [digits.images[one, 0] for one in chosen], tuple(int(digits.labels[one]) for one in chosen)


def _put(sheet: Grey, ink: Grey, y: int, x: int, dark: float) -> None:
    part = sheet[y : y + ink.shape[0], x : x + ink.shape[1]]
    part[:] = part * (1 - ink) + dark * ink


def _light(shape: tuple[int, int], random: np.random.Generator, depth: float = 0.25) -> Grey:
    """Uneven light: a slope in some direction."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    angle = random.uniform(0, 2 * np.pi)
    slope = (np.cos(angle) * x / shape[1] + np.sin(angle) * y / shape[0] + 1) / 2
    return (1 - depth + depth * slope).astype(np.float32)


def _jpeg(grey: Grey, random: np.random.Generator, tint: tuple[float, float, float] = (1, 1, 1), **options: object) -> bytes:
    noisy = grey + random.normal(0, 0.012, grey.shape).astype(np.float32)
    colour = np.clip(noisy[..., None] * np.array(tint, np.float32), 0, 1)
    return saved(Image.fromarray((colour * 255).astype(np.uint8)), "JPEG", quality=int(random.integers(70, 92)), **options)


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def tile(digits: Digits, random: np.random.Generator) -> Sample:
    """MNIST's own pixels, as people save them from a notebook, one to six times as large."""
    (image,), label = _pick(digits, random)
    side = 28 * int(random.integers(1, 7))
    method = (Image.Resampling.NEAREST, Image.Resampling.BICUBIC)[int(random.integers(2))]
    return Sample(saved(Image.fromarray(image).resize((side, side), method)), label)


def page(digits: Digits, random: np.random.Generator) -> Sample:
    """Dark ink on paper that fills the picture."""
    (image,), label = _pick(digits, random)
    sheet = np.full((600, 800), PAPER, np.float32) * _light((600, 800), random)
    side = int(random.integers(220, 520))
    ink = ink_of(image, side, random, random.uniform(-3, 3))
    _put(sheet, ink, int(random.integers(0, 600 - side)), int(random.integers(0, 800 - side)), random.uniform(0.1, 0.3))
    return Sample(_jpeg(sheet, random), label)


def desk(digits: Digits, random: np.random.Generator) -> Sample:
    """A sheet on a darker desk, a little turned, often cut off by one or two edges of the picture."""
    (image,), label = _pick(digits, random)
    height, width = 900, 1200
    scene = np.full((height, width), DESKS[int(random.integers(3))], np.float32)
    scene += ndimage.gaussian_filter(random.normal(0, 0.25, scene.shape), (1, 12)).astype(np.float32)  # grain of wood
    sheet_h, sheet_w = int(random.integers(560, 760)), int(random.integers(640, 980))
    top = int(random.choice([-60, int(random.integers(30, height - sheet_h - 20))]))
    left = int(random.choice([-80, int(random.integers(30, width - sheet_w - 20))]))
    scene[max(top, 0) : top + sheet_h, max(left, 0) : left + sheet_w] = PAPER
    side = int(random.integers(180, 300))
    y = int(random.integers(max(top, 0) + 90, top + sheet_h - side - 90))
    x = int(random.integers(max(left, 0) + 90, left + sheet_w - side - 90))
    _put(scene, ink_of(image, side, random, random.uniform(-1.5, 1.5)), y, x, random.uniform(0.15, 0.3))
    turned = ndimage.rotate(scene, random.uniform(-4, 4), reshape=False, order=1, mode="nearest")
    return Sample(_jpeg(turned * _light(turned.shape, random, 0.2), random, (0.9, 0.95, 1.0)), label)


def margin(digits: Digits, random: np.random.Generator) -> Sample:
    """A black tile with a white margin, as plotting programs save it."""
    (image,), label = _pick(digits, random)
    side, around = int(random.integers(200, 420)), int(random.integers(20, 90))
    sheet = np.full((side + 2 * around, side + 3 * around), 255, np.uint8)
    part = np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.NEAREST))
    sheet[around : around + side, around : around + side] = part
    return Sample(saved(Image.fromarray(sheet)), label)


def small(share: float) -> Callable[[Digits, np.random.Generator], Sample]:
    """A digit of this share of the long side of a photo with twelve million pixels."""

    def made(digits: Digits, random: np.random.Generator) -> Sample:
        (image,), label = _pick(digits, random)
        height, width = 3000, 4000
        sheet = np.full((height, width), PAPER, np.float32) * _light((height, width), random, 0.15)
        side = round(width * share * 28 / 20)  # MNIST's ink is 20 of 28 pixels high
        ink = ink_of(image, side, random)
        _put(sheet, ink, int(random.integers(200, height - side - 200)), int(random.integers(200, width - side - 200)), 0.2)
        return Sample(_jpeg(sheet, random), label)

    return made


def lined(grey: float, squared: bool) -> Callable[[Digits, np.random.Generator], Sample]:
    """Ruled or squared paper whose lines take this share of the light."""

    def made(digits: Digits, random: np.random.Generator) -> Sample:
        (image,), label = _pick(digits, random)
        height, width = 720, 960
        sheet = np.full((height, width), PAPER, np.float32)
        pitch = int(random.integers(44, 70))
        thick = int(random.integers(2, 4))
        for start in range(pitch // 2, height, pitch):
            sheet[start : start + thick] *= 1 - grey
        for start in range(pitch // 2, width if squared else 0, pitch):
            sheet[:, start : start + thick] = np.minimum(sheet[:, start : start + thick], PAPER * (1 - grey))
        side = int(random.integers(260, 420))
        ink = ink_of(image, side, random, random.uniform(-1, 1))
        _put(sheet, ink, int(random.integers(40, height - side - 40)), int(random.integers(40, width - side - 40)), 0.15)
        turned = ndimage.rotate(sheet, random.uniform(-1.2, 1.2), reshape=False, order=1, mode="nearest")
        return Sample(_jpeg(turned * _light(turned.shape, random, 0.12), random), label)

    return made


def frame(digits: Digits, random: np.random.Generator) -> Sample:
    """MNIST's 28x28 pixels somewhere in a black picture of 200x200."""
    (image,), label = _pick(digits, random)
    sheet = np.zeros((200, 200), np.uint8)
    y, x = random.integers(0, 172, 2)
    sheet[y : y + 28, x : x + 28] = image
    return Sample(saved(Image.fromarray(sheet)), label)


def turned_by_exif(digits: Digits, random: np.random.Generator) -> Sample:
    """Stored lying on its side, with the mark by which viewers turn it upright."""
    upright = page(digits, random)
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.open(io.BytesIO(upright.content)).rotate(90, expand=True)
    return Sample(saved(image, "JPEG", quality=88, exif=exif), upright.digits)


def several(digits: Digits, random: np.random.Generator) -> Sample:
    """Two to five digits side by side on paper, some higher, some lower."""
    images, labels = _pick(digits, random, int(random.integers(2, 6)))
    sheet = np.full((420, 240 * len(images) + 60), PAPER, np.float32) * _light((420, 240 * len(images) + 60), random, 0.15)
    for place, image in enumerate(images):
        side = int(random.integers(190, 225))
        _put(
            sheet,
            ink_of(image, side, random),
            int(random.integers(60, 130)),
            30 + 240 * place + int(random.integers(0, 12)),
            0.2,
        )
    return Sample(_jpeg(sheet, random), labels)


def pushed_together(
    one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8], random: np.random.Generator
) -> npt.NDArray[np.uint8] | None:
    """Two digits of 28x28 pushed into each other until their ink touches; None when it does not become one piece."""
    one, other = (
        image[:, np.flatnonzero((image > 76).any(0))[0] : np.flatnonzero((image > 76).any(0))[-1] + 1] for image in (one, other)
    )
    height = max(one.shape[0], other.shape[0]) + 8
    sheet = np.zeros((height, one.shape[1] + other.shape[1] + 4), np.uint8)
    sheet[4 : 4 + one.shape[0], : one.shape[1]] = one
    y = 4 + int(random.integers(-3, 4))
    wanted = int(random.integers(2, 9))
    for x in range(one.shape[1], 0, -1):
        part = sheet[y : y + other.shape[0], x : x + other.shape[1]]
        if int(((part > 100) & (other[:, : part.shape[1]] > 100)).sum()) >= wanted:
            part[:] = np.maximum(part, other[:, : part.shape[1]])
            return sheet if ndimage.label(sheet > 76, np.ones((3, 3)))[1] == 1 else None
    return None


def touching(digits: Digits, random: np.random.Generator) -> Sample:
    """Two digits that touch, on paper."""
    while True:
        images, labels = _pick(digits, random, 2)
        together = pushed_together(images[0], images[1], random)
        if together is not None:
            break
    side = (together.shape[1] * 9, together.shape[0] * 9)
    large = np.asarray(Image.fromarray(together).resize(side, Image.Resampling.BICUBIC), np.float32) / 255
    sheet = np.full((large.shape[0] + 120, large.shape[1] + 160), PAPER, np.float32)
    _put(sheet, np.clip((ndimage.gaussian_filter(large, 2.5) - 0.3) * 4, 0, 1), 60, 80, 0.2)
    return Sample(_jpeg(sheet, random), labels)


def rows(digits: Digits, random: np.random.Generator) -> Sample:
    """Two lines of writing, close together or far apart."""
    images, labels = _pick(digits, random, 4)
    gap = int(random.integers(20, 260))
    sheet = np.full((500 + gap, 560), PAPER, np.float32)
    for place, image in enumerate(images):
        _put(sheet, ink_of(image, 200, random), 30 + (220 + gap) * (place // 2), 40 + 240 * (place % 2), 0.2)
    return Sample(_jpeg(sheet, random), labels, rows=True)


def pale_on_nothing(digits: Digits, random: np.random.Generator) -> Sample:
    """Half transparent ink on nothing, as drawing programs export it."""
    (image,), label = _pick(digits, random)
    ink = ink_of(image, 280, random)
    colour = Image.new("RGBA", (280, 280), (*[int(one) for one in random.integers(0, 120, 3)], 0))
    colour.putalpha(Image.fromarray((ink * random.uniform(80, 255)).astype(np.uint8)))
    return Sample(saved(colour), label)


def two_pictures_in_one(digits: Digits, random: np.random.Generator) -> Sample:
    """An MPO, as phones write it: a JPEG with a second one behind."""
    first = page(digits, random)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(first.content)))
    return Sample(saved(image, "MPO", save_all=True, append_images=[image.resize((80, 60))]), first.digits)


KINDS: dict[str, tuple[int, Callable[[Digits, np.random.Generator], Sample]]] = {
    "tile": (60, tile),
    "page": (30, page),
    "desk": (40, desk),
    "margin": (30, margin),
    "small_8th": (12, small(1 / 8)),
    "small_15th": (20, small(1 / 15)),
    "small_30th": (12, small(1 / 30)),
    "ruled_15": (10, lined(0.15, False)),
    "ruled_30": (15, lined(0.3, False)),
    "ruled_60": (15, lined(0.6, False)),
    "squared_15": (10, lined(0.15, True)),
    "squared_30": (15, lined(0.3, True)),
    "squared_60": (15, lined(0.6, True)),
    "frame": (20, frame),
    "exif": (10, turned_by_exif),
    "several": (20, several),
    "touching": (30, touching),
    "rows": (15, rows),
    "pale": (12, pale_on_nothing),
    "mpo": (8, two_pictures_in_one),
}
"""Kind -> (how many a benchmark takes, how one is made)."""
