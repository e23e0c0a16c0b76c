"""The password of this server's controls, and how often it may be tried. No Streamlit: it is asked before it begins.

What cannot be read is never taken for "no password": a missing quote in a file would then open the controls to everybody.
"""

import os
import tomllib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from time import monotonic
from typing import Any

VARIABLE, SECRET = "DIGIT_LAB_PASSWORD", "controls_password"
SECRETS = (Path.home() / ".streamlit" / "secrets.toml", Path(".streamlit") / "secrets.toml")
"""Streamlit's places, the later one counts more."""
_VARIABLES = (VARIABLE, "DIGIT_LAB_DATA", "DIGIT_LAB_RUNS", "DIGIT_LAB_MAX_GIB", "DIGIT_LAB_ALLOW_PICKLE")


@dataclass(frozen=True)
class Policy:
    """Who may control.

    Attributes:
        password: what unlocks the controls; None when nothing does, or nothing needs to.
        problem: why the controls are locked for everybody, in words; "" when they are not.
    """

    password: str | None = None
    problem: str = ""

    @property
    def is_open(self) -> bool:
        """Everybody who can connect may control."""
        return self.password is None and not self.problem

    @property
    def words(self) -> str:
        """For the terminal in which the server is started."""
        if self.problem:
            return f"Controls: LOCKED FOR EVERYBODY. {self.problem}"
        return "Controls: open to everybody who can connect." if self.is_open else "Controls: locked by a password."


def read_policy(secrets: tuple[Path, ...] = SECRETS) -> Policy:
    """What the environment and the secrets say now."""
    if (given := os.environ.get(VARIABLE)) is not None:
        return (
            Policy(given)
            if given.strip()
            else Policy(problem=f"{VARIABLE} is set, but empty. Give it a password, or unset it.")
        )
    if wrong := [name for name in os.environ if name not in _VARIABLES and get_close_matches(name, [VARIABLE], 1, 0.85)]:
        return Policy(problem=f"There is a variable {wrong[0]}; the password's name is {VARIABLE}.")
    found = Policy()
    for path in secrets:
        found = _from_file(path) or found
    return found


def _from_file(path: Path) -> Policy | None:
    """What a file says of the password; None when there is no such file, or nothing about a password in it."""
    try:
        with path.open("rb") as stream:
            values = tomllib.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Policy(problem=f"{path} cannot be read ({error}). Mend or remove it.")
    given = values.get(SECRET)
    if given is not None:
        if isinstance(given, str | int) and not isinstance(given, bool) and str(given).strip():
            return Policy(str(given))
        return Policy(problem=f"{SECRET} in {path} is no password. Put one in quotes.")
    for name, where in _names(values):
        if name == SECRET:
            return Policy(problem=f"{SECRET} stands in the section [{where}] of {path}; it belongs before all sections.")
        if get_close_matches(name, [SECRET], 1, 0.75):
            return Policy(problem=f"{path} has a {name}; the password's name is {SECRET}.")
    return None


def _names(values: dict[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        yield name, where
        if isinstance(value, dict):
            yield from _names(value, f"{where}.{name}".lstrip("."))


@dataclass
class CurrentPolicy:
    """The policy of this process. Once there was a password it never falls back to none: a file that is just being written, or
    was removed by mistake, opens nothing."""

    secrets: tuple[Path, ...] = SECRETS
    _last: Policy | None = None
    _stamp: object = None

    def now(self) -> Policy:
        """Read anew only when the environment or a file has changed."""
        stamp = (os.environ.get(VARIABLE), *(_modified(path) for path in self.secrets))
        if self._last is None or stamp != self._stamp:
            found = read_policy(self.secrets)
            known = self._last.password if self._last else None
            if found.password is None and known is not None:
                found = Policy(known)
            self._last, self._stamp = found, stamp
        return self._last


def _modified(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@dataclass
class Tries:
    """How often a password may be tried: by one tab, from one address, and on the whole server, in a second.

    A tab that tries more often is refused before it counts for its address, so one tab cannot lock out the others.
    """

    tab: int = 1
    address: int = 5
    server: int = 20
    _at: dict[object, deque[float]] = field(default_factory=dict)

    def allow(self, tab: str, address: str, now: float | None = None) -> bool:
        """Count a try; False when it comes too soon and must not be looked at."""
        now = monotonic() if now is None else now
        for key in [key for key, moments in self._at.items() if not moments or moments[-1] < now - 1]:
            del self._at[key]
        wanted = ((("tab", tab), self.tab), (("address", address), self.address), ("server", self.server))
        for key, most in wanted:
            moments = self._at.setdefault(key, deque())
            while moments and moments[0] < now - 1:
                moments.popleft()
            if len(moments) >= most:
                return False
        for key, _ in wanted:
            self._at[key].append(now)
        return True
