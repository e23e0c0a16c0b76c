"""Frozen dataclasses from JSON that anybody may have written: every value's kind and range is checked before it is used."""

import functools
import json
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

R = TypeVar("R")
MAX_NUMBER = 2**53  # what a float and JavaScript still count exactly
MAX_TEXT = 200_000


def json_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises ValueError for anything else, however deeply it is nested."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it holds {type(value).__name__} where an object is expected")
    return value


def record(kind: type[R], values: dict[str, Any]) -> R:
    """A dataclass from values by name. Fields may be numbers, text, bool, a StrEnum, tuples of these, or None.

    Raises:
        ValueError, TypeError: a field is missing or unknown, of another kind, or no number or text that can be shown.
    """
    hints = _hints(kind)
    return kind(**{name: _fitting(name, value, hints[name]) if name in hints else value for name, value in values.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fitting(name: str, value: Any, hint: Any) -> Any:
    if isinstance(hint, UnionType):
        kinds = [one for one in get_args(hint) if one is not NoneType]
        return None if value is None else _fitting(name, value, kinds[0])
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} is {value!r:.40}")
        return tuple(_fitting(name, one, get_args(hint)[0]) for one in value)
    if hint is float and type(value) is float:
        return value  # of any size: a loss that explodes passes 1e30, and is a loss all the same
    if hint in (int, float) and type(value) is int:
        if abs(value) > MAX_NUMBER:
            raise ValueError(f"{name} is too large a number")
        return hint(value)
    if issubclass(hint, StrEnum) and isinstance(value, str):
        return hint(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise TypeError(f"{name} is {value!r:.40}")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise ValueError(f"{name} has {len(value):,} characters")
        value.encode()  # half a surrogate pair cannot be sent to a browser; its error is a ValueError
    return value
