"""Which runs a line of words and conditions means, such as `mlp learning_rate<0.01 status=failed -homework`."""

import operator
import re
from collections.abc import Callable, Sequence
from functools import partial

from core.config.text import format_value, parse_value
from core.config.train_config import settings
from core.errors import ConfigError
from core.runs.index import RESULTS, RunRow

MAX_QUERY = 200
NAMES = {"lr": "learning_rate", "batch": "batch_size", "accuracy": "test_accuracy", "images/s": "images_per_second"}
"""Short names, and what they stand for."""
_WORD = re.compile(r'-?[\w/]+(?:<=|>=|!=|=|<|>)"[^"]*"|-?"[^"]*"|\S+')
_CONDITION = re.compile(r"([\w/]+)(<=|>=|!=|=|<|>)(.+)")
_COMPARE = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
_TEXTS: dict[str, Callable[[RunRow], str]] = {
    "status": lambda row: row.info.status,
    "preset": lambda row: row.info.preset or "",
    "parent": lambda row: row.info.parent or "",
    "id": lambda row: row.run_id,
    "name": lambda row: row.notes.name,
}
Test = Callable[[RunRow], bool]


def search(rows: Sequence[RunRow], query: str) -> tuple[list[RunRow], list[str]]:
    """(rows that fit all words of a query, words that fit no row at all).

    A word fits where it occurs in id, name, tags, note, status, preset or settings; in quotes it may have blanks. `name=value`
    (also != < > <= >=) compares a setting, a result, the status, preset, parent, id or name by its value: 1e-2 is 0.01, and
    1 is not 16. With - before it a word must not fit.
    """
    tests = [_test_of(word) for word in _WORD.findall(query[:MAX_QUERY].lower())]
    found = [row for row in rows if all(test(row) != unwanted for _, test, unwanted in tests)]
    return found, [word for word, test, unwanted in tests if not unwanted and not any(map(test, rows))]


def _test_of(word: str) -> tuple[str, Test, bool]:
    unwanted = word.startswith("-") and len(word) > 1
    plain = word[1:] if unwanted else word
    if match := _CONDITION.fullmatch(plain):
        name, sign, value = match[1], match[2], match[3].strip('"')
        name = NAMES.get(name, name)
        if name == "tag":
            return word, lambda row: (value in map(str.lower, row.notes.tags)) == (sign == "="), unwanted
        if name in _TEXTS and sign in ("=", "!="):
            return word, lambda row: _COMPARE[sign](_TEXTS[name](row).lower(), value), unwanted
        if name in settings():
            return word, _setting_test(name, sign, value), unwanted
        if name in RESULTS:
            return word, _result_test(name, sign, value), unwanted
    text = plain.strip('"')
    return word, lambda row: text in row.text, unwanted


def _setting_test(name: str, sign: str, value: str) -> Test:
    try:
        wanted = parse_value(name, value)
    except ConfigError:
        return lambda row: False  # the word is named as one that fits nothing
    return partial(_compared, lambda row: getattr(row.config, name) if row.config else _UNKNOWN, sign, wanted)


def _result_test(name: str, sign: str, value: str) -> Test:
    try:
        wanted = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        return lambda row: False
    return partial(_compared, lambda row: _UNKNOWN if (known := row.result(name)) is None else known, sign, wanted)


_UNKNOWN = object()


def _compared(get: Callable[[RunRow], object], sign: str, wanted: object, row: RunRow) -> bool:
    """What is not known fits nothing; what has no order, such as a name or an empty setting, is neither less nor more."""
    known = get(row)
    if known is _UNKNOWN:
        return False
    if sign in ("=", "!="):
        return bool(_COMPARE[sign](format_value(known), format_value(wanted)))
    numbers = isinstance(known, int | float) and isinstance(wanted, int | float)
    return numbers and bool(_COMPARE[sign](known, wanted))
