"""GPUs as the check sees them: the driver, the platform that torch was built for, and what a device computes."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from core.errors import CoreError
from core.finding import Finding, Verdict
from core.machine.hardware import choose_device, gpu_load
from core.machine.installation import is_wsl

_GIB = 2**30
_MATRIX, _LARGE_MATRIX = 1024, 4096
# The least driver for a CUDA platform's major version (Linux, Windows): CUDA's release notes, "Minor Version Compatibility".
LEAST_DRIVER = {11: (450, 452), 12: (525, 528), 13: (580, 580)}
_LEAST_FREE = 1.0
BUILDS = "core/machine/PYTORCH.md"


def gpu_lines() -> Iterator[Finding]:
    """What there is of GPUs: driver, platform and runtime told apart, then each device."""
    import torch

    driver, hip = driver_version(), getattr(torch.version, "hip", None)
    if hip:
        yield Finding(
            "ROCm runtime", f"HIP {hip}: this torch is built for {amd_words(torch.__version__)}, which it calls cuda, too"
        )
    elif torch.version.cuda is None:
        yield _cpu_build_line(driver)
        return
    else:
        if driver is not None:
            yield _driver_line(driver, torch.version.cuda)
        yield Finding("CUDA runtime", f"{torch.version.cuda}, part of this torch; no CUDA toolkit is needed")
    if not torch.cuda.is_available():
        yield _no_gpu_line(driver, bool(hip))
        return
    if not hip:
        yield Finding("cuDNN", str(torch.backends.cudnn.version()))
    for index in range(torch.cuda.device_count()):
        yield from _device_lines(index, bool(hip))


def amd_words(version: str) -> str:
    """Whose GPUs a build with HIP is for: Hygon's DCU toolkit (DTK) is one, too."""
    return "Hygon DCUs (DTK)" if "dtk" in version.lower() or Path("/opt/dtk").exists() else "AMD GPUs (ROCm)"


def _cpu_build_line(driver: str | None) -> Finding:
    if driver:
        return Finding(
            "CUDA",
            f"this torch is a CPU-only build, but an NVIDIA driver ({driver}) is here",
            Verdict.FAIL,
            f"Install a CUDA build; {BUILDS}.",
        )
    if Path("/dev/kfd").exists():
        return Finding(
            "GPU",
            "this torch is a CPU-only build, but an AMD or Hygon GPU is here (/dev/kfd)",
            Verdict.FAIL,
            f"Install a ROCm build (AMD), or the vendor's DTK build (Hygon); {BUILDS}.",
        )
    import torch

    if torch.backends.mps.is_available():
        return Finding("GPU", "Apple's, through MPS")
    return Finding("GPU", "none that this torch could use; it is a CPU-only build")


def _driver_line(driver: str, cuda: str) -> Finding:
    """The driver is the system's; which CUDA platforms it carries depends on its version."""
    least = LEAST_DRIVER.get(int(cuda.split(".")[0]), (0, 0))[sys.platform == "win32"]
    number = re.match(r"\d+", driver)
    if number and int(number[0]) < least:
        return Finding(
            "NVIDIA driver",
            driver,
            Verdict.FAIL,
            f"Too old for CUDA {cuda}, which needs {least} or newer. "
            f"Update the driver, or install a build for an older CUDA; {BUILDS}.",
        )
    return Finding("NVIDIA driver", f"{driver} (CUDA {cuda} needs {least} or newer)" if least else driver)


def _no_gpu_line(driver: str | None, hip: bool) -> Finding:
    import torch

    if hip:
        return Finding(
            "GPU",
            "this torch is built for AMD or Hygon, but sees no such GPU",
            Verdict.NOTE,
            "Is the kernel's amdgpu (or hydcu) module loaded, and are you in the group render?",
        )
    if driver is None:
        if Path("/dev/kfd").exists():
            return Finding(
                "GPU",
                "this torch is built for NVIDIA, but the GPU here is AMD's or Hygon's (/dev/kfd)",
                Verdict.FAIL,
                f"Install a ROCm build, or the vendor's DTK build; {BUILDS}.",
            )
        where = " In WSL the driver comes from Windows: install NVIDIA's driver there, none in Linux." if is_wsl() else ""
        return Finding(
            "GPU",
            "none found (no NVIDIA driver); everything works on the CPU",
            Verdict.NOTE,
            f"With an NVIDIA card in this machine: install its driver.{where}",
        )
    try:
        torch.cuda.init()
        reason = "torch sees no device"
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
    return Finding(
        "GPU",
        f"an NVIDIA driver ({driver}) is here, but torch cannot use it: {reason}",
        Verdict.FAIL,
        f"CUDA {torch.version.cuda} needs a newer driver, or a build for an older CUDA; {BUILDS}. In a container, "
        "start it with GPU access (--gpus all). CUDA_VISIBLE_DEVICES may hide it, too.",
    )


def _device_lines(index: int, hip: bool) -> Iterator[Finding]:
    import torch

    name = f"GPU {index}"
    try:
        gpu, built_for = torch.cuda.get_device_properties(index), torch.cuda.get_arch_list()
    except Exception as error:  # a GPU that fell off the bus
        yield Finding(name, f"does not answer: {error}", Verdict.FAIL, "Restart the machine; look at the driver's log.")
        return
    found = f"{gpu.name}, {gpu.total_memory / _GIB:.1f} GiB"
    if not hip:
        found = f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}, {gpu.total_memory / _GIB:.1f} GiB"
    if not hip and not is_supported(gpu.major, gpu.minor, built_for):
        yield Finding(
            name,
            found,
            Verdict.FAIL,
            f"This torch was built for {', '.join(built_for)}. Choose a build that names this GPU's capability; {BUILDS}.",
        )
        return
    yield Finding(name, found)
    yield _memory_line(index, name)


