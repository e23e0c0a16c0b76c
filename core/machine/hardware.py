"""The machine: device choice, threads, precision. Imports torch only inside functions, so that a page that
merely shows settings does not wait for it."""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from core.errors import DeviceError

if TYPE_CHECKING:
    import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def choose_device(name: str) -> "torch.device":
    """The device for a setting: auto, cpu, cuda, cuda:N or mps. Raises DeviceError when it is not usable here."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise DeviceError(
                f"{name} was asked for, but no CUDA GPU is usable here. Choose auto or cpu; "
                "`python -m core check` says what is missing."
            )
        if (device.index or 0) >= torch.cuda.device_count():
            raise DeviceError(
                f"{name} was asked for, but this machine has {torch.cuda.device_count()} GPU(s): "
                f"cuda:0 to cuda:{torch.cuda.device_count() - 1}."
            )
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
        with torch.cuda.device(device):  # it is asked about the current GPU only
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
    """Processor cores that this process may use: affinity and a container's quota of processor time count (`docker --cpus`),
    hyper-threads do not. A quota of 1.5 cores counts as 1: a second thread would wait for half of its time, and the first one
    with it."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return max(1, min(affinity, psutil.cpu_count(logical=False) or affinity, int(quota) if quota is not None else affinity))


def control_groups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Iterator[tuple[int, Path]]:
    """(version, folder) of each control group whose limits this process has, from its own one up to the root."""
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, names, path = line.split(":", 2)
            base = root if not names else root / names
            parts = [part for part in path.split("/") if part not in ("", "..")]
            # In a container the path may be the host's: then only the root of what is mounted is there.
            for length in range(len(parts), -1, -1):
                yield (1 if names else 2), base.joinpath(*parts[:length])


def limit_of(path: Path) -> float | None:
    """What a file of a control group says; None for no limit and where there is no such file."""
    try:
        value = float(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return value if 0 <= value < 2**60 else None


def cpu_quota() -> float | None:
    """Cores of processor time that the control groups grant, the least of all; None without a limit."""
    found = []
    for version, folder in control_groups():
        if version == 2:
            with contextlib.suppress(OSError, ValueError):
                quota, period = (folder / "cpu.max").read_text().split()
                found += [] if quota == "max" else [float(quota) / float(period)]
        else:
            quota, period = limit_of(folder / "cpu.cfs_quota_us"), limit_of(folder / "cpu.cfs_period_us")
            found += [quota / period] if quota is not None and period else []
    return min(found, default=None)


MOST_THREADS_A_CORE = 4


def choose_threads(setting: int | None, *, beside_pages: bool) -> int:
    """Intra-op threads for a run.

    Args:
        setting: the person's choice, or None for ours.
        beside_pages: True when the process also serves pages. Then one core is left to them: two OpenMP threads of which
            one has to wait for its core are slower than one thread (tests/benchmarks/dashboard_overhead.py).

    Returns:
        At least 1. Small networks gain nothing from more than 8 threads.

    Raises:
        DeviceError: far more threads than cores. OpenMP ends the whole process where it may not start them.
    """
    if setting is None:
        return max(1, min(8, usable_cores() - beside_pages))
    most = max(8, MOST_THREADS_A_CORE * usable_cores())
    if setting > most:
        raise DeviceError(
            f"{setting:,} CPU threads were asked for, but {usable_cores()} cores are usable here; at most {most} "
            "are started. Leave the number empty, or set a smaller one."
        )
    return setting


@dataclass(frozen=True)
class GpuLoad:
    """What NVIDIA's management library (NVML) says of a GPU.

    Attributes:
        busy: share of the last moment in which it computed, in [0, 1], for whatever program.
        others: bytes that other programs hold.
    """

    busy: float
    others: int


def gpu_load(index: int) -> GpuLoad | None:
    """How busy a GPU is; None without NVIDIA's GPU, or without the package nvidia-ml-py, which is optional."""
    import torch

    try:
        import pynvml  # type: ignore[import-not-found]

        pynvml.nvmlInit()
        # Numbers of NVML are the machine's, those of torch this process's (CUDA_VISIBLE_DEVICES).
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(index).uuid}")
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        used = pynvml.nvmlDeviceGetMemoryInfo(handle).used
    except Exception:  # not installed, another maker's GPU, or a driver that does not tell
        return None
    return GpuLoad(busy / 100, max(0, int(used) - torch.cuda.memory_reserved(index)))


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
