"""Settings to text and back: forms, links and `--set` read and write them alike."""

import re
from dataclasses import replace
from typing import Any

from core.config.train_config import KINDS, TrainConfig, settings
from core.errors import ConfigError


def parse_value(name: str, text: str) -> Any:
    """Turn text from a form field, a link or `--set` into the field's value.

    An empty text, "none" and "off" mean None where the field may be empty. Raises ConfigError with the field's name
    for an unknown field and for text that is no such value; limits are left to `TrainConfig.problems`.
    """
    if name not in KINDS:
        raise ConfigError({name: "there is no such setting"})
    kind, stripped = KINDS[name], text.strip()
    if settings()[name].empty is not None and stripped.lower() in ("", "none", "off", "null"):
        return None
    if kind is str:
        return stripped
    if kind is bool:
        if stripped.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            return stripped.lower() in ("true", "yes", "on", "1")
        raise ConfigError({name: f"must be true or false; got {text!r}"})
    try:
        if len(stripped) > _MAX_NUMBER_TEXT:
            raise ValueError
        return _whole(stripped) if kind is int else kind(stripped)
    except (ValueError, OverflowError):
        what = "a whole number" if kind is int else "a number such as 0.001 or 1e-3"
        raise ConfigError({name: f"must be {what}; got {text!r:.60}"}) from None


_MAX_NUMBER_TEXT = 40


def _whole(text: str) -> int:
    """1000, 60,000, 60_000 and 1e3 are whole numbers; 0,5 and 2.5 are none. Raises ValueError."""
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text, re.ASCII):
        text = text.replace(",", "")
    if re.fullmatch(r"[+-]?\d+(\.\d*)?[eE]\+?\d{1,2}", text, re.ASCII) and float(text).is_integer():
        return int(float(text))
    return int(text)


def parse_values(texts: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """`parse_value` for many fields at once: (the values that can be read, field -> why another one cannot)."""
    values: dict[str, Any] = {}
    found: dict[str, str] = {}
    for name, text in texts.items():
        try:
            values[name] = parse_value(name, text)
        except ConfigError as error:
            found.update(error.problems)
    return values, found


def with_texts(base: TrainConfig, texts: dict[str, str]) -> TrainConfig:
    """Settings with those of a form, a link or `--set` in place of their own. Raises one ConfigError that names all that is
    unusable: what cannot be read, and what is out of its limits."""
    values, found = parse_values(texts)
    config = replace(base, **values)
    if found := {**config.problems(), **found}:
        raise ConfigError(found)
    return config


def format_value(value: Any) -> str:
    """Text of a setting that `parse_value` reads back to the same value: 1e-5 stays 1e-5, 0.001 stays 0.001."""
    if value is None:
        return ""
    if isinstance(value, float) and not isinstance(value, bool):
        text = repr(value)
        mantissa, mark, exponent = text.partition("e")
        if mark:
            return f"{mantissa}e{int(exponent)}"
        return text.removesuffix(".0")
    return str(value).lower() if isinstance(value, bool) else str(value)
