"""Picture files of every format, all showing one digit."""

import io

import numpy as np
from PIL import Image
from scipy import ndimage

from core.drawing.strokes import render
from tests.helpers.shapes import drawing

DIGIT = drawing(5)


def white_on_black(side=280, pen=14.0):
    drawn = drawing(5, pen=pen)
    return Image.fromarray((render(drawn.strokes, (0, 0, 280, 280), (side, side)) * 255).astype(np.uint8))


def black_on_white(side=280, pen=14.0):
    return Image.fromarray(255 - np.asarray(white_on_black(side, pen)))


def saved(image, kind="PNG", **options):
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def with_alpha(ink):
    """Ink of one colour on nothing."""
    image = Image.new("RGBA", (280, 280), (*ink, 0))
    image.putalpha(white_on_black())
    return image


def paper_with_margin():
    """A white sheet with black ink, nothing around it."""
    image = Image.new("RGBA", (360, 360), (0, 0, 0, 0))
    image.paste(black_on_white().convert("RGBA"), (40, 40))
    return image


def phone_photo(pen=7.0, seed=0):
    """Grey paper, lit from one corner, with grain, blur and a dark table at the edge."""
    random = np.random.default_rng(seed)
    height, width = 720, 960
    light = 0.45 + 0.35 * np.linspace(0, 1, width)[None] * np.linspace(0.6, 1, height)[:, None]
    ink = np.zeros((height, width), np.float32)
    ink[200:480, 300:580] = render(drawing(5, pen=pen).strokes, (0, 0, 280, 280), (280, 280))
    photo = light * (1 - 0.7 * ndimage.gaussian_filter(ink, 1.5)) + random.normal(0, 0.015, (height, width))
    photo[:, :40] = 0.15 + random.normal(0, 0.01, (height, 40))
    return Image.fromarray((np.clip(photo, 0, 1) * 255).astype(np.uint8)).convert("RGB")


def rotated_by_exif():
    """Stored lying on its side, with the mark by which viewers turn it upright."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    return saved(black_on_white().rotate(90).convert("RGB"), "JPEG", quality=90, exif=exif)


def sixteen_bit():
    values = (np.asarray(white_on_black(), np.uint16) * 257).astype(np.uint16)
    return saved(Image.fromarray(values))


PICTURES = {
    "grey png, white on black": saved(white_on_black()),
    "grey png, black on white": saved(black_on_white()),
    "rgb": saved(black_on_white().convert("RGB")),
    "blue ink": saved(Image.merge("RGB", [black_on_white(), black_on_white(), Image.new("L", (280, 280), 255)])),
    "rgba, black ink on nothing": saved(with_alpha((0, 0, 0))),
    "rgba, white ink on nothing": saved(with_alpha((255, 255, 255))),
    "rgba, opaque": saved(black_on_white().convert("RGBA")),
    "rgba, a sheet with a margin of nothing": saved(paper_with_margin()),
    "grey and alpha": saved(with_alpha((0, 0, 0)).convert("LA")),
    "palette": saved(black_on_white().convert("RGB").quantize(16)),
    "palette with transparency": saved(with_alpha((0, 0, 0)).quantize(16)),
    "one bit": saved(black_on_white().convert("1")),
    "sixteen bit": sixteen_bit(),
    "jpeg": saved(black_on_white().convert("RGB"), "JPEG", quality=90),
    "jpeg of low quality": saved(black_on_white().convert("RGB"), "JPEG", quality=5),
    "jpeg in cmyk": saved(black_on_white().convert("CMYK"), "JPEG", quality=90),
    "grey jpeg": saved(black_on_white(), "JPEG", quality=80),
    "turned by exif": rotated_by_exif(),
    "large": saved(black_on_white(3000), "JPEG", quality=80),
    "small": saved(white_on_black(40)),
    "thin pen": saved(black_on_white(pen=4)),
    "fat pen": saved(black_on_white(pen=40)),
    "light grey on white": saved(Image.fromarray((255 - 0.3 * np.asarray(white_on_black(), np.float32)).astype(np.uint8))),
    "phone photo": saved(phone_photo(), "JPEG", quality=75),
    "phone photo, thin pen": saved(phone_photo(pen=4, seed=1), "JPEG", quality=75),
}
