"""Looks at the machine and at a configuration before a person trusts a long run to them."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from core.finding import Finding, Verdict
from core.machine.gpu_check import compute_lines, gpu_lines
from core.machine.hardware import choose_threads, cpu_computes_bfloat16, cpu_quota, processor_name, usable_cores
from core.machine.installation import environment_line, package_lines, python_line, system_line
from core.machine.memory import main_memory

_GIB = 2**30


def check() -> Iterator[Finding]:
    """Look at the installation line by line, then compute something real on each device.

    Never raises: what fails becomes a line with advice.
    """
    for part in (_installation_lines, _torch_lines):
        try:
            yield from part()
        except Exception as error:  # a driver may raise anything
            yield Finding("Check", f"stopped: {type(error).__name__}: {error}", Verdict.FAIL, "This belongs in a bug report.")
            return


def _installation_lines() -> Iterator[Finding]:
    yield python_line()
    yield environment_line()
    yield system_line()
    quota, memory = cpu_quota(), main_memory()
    granted = f"; the container may use {quota:.1f} cores of time" if quota is not None else ""
    yield Finding("Processor", f"{processor_name()}, {usable_cores()} usable cores{granted}")
    limited = " of this container" if memory.total < psutil.virtual_memory().total else ""
    yield Finding("Memory", f"{memory.total / _GIB:.1f} GiB{limited}, {memory.available / _GIB:.1f} GiB free")
    yield from package_lines()


def _torch_lines() -> Iterator[Finding]:
    try:
        import torch
    except Exception as error:  # a broken installation raises OSError, ImportError or others
        yield Finding(
            "torch",
            f"cannot be imported: {error}",
            Verdict.FAIL,
            "Install it again into this environment: pip install -r requirements.txt. On Windows, install the "
            "Microsoft Visual C++ Redistributable.",
        )
        return
    yield Finding("torch build", f"{torch.__version__} from {Path(torch.__file__).parent}")
    yield from _torchvision_line()
    yield Finding(
        "CPU instructions",
        f"{torch.backends.cpu.get_cpu_capability()}, bfloat16 {'computed' if cpu_computes_bfloat16() else 'emulated'}",
        *_bfloat16_note(),
    )
    threads = choose_threads(None, beside_pages=True)
    yield Finding(
        "Threads",
        f"this process uses {torch.get_num_threads()}; runs from this dashboard use {threads} on "
        "the CPU, so that a core is left to the pages",
    )
    yield from gpu_lines()
    yield from compute_lines("cpu")
    for index in range(torch.cuda.device_count()):
        yield from compute_lines(f"cuda:{index}")
    if torch.backends.mps.is_available():
        yield from compute_lines("mps")


def as_text(lines: list[Finding]) -> str:
    """The findings as plain text for a bug report or a terminal."""
    width = max((len(line.name) for line in lines), default=0)
    rows = []
    for line in lines:
        rows.append(f"[{line.verdict:>4}] {line.name:<{width}}  {line.evidence}")
        if line.advice:
            rows.append(f"       {'':<{width}}  -> {line.advice}")
    return "\n".join(rows) + "\n"


def _bfloat16_note() -> tuple[Verdict, str]:
    if cpu_computes_bfloat16():
        return Verdict.OK, ""
    return Verdict.NOTE, (
        "This processor has no bfloat16 instructions: precision bfloat16 works on it, but many times "
        "slower than float32. Precision auto chooses float32."
    )


def _torchvision_line() -> Iterator[Finding]:
    try:
        import torchvision  # noqa: F401
    except Exception as error:  # "operator torchvision::nms does not exist" is a RuntimeError
        yield Finding(
            "torchvision",
            f"cannot be imported: {error}",
            Verdict.FAIL,
            "It was built for another torch. Install both together: pip install -r requirements.txt.",
        )
