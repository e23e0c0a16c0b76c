"""An uploaded picture, read safely, and the ink in it: polarity, uneven paper and specks taken out."""

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError
from scipy import ndimage

from core.drawing.limits import check_decoded, check_file, check_size, check_working_size
from core.drawing.paper_lines import without_lines
from core.drawing.strokes import Grey
from core.errors import DrawingError

# The long side that is looked over, and that of what is kept to look closer at small digits.
WORKING_SIDE, LARGE_SIDE = 640, 2000
_ONE, _WHITE = np.float32(1), np.float32(255)  # a plain 255 would make the types double
# Less difference between ink and paper than this, of 1, is noise.
_LEAST_CONTRAST = 0.08
# What a picture's pixels are made of, and which way up it is; comments and colour profiles may be of any size.
_PNG_PARTS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"eXIf")


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in grey.

    Attributes:
        grey: float32 (height, width), 0 black to 1 white, long side at most WORKING_SIDE.
        large: the same picture with a long side of at most LARGE_SIDE; None when it has no more pixels than `grey`.
    """

    grey: Grey
    large: Grey | None = None

    @staticmethod
    def of(grey: Grey) -> "Picture":
        """A picture of any size up to LARGE_SIDE."""
        small = _shrink(Image.fromarray(grey), WORKING_SIDE)
        return Picture(small, grey if grey.shape != small.shape else None)


def read_picture(content: bytes) -> Picture:
    """Decode an uploaded PNG or JPEG. Nothing is written to disk.

    Raises:
        DrawingError: too many bytes, pixels or scans, another format, damaged; says which and what to do.
    """
    check_file(content)
    try:
        _refuse_by_header(content)
        # An MPO, a JPEG with a second picture behind it as phones write them, is opened as a JPEG.
        with Image.open(io.BytesIO(_essential(content)), formats=("PNG", "JPEG")) as image:
            check_size(image.width, image.height, image.format or "PNG")
            share = LARGE_SIDE / max(image.size)
            image.draft("RGB", (max(1, int(image.width * share)), max(1, int(image.height * share))))  # JPEG: 1/2, 1/4 or 1/8
            check_decoded(image.width, image.height)
            image.load()
            picture = Picture.of(_to_grey(ImageOps.exif_transpose(image)))
        check_working_size(*picture.grey.shape)
        return picture
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise DrawingError(f"This is no picture that can be read{_guess(content)}. Choose a PNG or JPEG.") from None
    except DrawingError:
        raise
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise DrawingError(f"The picture is damaged or cut off ({error or type(error).__name__}). Save it anew.") from error


def _refuse_by_header(content: bytes) -> None:
    """A PNG's size stands at a fixed place; Pillow would call a very large one no picture."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and content[12:16] == b"IHDR":
        check_size(int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big"), "PNG")


def _essential(content: bytes) -> bytes:
    """A PNG without what its pixels do not need; other files as they are."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        return content
    parts, place = [content[:8]], 8
    while place + 12 <= len(content):
        end = place + 12 + int.from_bytes(content[place : place + 4], "big")
        if content[place + 4 : place + 8] in _PNG_PARTS:
            parts.append(content[place:end])
        place = end
    return b"".join(parts)


_KINDS = {
    b"ftypavif": ": it is AVIF",
    b"ftypavis": ": it is AVIF",
    **dict.fromkeys(
        (b"ftypheic", b"ftypheix", b"ftypheim", b"ftyphevc", b"ftypmif1", b"ftypmsf1"),
        ": it is HEIC, an iPhone's own format (Settings, Camera, Formats: Most Compatible saves JPEG)",
    ),
}
_STARTS = {
    b"GIF87a": "a GIF",
    b"GIF89a": "a GIF",
    b"%PDF-": "a PDF",
    b"BM": "a BMP",
    b"II*\0": "a TIFF",
    b"MM\0*": "a TIFF",
    b"<svg": "an SVG drawing",
    b"<?xml": "an SVG drawing or another XML file",
    b"PK": "a zip or an office document",
}


def _guess(content: bytes) -> str:
    """What another file is, in words to put behind "no picture that can be read"."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return ": it is WebP"
    found = next((name for start, name in _STARTS.items() if content.startswith(start)), "")
    return _KINDS.get(content[4:12], f": it is {found}" if found else "")


def _to_grey(image: Image.Image) -> Grey:
    if image.mode.startswith("I"):  # 16 bits of grey, or 10, 12 or 14 of them
        values = np.asarray(image, np.float32)
        deepest = next((one for one in (255, 1023, 4095, 16383) if values.max() <= one), 65535)
        return np.clip(_shrink(Image.fromarray(values / np.float32(deepest))), 0, 1)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return _without_transparency(image.convert("RGBA"))
    return _shrink(image.convert("L").convert("F")) / _WHITE


def _without_transparency(image: Image.Image) -> Grey:
    """Put a picture with transparency on a ground that its ink stands out from."""
    alpha = _shrink(image.getchannel("A").convert("F")) / _WHITE
    if alpha.min() > 0.5:
        return _shrink(image.convert("L").convert("F")) / _WHITE
    densest = float(alpha.max())
    if densest < 0.05:
        raise DrawingError("The picture is transparent everywhere: there is no ink in it.")
    light = _shrink(image.convert("RGB").convert("L").convert("F")) / _WHITE
    opaque = light[alpha > 0.5 * densest]
    low, high = np.percentile(opaque, (5, 95))
    if high - low < 0.3:  # ink of one colour on nothing, however pale
        return alpha / np.float32(densest)
    ground = np.float32(np.median(opaque) > 0.5)
    return (light * alpha + (_ONE - alpha) * ground).astype(np.float32)


def _shrink(image: Image.Image, side: int = LARGE_SIDE) -> Grey:
    longest = max(image.size)
    if longest > side:
        size = (max(1, round(image.width * side / longest)), max(1, round(image.height * side / longest)))
        image = image.resize(size, Image.Resampling.BOX)
    return np.asarray(image, np.float32)


def closer(picture: Picture, box: tuple[float, float, float, float]) -> Picture | None:
    """What lies in a box of `picture.grey` with the pixels that the file has for it; None when there are hardly more."""
    if picture.large is None:
        return None
    scale = picture.large.shape[1] / picture.grey.shape[1]
    left, top, right, bottom = (round(edge * scale) for edge in box)
    part = picture.large[max(0, top) : max(0, bottom), max(0, left) : max(0, right)]
    gained = min(WORKING_SIDE / max(part.shape, default=WORKING_SIDE) if part.size else 0, 1.0) * scale
    return Picture(_shrink(Image.fromarray(part), WORKING_SIDE)) if gained > 1.3 and min(part.shape) >= 8 else None


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
    """Tell ink from paper: the sign is the border's, the threshold Otsu's, after uneven light was taken out, and the lines of
    ruled or squared paper.

    Args:
        turned: take the other sign than the border's.
    """
    dark_on_light = is_dark_on_light(grey) != turned
    light_ink = 1 - grey if dark_on_light else grey
    flat = _without_paper(light_ink)
    # The brightest part in ten thousand: a digit of a fifteenth of the picture has some thousand pixels of 300,000.
    peak = float(np.percentile(flat, 99.99))
    if peak < _LEAST_CONTRAST:
        empty = np.zeros_like(grey)
        return Ink(empty, empty.astype(bool), dark_on_light, ())
    threshold = max(_otsu(flat), 0.3 * peak)
    flat, mask, lines = without_lines(flat, flat > threshold)
    mask, notes = _without_specks(mask)
    strong = flat[mask]
    top = float(np.percentile(strong, 80)) if strong.size else peak
    amount = np.clip(flat / max(top, 1e-6), 0, 1)
    # The soft edge of the kept marks belongs to them; what lies further off is paper.
    near = ndimage.binary_dilation(mask, iterations=1 if max(grey.shape) < 100 else 2)
    return Ink(np.where(near, amount, 0).astype(np.float32), mask, dark_on_light, (*lines, *notes))


def is_dark_on_light(grey: Grey) -> bool:
    """Whether the border is nearer to the light than to the dark of the picture."""
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
    at_edge = np.array(
        [rows.start == 0 or columns.start == 0 or rows.stop == height or columns.stop == width for rows, columns in boxes]
    )
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
