"""Memory of the machine and of its devices: how much there is, what says that it ran out, and giving it back. No torch at
import."""

import contextlib
import ctypes
import errno
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from core.machine.hardware import control_groups, limit_of

if TYPE_CHECKING:
    import torch

_GIB = 2**30


@dataclass(frozen=True)
class Memory:
    """Bytes that this process could have in all, and how many of them are free now. A container's limit counts."""

    total: int
    available: int


def main_memory() -> Memory:
    """The machine's memory, or what a control group leaves of it."""
    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for version, folder in control_groups():
        limit = limit_of(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
        used = limit_of(folder / ("memory.current" if version == 2 else "memory.usage_in_bytes"))
        if limit is not None and limit < machine.total:
            total = min(total, int(limit))
            available = min(available, max(0, int(limit - (used or 0)) + _given_back(folder)))
    return Memory(total, available)


def _given_back(folder: Path) -> int:
    """Bytes of files in the cache, which count as used and are given up when memory is needed."""
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0


def keep_freed_memory() -> bool:
    """Ask glibc to keep large freed blocks for the next step instead of giving each back to the system.

    Activations of several MB are allocated and freed every step; by default each costs fresh page faults (batch 256:
    5,400 against 9,000 images/s; tests/benchmarks/throughput.py). Costs no memory beyond the peak. Returns True when
    it took effect; other C libraries have no such switch.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    # Older versions of glibc refuse more than 32 MiB for the first; it is still more than a layer's activations have here.
    kept = mallopt(mmap_threshold, 2**30) or mallopt(mmap_threshold, 2**25)
    return bool(mallopt(trim_threshold, 2**31 - 1) and kept)


def resident_bytes() -> int:
    """Memory of this process that lies in RAM, in bytes."""
    return psutil.Process().memory_info().rss


# What the allocators of CPU (Linux, Windows), CUDA's libraries, Apple's GPU and ROCm say when memory has run out, as plain
# RuntimeErrors.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "status_alloc_failed",
    "cannot allocate memory",
    "failed to allocate",
    "hiperroroutofmemory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """True when memory ran out, whichever device and library says so in whatever way."""
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def memory_words(device: "torch.device") -> str:
    """Free and total memory of the device in words, for an out-of-memory message."""
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
        return f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB on the GPU are free"
    memory = main_memory()
    whose = (
        "this machine's memory" if memory.total == psutil.virtual_memory().total else "the memory that this container may use"
    )
    return f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB of {whose} are free"


def release_device_memory(device: "torch.device") -> None:
    """Give memory that nothing refers to any more back to the device."""
    import gc

    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def reset_peak_memory(device: "torch.device") -> None:
    """Begin to measure the peak anew: it is a run's own, not that of the process."""
    import torch

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
