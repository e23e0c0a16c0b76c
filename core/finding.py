"""What a look at something brought to light: one shape for every check, diagnosis and verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What a finding means for a person; in the order in which findings are told."""

    FAIL = "fail"
    """Something does not work, or spoils what comes after it."""
    MENDED = "mended"
    """Would have spoiled it; something took it out already."""
    NOTE = "note"
    """Worth knowing; work goes on without it."""
    OK = "ok"
    """Looked at, and as it should be."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what was looked at, in a few words, such as "Memory" or "pen". evidence: what was found, with its numbers.
        advice: what a person can do; "" when there is nothing to do.
        remedy: the advice as changed settings, name -> value, for one click; empty when no setting mends it. The settings are
            those of whatever was looked at: `TrainConfig` for a run, `Preprocessing` for a drawing.
    """

    name: str
    evidence: str
    verdict: Verdict = Verdict.OK
    advice: str = ""
    remedy: Mapping[str, Any] = field(default_factory=dict)
