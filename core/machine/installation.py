"""Python, its environment, the packages and the system under them: what is installed, against what was tested together."""

import os
import platform
import site
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from core.finding import Finding, Verdict

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements.txt"
TESTED_PYTHON = ((3, 11), (3, 11))
# PyTorch's wheels for Linux are manylinux_2_28.
_LEAST_GLIBC = (2, 28)
_NEW_ENVIRONMENT = "python3.11 -m venv .venv && .venv/bin/pip install -r requirements.txt"
OFFLINE = (
    "Without a network: on a machine that has one, with the same system and Python, `pip download -r requirements.txt "
    "-d wheels`; here `pip install --no-index --find-links wheels -r requirements.txt`. A mirror of the package index: "
    "`pip install -i ADDRESS`."
)


def python_line() -> Finding:
    """Which Python runs, and whether it is one that was tested."""
    found = f"{platform.python_version()} in {sys.prefix}"
    if sys.maxsize < 2**32:
        return Finding("Python", found, Verdict.FAIL, "This is a 32-bit Python; PyTorch needs a 64-bit one.")
    if sys.version_info[:2] < TESTED_PYTHON[0]:
        return Finding("Python", found, Verdict.FAIL, f"Too old: 3.11 is needed. {python_advice()}")
    if sys.version_info[:2] > TESTED_PYTHON[1]:
        return Finding("Python", found, Verdict.NOTE, "This dashboard was tested with Python 3.11.")
    return Finding("Python", found)


def python_advice() -> str:
    """How to get Python 3.11 on this system, which may have none in its own packages."""
    name = _system().lower()
    if "kylin" in name or "uos" in name or "openeuler" in name:
        return (
            "This system's own packages have an older one. Miniforge brings it (`conda create -n digitlab python=3.11`), "
            "on x86-64 and ARM."
        )
    if "ubuntu" in name:
        return (
            "Ubuntu's own packages may have none: add the archive ppa:deadsnakes/ppa and install python3.11-venv, or use "
            "Miniforge (`conda create -n digitlab python=3.11`)."
        )
    return "python.org, your system's packages or Miniforge (`conda create -n digitlab python=3.11`) have it."


def environment_line() -> Finding:
    """Where packages are installed: an environment of its own, conda's base, or the system's Python."""
    name = "Environment"
    if (Path(sys.prefix) / "conda-meta").is_dir():
        if (Path(sys.prefix) / "envs").is_dir() or (Path(sys.prefix) / "condabin").is_dir():
            return Finding(
                name,
                f"conda's base environment in {sys.prefix}",
                Verdict.NOTE,
                "Packages of all projects meet here, and so do their conflicts. Make one for this project: "
                "`conda create -n digitlab python=3.11`, then pip install in it.",
            )
        return Finding(name, f"conda environment {Path(sys.prefix).name}")
    if sys.prefix == sys.base_prefix:
        return Finding(
            name,
            "none: the system's own Python",
            Verdict.NOTE,
            f"Other programs use these packages, too. Make an environment: {_NEW_ENVIRONMENT}.",
        )
    if os.environ.get("PYTHONPATH"):
        return Finding(
            name,
            f"venv in {sys.prefix}, and PYTHONPATH is set",
            Verdict.NOTE,
            "Packages from PYTHONPATH come before those of the environment: unset it when versions do not fit.",
        )
    if site.ENABLE_USER_SITE:
        return Finding(
            name,
            f"venv in {sys.prefix} that sees packages outside of it",
            Verdict.NOTE,
            f"Another version there may hide a tested one. A closed one: {_NEW_ENVIRONMENT}.",
        )
    return Finding(name, f"venv in {sys.prefix}")


def system_line() -> Finding:
    """The operating system: WSL, containers and old C libraries are told."""
    found, release = f"{_system()} ({platform.platform()})", platform.release().lower()
    if "microsoft" in release and "wsl2" not in release:
        return Finding(
            "System",
            f"{found}, WSL 1",
            Verdict.NOTE,
            "WSL 1 has no GPU and a slow disk. In Windows: `wsl --set-version NAME 2`.",
        )
    if is_wsl():
        found += ", WSL 2"
    elif Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        found += ", in a container"
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if library == "glibc" and numbers and numbers < _LEAST_GLIBC:
        return Finding(
            "System",
            found,
            Verdict.FAIL,
            f"Its C library (glibc {version}) is too old for PyTorch, which needs "
            f"{'.'.join(map(str, _LEAST_GLIBC))}. Take a newer system, or a container of one.",
        )
    return Finding("System", found)


def is_wsl() -> bool:
    """Linux within Windows."""
    return "microsoft" in platform.release().lower()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def tested_versions() -> dict[str, str]:
    """Package -> the version that was tested, as requirements.txt says; {} without that file."""
    try:
        lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("#")[0].strip().partition("==") for line in lines)
    return {name: version for name, mark, version in pairs if mark}


def package_lines() -> Iterator[Finding]:
    """Each package that is needed, the tested version beside another one; then what does not fit together."""
    for name, tested in tested_versions().items():
        yield package_line(name, tested)
    found = conflicts()
    if not found:
        yield Finding("Conflicts", "none: each package finds the versions that it asks for")
        return
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    yield Finding(
        "Conflicts",
        "; ".join(found[:5]) + more,
        Verdict.FAIL,
        f"Install what was tested together, in an environment of its own: {_NEW_ENVIRONMENT}.",
    )


def package_line(name: str, tested: str) -> Finding:
    """One package against the version that was tested; a build's mark, such as +cpu, does not count."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", Verdict.FAIL, f"pip install -r requirements.txt in this environment. {OFFLINE}")
    if version.partition("+")[0] != tested:
        return Finding(
            name,
            f"{version}; tested with {tested}",
            Verdict.NOTE,
            f"If something fails, install the tested one: pip install {name}=={tested}.",
        )
    return Finding(name, version)


def conflicts() -> list[str]:
    """What a package that is needed here asks for, directly or through others, and does not find; each in words."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    found, seen, waiting = [], set(), list(tested_versions())
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            wanted = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue  # told by whoever asked for it
        for text in wanted:
            try:
                need = Requirement(text)
            except InvalidRequirement:
                continue
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            waiting.append(need.name)
            try:
                version = metadata.version(need.name)
            except metadata.PackageNotFoundError:
                found.append(f"{name} needs {need.name}, which is not installed")
                continue
            if not need.specifier.contains(version, prereleases=True):
                found.append(f"{name} needs {need.name}{need.specifier}, {version} is here")
    return found
