"""An uploaded picture, read safely, and the ink in it: polarity, uneven paper and specks taken out."""

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError
from scipy import ndimage

from core.drawing import Grey
from core.errors import DrawingError

MAX_BYTES = 10 * 2**20
# Read from the header, before anything is decoded. A JPEG is decoded at a fraction of its size, so it may be larger.
MAX_PIXELS = {"PNG": 16_000_000, "JPEG": 64_000_000}
# The long side that is worked on; digits of a fifteenth of it still keep 40 pixels.
WORKING_SIDE = 640
_ONE, _WHITE = np.float32(1), np.float32(255)  # a plain 255 would make the types double
# Less difference between ink and paper than this, of 1, is noise.
_LEAST_CONTRAST = 0.08


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in grey.

    Attributes:
        grey: float32 (height, width), 0 black to 1 white, long side at most WORKING_SIDE.
    """

    grey: Grey


def read_picture(content: bytes) -> Picture:
    """Decode an uploaded PNG or JPEG. Nothing is written to disk.

    Raises:
        DrawingError: too many bytes or pixels, another format, damaged; says which and what to do.
    """
    if not content:
        raise DrawingError("The file is empty. Choose a picture (PNG or JPEG).")
    if len(content) > MAX_BYTES:
        raise DrawingError(f"The picture has {len(content) / 2**20:.1f} MiB; at most {MAX_BYTES // 2**20} are read. Save it "
                           "smaller.")  # fmt: skip
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
            _refuse_large(image)
            image.draft("RGB", (2 * WORKING_SIDE, 2 * WORKING_SIDE))  # JPEG only: decoded at 1/2, 1/4 or 1/8
            image.load()
            upright = ImageOps.exif_transpose(image)
            return Picture(_to_grey(upright))
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise DrawingError(f"This is no picture that can be read{_guess(content)}. Choose a PNG or JPEG.") from None
    except DrawingError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError) as error:  # Pillow raises all of these
        raise DrawingError(f"The picture is damaged or cut off ({error or type(error).__name__}). Save it anew.") from error


def _refuse_large(image: Image.Image) -> None:
    limit = MAX_PIXELS[image.format or "PNG"]
    if image.width * image.height > limit:
        raise DrawingError(f"The picture has {image.width:,} x {image.height:,} pixels; at most {limit // 10**6} million are "
                           f"read from a {image.format}. Make it smaller.")  # fmt: skip
    if min(image.size) < 8:
        raise DrawingError(f"The picture has only {image.width} x {image.height} pixels; a digit needs at least 8 x 8.")


def _guess(content: bytes) -> str:
    if content[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypmsf1"):
        return ": it is HEIC, an iPhone's own format (Settings, Camera, Formats: Most Compatible saves JPEG)"
    if content[:6] in (b"GIF87a", b"GIF89a"):
        return ": it is a GIF"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return ": it is WebP"
    if content[:5] == b"%PDF-":
        return ": it is a PDF"
    return ""


def _to_grey(image: Image.Image) -> Grey:
    if image.mode.startswith("I"):  # 16 bits of grey
        values = np.asarray(image, np.float32)
        scaled = Image.fromarray(values / (65535 if values.max() > 255 else 255))
        return np.clip(_shrink(scaled), 0, 1)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return _without_transparency(image.convert("RGBA"))
    return _shrink(image.convert("L").convert("F")) / _WHITE


def _without_transparency(image: Image.Image) -> Grey:
    """Put a picture with transparency on a ground that its ink stands out from."""
    alpha = _shrink(image.getchannel("A").convert("F")) / _WHITE
    if alpha.min() > 0.5:
        return _shrink(image.convert("L").convert("F")) / _WHITE
    light = _shrink(image.convert("RGB").convert("L").convert("F")) / _WHITE
    opaque = light[alpha > 0.5]
    if not opaque.size:
        raise DrawingError("The picture is transparent everywhere: there is no ink in it.")
    low, high = np.percentile(opaque, (5, 95))
    if high - low < 0.3:  # ink of one colour on nothing
        return alpha
    ground = np.float32(np.median(opaque) > 0.5)
    return (light * alpha + (_ONE - alpha) * ground).astype(np.float32)


def _shrink(image: Image.Image) -> Grey:
    longest = max(image.size)
    if longest > WORKING_SIDE:
        size = (max(1, round(image.width * WORKING_SIDE / longest)), max(1, round(image.height * WORKING_SIDE / longest)))
        image = image.resize(size, Image.Resampling.BOX)
    return np.asarray(image, np.float32)


@dataclass(frozen=True, eq=False)
class Ink:
    """The ink found in a picture.

    Attributes:
        amount: float32 (height, width), 0 paper to 1 ink.
        mask: bool, the same shape: where the ink of the marks that were kept is.
        inverted: True when the picture is dark on light.
        notes: what was left out, in words.
    """

    amount: Grey
    mask: npt.NDArray[np.bool_]
    inverted: bool
    notes: tuple[str, ...]


def find_ink(grey: Grey, *, turned: bool = False) -> Ink:
    """Tell ink from paper: the sign is the border's, the threshold Otsu's, after uneven light was taken out.

    Args:
        turned: take the other sign than the border's.
    """
    dark_on_light = _is_dark_on_light(grey) != turned
    light_ink = 1 - grey if dark_on_light else grey
    flat = _without_paper(light_ink)
    peak = float(np.percentile(flat, 99.8))
    if peak < _LEAST_CONTRAST:
        empty = np.zeros_like(grey)
        return Ink(empty, empty.astype(bool), dark_on_light, ())
    threshold = max(_otsu(flat), 0.3 * peak)
    mask, notes = _without_specks(flat > threshold)
    strong = flat[mask]
    top = float(np.percentile(strong, 80)) if strong.size else peak
    amount = np.clip(flat / max(top, 1e-6), 0, 1)
    # The soft edge of the kept marks belongs to them; what lies further off is paper.
    near = ndimage.binary_dilation(mask, iterations=1 if max(grey.shape) < 100 else 2)
    return Ink(np.where(near, amount, 0).astype(np.float32), mask, dark_on_light, notes)


def _is_dark_on_light(grey: Grey) -> bool:
    edge = max(1, round(min(grey.shape) / 20))
    border = np.concatenate([grey[:edge].ravel(), grey[-edge:].ravel(), grey[:, :edge].ravel(), grey[:, -edge:].ravel()])
    low, high = np.percentile(grey, (1, 99))
    return float(np.median(border)) > (low + high) / 2


def _without_paper(light_ink: Grey) -> Grey:
    """Subtract the ground: what an opening with a window wider than any stroke leaves, smoothed. Evens out shadows."""
    window = max(3, round(0.3 * max(light_ink.shape)))
    step = max(1, window // 24)  # the ground is smooth: a coarse grid holds it
    coarse = light_ink[: light_ink.shape[0] // step * step, : light_ink.shape[1] // step * step]
    coarse = coarse.reshape(coarse.shape[0] // step, step, coarse.shape[1] // step, step).mean((1, 3))
    size = max(3, window // step) | 1
    ground = ndimage.gaussian_filter(ndimage.grey_opening(coarse, size=(size, size), mode="nearest"), size / 6, mode="nearest")
    whole = Image.fromarray(ground.astype(np.float32)).resize(light_ink.shape[::-1], Image.Resampling.BILINEAR)
    return np.clip(light_ink - np.asarray(whole), 0, 1)


def _otsu(values: Grey) -> float:
    """The threshold that splits the values into two classes with the largest variance between them (Otsu 1979)."""
    counts, edges = np.histogram(values, bins=256, range=(0, 1))
    middles = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middles)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    return float(middles[int(np.nanargmax(between[:-1]))])


def _without_specks(mask: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], tuple[str, ...]]:
    """Drop dust, and what runs along the picture's edge when there is something better inside."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    if count < 2:
        return mask, ()
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    boxes = ndimage.find_objects(labels)
    height, width = mask.shape
    at_edge = np.array([
        rows.start == 0 or columns.start == 0 or rows.stop == height or columns.stop == width for rows, columns in boxes
    ])  # fmt: skip
    inside = areas[~at_edge]
    drop_edge = at_edge & (inside.size > 0 and inside.max() > 0.002 * mask.size)
    largest = areas[~drop_edge].max()
    specks = ~drop_edge & (areas < 0.03 * largest)
    keep = np.concatenate([[False], ~(drop_edge | specks)])
    notes = []
    if specks.any():
        notes.append(f"{int(specks.sum())} speck{'s' if specks.sum() > 1 else ''} left out")
    if drop_edge.any():
        notes.append("ink that touches the picture's edge left out")
    return keep[labels], tuple(notes)
