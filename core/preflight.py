"""Looks at the machine and at a configuration before a person trusts a long run to them."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import metadata
from time import perf_counter
from typing import Any

import psutil

from core.config import TrainConfig
from core.errors import CoreError
from core.hardware import choose_device, choose_threads, cpu_computes_bfloat16, keep_freed_memory, processor_name, usable_cores

_GIB = 2**30
_MATRIX = 1024
_TRIALS, _TRIAL_SECONDS = 4, 0.15
TESTED_PYTHON = ((3, 11), (3, 11))


class Verdict(StrEnum):
    """What a line of the check means for a person."""

    OK = "ok"
    NOTE = "note"
    FAIL = "fail"


@dataclass(frozen=True)
class CheckLine:
    """One finding: what was looked at, what was found, the verdict, and what to do when it is not OK."""

    name: str
    found: str
    verdict: Verdict = Verdict.OK
    advice: str = ""


def check() -> Iterator[CheckLine]:
    """Look at the installation line by line, then compute something real on each device.

    Never raises: what fails becomes a line with advice.
    """
    yield _python_line()
    yield CheckLine("System", f"{platform.platform()}{' (WSL)' if _is_wsl() else ''}")
    memory = psutil.virtual_memory()
    yield CheckLine("Processor", f"{processor_name()}, {usable_cores()} usable cores")
    yield CheckLine("Memory", f"{memory.total / _GIB:.1f} GiB, {memory.available / _GIB:.1f} GiB free")
    for name in ("torchvision", "numpy", "streamlit", "plotly", "pandas", "streamlit-drawable-canvas"):
        yield _package_line(name)
    try:
        import torch
    except Exception as error:  # a broken installation raises OSError, ImportError or others
        yield CheckLine("torch", f"cannot be imported: {error}", Verdict.FAIL,
                        "Install it again into this environment: pip install -r requirements.txt. On Windows, install the "
                        "Microsoft Visual C++ Redistributable.")  # fmt: skip
        return
    yield CheckLine("torch", torch.__version__)
    yield from _torchvision_line()
    yield CheckLine("CPU instructions", f"{torch.backends.cpu.get_cpu_capability()}, bfloat16 "
                    f"{'computed' if cpu_computes_bfloat16() else 'emulated'}", *_bfloat16_note())  # fmt: skip
    threads = choose_threads(None, shared=True)
    yield CheckLine("Threads", f"this process uses {torch.get_num_threads()}; runs from this dashboard use {threads} on "
                    "the CPU, so that a core is left to the pages")  # fmt: skip
    yield from _gpu_lines()
    yield _matrix_line("cpu")
    for index in range(torch.cuda.device_count()):
        yield _matrix_line(f"cuda:{index}")
    if torch.backends.mps.is_available():
        yield _matrix_line("mps")


def as_text(lines: list[CheckLine]) -> str:
    """The findings as plain text for a bug report or a terminal."""
    width = max((len(line.name) for line in lines), default=0)
    rows = []
    for line in lines:
        rows.append(f"[{line.verdict:>4}] {line.name:<{width}}  {line.found}")
        if line.advice:
            rows.append(f"       {'':<{width}}  -> {line.advice}")
    return "\n".join(rows) + "\n"


def measure_rate(config: TrainConfig) -> float:
    """Training images per second that this configuration reaches here, by a short trial on noise; under a second.

    The trial has its own model and data, and touches nothing of any run. Raises DeviceError.
    """
    import torch

    from core.train_loop import new_state, take_pending, update

    batch = min(config.batch_size, 256)
    trial = replace(config, batch_size=batch, accumulation_steps=1, epochs=1000)
    state = new_state(trial, shared=True)
    keep_freed_memory()
    fastest = 0.0
    threads_before = torch.get_num_threads()
    torch.set_num_threads(state.threads)  # of this thread only; algorithms are left alone, since a run may use them
    try:
        images = torch.randn(batch, 1, 28, 28, generator=torch.Generator().manual_seed(0)).to(state.device)
        labels = torch.arange(batch, device=state.device) % 10
        update(state, [(images, labels)])  # the first one pays for set-up
        take_pending(state)
        for _ in range(_TRIALS):  # the best of several: other work on the machine only ever slows one down
            began, steps = perf_counter(), 0
            while steps < 20 and perf_counter() - began < _TRIAL_SECONDS:
                update(state, [(images, labels)])
                steps += 1
            take_pending(state)
            fastest = max(fastest, steps * batch / (perf_counter() - began))
    finally:
        torch.set_num_threads(threads_before)
    return fastest


def _python_line() -> CheckLine:
    found = f"{platform.python_version()} in {sys.prefix}"
    if not TESTED_PYTHON[0] <= sys.version_info[:2] <= TESTED_PYTHON[1]:
        return CheckLine("Python", found, Verdict.NOTE, "This dashboard was tested with Python 3.11.")
    if sys.maxsize < 2**32:
        return CheckLine("Python", found, Verdict.FAIL, "This is a 32-bit Python; PyTorch needs a 64-bit one.")
    return CheckLine("Python", found)


def _package_line(name: str) -> CheckLine:
    try:
        return CheckLine(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return CheckLine(name, "not installed", Verdict.FAIL, "pip install -r requirements.txt in this environment.")


def _torchvision_line() -> Iterator[CheckLine]:
    try:
        import torchvision  # noqa: F401
    except Exception as error:  # "operator torchvision::nms does not exist" is a RuntimeError
        yield CheckLine("torchvision", f"cannot be imported: {error}", Verdict.FAIL,
                        "It was built for another torch. Install both together: pip install -r requirements.txt.")  # fmt: skip


def _bfloat16_note() -> tuple[Verdict, str]:
    if cpu_computes_bfloat16():
        return Verdict.OK, ""
    return Verdict.NOTE, ("This processor has no bfloat16 instructions: precision bfloat16 works on it, but many times "
                          "slower than float32. Precision auto chooses float32.")  # fmt: skip


def _is_wsl() -> bool:
    return "microsoft" in platform.release().lower()


def _gpu_lines() -> Iterator[CheckLine]:
    import torch

    driver = _driver_version()
    if torch.version.cuda is None:
        if driver:
            yield CheckLine("CUDA", f"this torch is a CPU-only build, but an NVIDIA driver ({driver}) is here", Verdict.FAIL,
                            "Install a CUDA build; README, section PyTorch builds.")  # fmt: skip
        else:
            yield CheckLine("GPU", "none; this torch is a CPU-only build")
        return
    yield CheckLine("CUDA runtime", torch.version.cuda)
    if not torch.cuda.is_available():
        yield _no_gpu_line(driver)
        return
    yield CheckLine("NVIDIA driver", driver or "unknown")
    yield CheckLine("cuDNN", str(torch.backends.cudnn.version()))
    built_for = torch.cuda.get_arch_list()
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        found = f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}, {gpu.total_memory / _GIB:.1f} GiB"
        if _is_supported(gpu.major, gpu.minor, built_for):
            yield CheckLine(f"GPU {index}", found)
        else:
            yield CheckLine(f"GPU {index}", found, Verdict.FAIL, f"This torch was built for {', '.join(built_for)}. Choose a "
                            "build that names this GPU's capability; README, section PyTorch builds.")  # fmt: skip


def _is_supported(major: int, minor: int, built_for: list[str]) -> bool:
    """Binaries of the same major version run on later minors; PTX (compute_) runs on anything later."""
    for entry in built_for:
        kind, _, number = entry.partition("_")
        digits = "".join(character for character in number if character.isdigit())
        if not digits:
            continue
        target = (int(digits[:-1]), int(digits[-1]))
        if kind == "sm" and target[0] == major and target[1] <= minor:
            return True
        if kind == "compute" and target <= (major, minor):
            return True
    return False


def _no_gpu_line(driver: str | None) -> CheckLine:
    import torch

    if driver is None:
        where = " In WSL the driver comes from Windows: install NVIDIA's driver there." if _is_wsl() else ""
        return CheckLine("GPU", "none found (no NVIDIA driver); everything works on the CPU", Verdict.NOTE,
                         f"With an NVIDIA card in this machine: install its driver.{where}")  # fmt: skip
    try:
        torch.cuda.init()
        reason = "torch sees no device"
    except Exception as error:
        reason = str(error).splitlines()[0]
    return CheckLine("GPU", f"an NVIDIA driver ({driver}) is here, but torch cannot use it: {reason}", Verdict.FAIL,
                     f"CUDA {torch.version.cuda} needs a newer driver, or a build for an older CUDA; README, section "
                     "PyTorch builds. In a container, start it with GPU access (--gpus all).")  # fmt: skip


def _driver_version() -> str | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        answer = subprocess.run([command, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                text=True, timeout=10, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.splitlines()[0].strip() if answer.stdout.strip() else None


def _matrix_line(name: str) -> CheckLine:
    """A float32 matrix product on a device against the same product in float64 on the CPU."""
    title = f"Matrix product on {name}"
    try:
        error, rate = matrix_product(name)
    except Exception as failure:
        return CheckLine(title, f"failed: {failure}", Verdict.FAIL, "The device cannot compute; see the lines above.")
    found = f"{rate / 1e9:,.0f} GFLOP/s in float32, largest relative error {error:.1e}"
    # Rounding of 1024 products of order 1 stays near 1e-6; TF32 reaches 1e-3; more is wrong.
    if error > 5e-3:
        return CheckLine(title, found, Verdict.FAIL, "The result is wrong: suspect the device, its driver or overclocking.")
    return CheckLine(title, found)


def matrix_product(name: str) -> tuple[float, float]:
    """Multiply two 1024x1024 matrices on a device.

    Returns:
        (error, rate): the largest deviation from a float64 product on the CPU, relative to the largest entry; and
        operations per second in float32.
    """
    import torch

    device = choose_device(name)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(_MATRIX, _MATRIX, generator=generator, dtype=torch.float64) for _ in range(2))
    reference = left @ right
    a, b = left.float().to(device), right.float().to(device)
    product: Any = a @ b
    error = ((product.cpu().double() - reference).abs().max() / reference.abs().max()).item()
    repeats, began = 0, perf_counter()
    while repeats < 200 and perf_counter() - began < 0.2:
        for _ in range(5):
            product = a @ b
        product[0, 0].item()  # waits for the device
        repeats += 5
    if not error == error:
        raise CoreError("the product holds NaN")
    return error, repeats * 2 * _MATRIX**3 / (perf_counter() - began)
