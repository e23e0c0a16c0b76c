"""The machine: device choice, threads, memory readings. Imports torch only inside functions, so that a page that
merely shows settings does not wait for it."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import psutil

from core.errors import DeviceError
from core.events import REPORT_DTYPE

if TYPE_CHECKING:
    import torch

_GIB = 2**30

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def choose_device(name: str) -> "torch.device":
    """The device for a setting: auto, cpu, cuda, cuda:N or mps. Raises DeviceError when it is not usable here."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(f"{name} was asked for, but no CUDA GPU is usable here. Choose auto or cpu; "
                              "the Environment page says what is missing.")  # fmt: skip
        if (device.index or 0) >= torch.cuda.device_count():
            raise DeviceError(f"{name} was asked for, but this machine has {torch.cuda.device_count()} GPU(s): "
                              f"cuda:0 to cuda:{torch.cuda.device_count() - 1}.")  # fmt: skip
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError("mps was asked for, but this is not an Apple GPU. Choose auto or cpu.")
    return device


def device_name(device: "torch.device") -> str:
    """The product name of the device, such as "NVIDIA GeForce RTX 3060" or the processor's."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device.type == "mps" else processor_name()


def processor_name() -> str:
    """The processor's name as the operating system gives it."""
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    import platform

    return platform.processor() or platform.machine() or "unknown processor"


def choose_precision(name: str, device: "torch.device") -> str:
    """float32, bfloat16 or float16 for a setting. "auto" takes bfloat16 only where the hardware computes with it:
    emulated, it is slower than float32 by a factor of several hundred."""
    import torch

    if name == "float16" and device.type != "cuda":
        raise DeviceError(f"float16 training needs a CUDA GPU; this run is on {device.type}. Choose float32 or bfloat16.")
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bfloat16" if device.type == "cpu" and cpu_computes_bfloat16() else "float32"


def cpu_computes_bfloat16() -> bool:
    """True where the processor has bfloat16 matrix instructions (AMX or AVX512-BF16)."""
    import torch

    amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    avx = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return bool(amx() or avx())


@contextlib.contextmanager
def numerics(threads: int, *, deterministic: bool) -> Iterator[None]:
    """Use so many threads in this thread's tensor operations, and repeatable algorithms if asked for; put back after.

    cuBLAS is repeatable only with a workspace that is named before its first call: see CUBLAS_WORKSPACE_CONFIG above.
    """
    import torch

    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark, torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
        torch.set_num_threads(before[2])


def usable_cores() -> int:
    """Processor cores that this process may use: container and affinity limits count, hyper-threads do not."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, psutil.cpu_count(logical=False) or affinity))


def choose_threads(setting: int | None, *, shared: bool) -> int:
    """Intra-op threads for a run.

    Args:
        setting: the person's choice, or None for ours.
        shared: True when the process also serves pages. Then one core is left to them: two OpenMP threads of which
            one has to wait for its core are slower than one thread (tests/benchmarks/dashboard_overhead.py).

    Returns:
        At least 1. Small networks gain nothing from more than 8 threads.
    """
    if setting is not None:
        return setting
    return max(1, min(8, usable_cores() - shared))


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
    return bool(mallopt(mmap_threshold, 2**30) and mallopt(trim_threshold, 2**31 - 1))


def resident_bytes() -> int:
    """Memory of this process that lies in RAM, in bytes."""
    return psutil.Process().memory_info().rss


def read_memory(device: "torch.device", step: int, seconds: float) -> npt.NDArray[np.void]:
    """One row of REPORT_DTYPE with this moment's memory. Asks the allocator only; does not wait for the device."""
    row = np.zeros(1, REPORT_DTYPE)
    row["step"], row["seconds"], row["resident"] = step, seconds, resident_bytes()
    if device.type == "cuda":
        import torch

        row["allocated"] = torch.cuda.memory_allocated(device)
        row["reserved"] = torch.cuda.memory_reserved(device)
        row["peak"] = torch.cuda.max_memory_allocated(device)
        row["total"] = torch.cuda.get_device_properties(device).total_memory
    return row


def is_out_of_memory(error: BaseException) -> bool:
    """True for a GPU's OutOfMemoryError and for the plain RuntimeError by which the CPU allocator says the same."""
    import torch

    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def memory_words(device: "torch.device") -> str:
    """Free and total memory of the device in words, for an out-of-memory message."""
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
        return f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB on the GPU are free"
    memory = psutil.virtual_memory()
    return f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB of this machine's memory are free"


def release_device_memory(device: "torch.device") -> None:
    """Give memory that nothing refers to any more back to the device."""
    import gc

    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def environment() -> dict[str, Any]:
    """What a run records of the machine it ran on; plain values."""
    import platform
    from importlib.metadata import version

    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "torchvision": version("torchvision"),
        "numpy": np.__version__,
        "cuda_runtime": torch.version.cuda,
        "processor": processor_name(),
        "cores": usable_cores(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }
