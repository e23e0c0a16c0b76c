"""MNIST's files in small."""

import hashlib
import struct

import numpy as np

from core.data.sources import MNIST_FILES, MnistFile


def small_files() -> tuple[dict[str, bytes], tuple[MnistFile, ...]]:
    """MNIST in miniature: the same four files with few digits, and what their checks expect."""
    generator, contents, files = np.random.default_rng(0), {}, []
    for file, count in zip(MNIST_FILES, (60, 60, 20, 20), strict=True):
        if file.magic == 2051:
            body = struct.pack(">IIII", 2051, count, 28, 28) + generator.integers(0, 256, count * 784, np.uint8).tobytes()
        else:
            body = struct.pack(">II", 2049, count) + generator.integers(0, 10, count, np.uint8).tobytes()
        contents[file.name] = body
        files.append(MnistFile(file.name, hashlib.md5(body).hexdigest(), count, file.magic))
    return contents, tuple(files)