def _memory_line(index: int, name: str) -> Finding:
    """How much is free, and how busy others keep it."""
    import torch

    try:
        free, total = torch.cuda.mem_get_info(index)
    except Exception as error:
        return Finding(f"{name} memory", f"cannot be read: {error}", Verdict.NOTE, "Other programs may hold all of it.")
    load = gpu_load(index)
    found = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    if load is not None:
        found += f"; {load.busy:.0%} busy, {load.others / _GIB:.1f} GiB held by other programs"
    if free < _LEAST_FREE * _GIB:
        return Finding(
            f"{name} memory",
            found,
            Verdict.NOTE,
            "Little is free: close other programs that use this GPU, choose a smaller batch, or the device cpu.",
        )
    return Finding(f"{name} memory", found)


def is_supported(major: int, minor: int, built_for: list[str]) -> bool:
    """Binaries of the same major version run on later minors; PTX (compute_) runs on anything later."""
    for entry in built_for:
        kind, _, number = entry.partition("_")
        digits = "".join(character for character in number if character.isdigit())
        if not digits:
            continue
        target = (int(digits[:-1] or 0), int(digits[-1]))
        if kind == "sm" and target[0] == major and target[1] <= minor:
            return True
        if kind == "compute" and target <= (major, minor):
            return True
    return False


def driver_version() -> str | None:
    """NVIDIA's driver, as nvidia-smi tells it; None without one."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        answer = subprocess.run(
            [command, "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.splitlines()[0].strip() if answer.stdout.strip() else None


def compute_lines(name: str) -> Iterator[Finding]:
    """Real work on a device against the same in float64 on the CPU: a product, a convolution, and both in bfloat16."""
    yield _compared(f"Matrix product on {name}", name, matrix_product)
    yield _compared(f"Convolution on {name}", name, convolution)
    yield _bfloat16_line(name)


def _compared(title: str, name: str, work: Any) -> Finding:
    import torch

    try:
        error, rate = work(name)
    except torch.OutOfMemoryError:
        return Finding(
            title,
            "not done: too little memory is free on this GPU",
            Verdict.NOTE,
            "Other programs hold it; close them. Training needs a few hundred MB.",
        )
    except Exception as failure:
        return Finding(title, f"failed: {failure}", Verdict.FAIL, "The device cannot compute; see the lines above.")
    found = f"{rate / 1e9:,.0f} GFLOP/s in float32, largest relative error {error:.1e}"
    # Rounding of 1024 products of order 1 stays near 1e-6; TF32 reaches 1e-3; more is wrong.
    if not error <= 5e-3:
        return Finding(title, found, Verdict.FAIL, "The result is wrong: suspect the device, its driver or overclocking.")
    return Finding(title, found)


def matrix_product(name: str) -> tuple[float, float]:
    """Multiply two square matrices on a device: 1024 rows on the CPU, 4096 on a GPU, which a small one does not keep busy.

    Returns:
        (error, rate): the largest deviation from a float64 product on the CPU, relative to the largest entry; and
        operations per second in float32.
    """
    import torch

    device = choose_device(name)
    side = _MATRIX if device.type == "cpu" else _LARGE_MATRIX
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(side, side, generator=generator, dtype=torch.float32) for _ in range(2))
    reference = left[:_MATRIX].double() @ right.double()
    a, b = left.to(device), right.to(device)
    error = _relative_error((a @ b)[:_MATRIX], reference)
    return error, 2 * side**3 * _repeats_a_second(lambda: a @ b)


def convolution(name: str) -> tuple[float, float]:
    """The middle layer of `simple_cnn`, 3x3 from 32 to 64 channels, on 64 maps of 14x14: as `matrix_product`."""
    import torch

    device = choose_device(name)
    generator = torch.Generator().manual_seed(0)
    maps, weight = torch.randn(64, 32, 14, 14, generator=generator), torch.randn(64, 32, 3, 3, generator=generator)
    reference = torch.conv2d(maps.double(), weight.double(), padding=1)
    a, b = maps.to(device), weight.to(device)
    error = _relative_error(torch.conv2d(a, b, padding=1), reference)
    return error, 2 * reference.numel() * weight[0].numel() * _repeats_a_second(lambda: torch.conv2d(a, b, padding=1))


def _relative_error(found: Any, reference: Any) -> float:
    error = ((found.cpu().double() - reference).abs().max() / reference.abs().max()).item()
    if error != error:
        raise CoreError("the result holds NaN")
    return error


def _repeats_a_second(work: Any) -> float:
    repeats, began = 0, perf_counter()
    while repeats < 200 and perf_counter() - began < 0.2:
        for _ in range(4):
            work()
        work().flatten()[0].item()  # waits for the device
        repeats += 5
    return repeats / (perf_counter() - began)


def _bfloat16_line(name: str) -> Finding:
    import torch

    title = f"bfloat16 on {name}"
    try:
        device = choose_device(name)
        left = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
        found = left.to(device, torch.bfloat16) @ left.to(device, torch.bfloat16)
        error = _relative_error(found.float(), left.double() @ left.double())
    except torch.OutOfMemoryError:
        return Finding(title, "not done: too little memory is free on this GPU", Verdict.NOTE, "Close other programs.")
    except Exception as failure:
        return Finding(
            title,
            f"cannot be computed: {(str(failure).splitlines() or [''])[0]}",
            Verdict.NOTE,
            "Leave the precision at float32 or auto.",
        )
    if not error <= 0.05:  # it keeps 8 bits
        return Finding(title, f"largest relative error {error:.1e}", Verdict.FAIL, "The result is wrong. Use float32.")
    return Finding(title, f"computed; largest relative error {error:.1e}")
