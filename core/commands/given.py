"""What the commands share: settings from text, and JSON on standard output."""

import json

from core.config.presets import preset_named
from core.config.text import with_texts
from core.config.train_config import TrainConfig
from core.errors import ConfigError


def config_from(preset: str, assignments: list[str]) -> TrainConfig:
    """A preset with `KEY=VALUE` changes. Raises ConfigError naming every unusable one."""
    return with_texts(preset_named(preset), assigned(assignments))


def assigned(assignments: list[str]) -> dict[str, str]:
    """`KEY=VALUE` each, as text. Raises ConfigError for one without "="."""
    texts: dict[str, str] = {}
    for assignment in assignments:
        key, mark, value = assignment.partition("=")
        if not mark:
            raise ConfigError({key: f"write --set {key}=VALUE"})
        texts[key.strip()] = value
    return texts


def print_json(values: dict[str, object]) -> None:
    """One object, on a line of its own."""
    print(json.dumps(values), flush=True)
