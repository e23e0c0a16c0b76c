"""One setting's description, and the checks that follow from it."""

import math
import re
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, get_args


@dataclass(frozen=True)
class Setting:
    """What the form and the command line need to know about one field.

    Attributes:
        label: sentence-case name with its unit.
        help: one or two sentences for a learner.
        group: the form's section; see `GROUPS`.
        choices: allowed values, in the order shown; empty when any value of the type may do.
        low, high: inclusive limits of a number; None where there is none.
        above: an exclusive lower limit (a learning rate of 0 is not allowed).
        empty: what leaving the field empty (None) means; None when it may not be empty.
        check: of a text without choices: what is wrong with it, in words; None when nothing is.
    """

    label: str
    help: str
    group: str
    choices: Collection[str] = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    empty: str | None = None
    check: Callable[[str], str | None] | None = None


GROUPS = ("Main", "Data", "Model", "Optimization", "Augmentation", "Evaluation", "Saving", "Hardware")


def described(default: Any, label: str, help: str, group: str, **limits: Any) -> Any:
    """A dataclass field with its description; `limits` are the other attributes of Setting."""
    return field(default=default, metadata={"setting": Setting(label, help, group, **limits)})


def plain_kind(annotation: Any) -> type:
    """The type that an annotation allows besides None."""
    parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return next(part for part in parts if part is not type(None))


def field_problem(value: Any, setting: Setting, kind: type) -> str | None:
    """What is wrong with one value, in words; None when nothing is."""
    if value is None:
        return None if setting.empty is not None else "must not be empty"
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
        return f"must be {words}; got {value!r:.60}"
    if setting.choices and value not in setting.choices:
        return f"must be one of {', '.join(setting.choices)}; got {value!r:.60}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number; got {value}"
    if setting.check is not None:
        return setting.check(str(value))
    return _limit_problem(value, setting)


def _limit_problem(value: Any, setting: Setting) -> str | None:
    if setting.above is not None and value <= setting.above:
        return f"must be greater than {setting.above:g}; got {value}"
    if setting.low is not None and setting.high is not None and not setting.low <= value <= setting.high:
        return f"must be between {setting.low:,g} and {setting.high:,.10g}; got {value}"
    if setting.high is not None and value > setting.high:
        return f"must be at most {setting.high:,.10g}; got {value}"
    return None


_INDEX = re.compile(r"\d{1,3}", re.ASCII)


def device_problem(value: str) -> str | None:
    """What is wrong with the name of a device, in words; None when it may be one."""
    kind, mark, index = value.partition(":")
    if (kind in ("auto", "cpu", "mps") and not mark) or (kind == "cuda" and (not mark or _INDEX.fullmatch(index))):
        return None
    return f"must be auto, cpu, cuda, cuda:0 (or another number) or mps; got {value!r:.60}"
