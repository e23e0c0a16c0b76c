"""A network as Python lines of its own: the very code of its builder, so any structure, and nothing of this project."""

import ast
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from core.config.train_config import TrainConfig
from core.errors import ConfigError
from core.model.networks import BUILDERS, Dropout, outline


def has_own_classes(config: TrainConfig) -> bool:
    """Whether the network has layers that are neither PyTorch's nor this project's Dropout: such a model cannot be pickled for
    others."""
    return any(
        not _is_foreign(type(module).__module__) for module in outline(config).modules() if not isinstance(module, Dropout)
    )


@functools.lru_cache(maxsize=32)
def network_source(config: TrainConfig) -> str:
    """Lines after which `model` is the network, with PyTorch's usual first weights. They expect `torch`, `nn` and a class
    `Dropout` (`nn.Dropout`, or one of the same arguments).

    Raises:
        ConfigError: its builder uses what cannot be written down.
    """
    builder = BUILDERS[config.model]
    written = _Written(config.model)
    written.add(builder)
    used = sorted({name for part in written.parts for name in _attributes_of_config(part)})
    given = ", ".join(f"{name}={getattr(config, name)!r}" for name in used)
    lines = [*sorted(written.imports), *(["from types import SimpleNamespace"] if used else [])]
    head = "\n".join(lines) + "\n\n\n" if lines else ""
    settings = f"SimpleNamespace({given})" if used else "None"
    return head + "\n\n\n".join(written.parts) + f"\n\n\nmodel = {builder.__name__}({settings})"


class _Written:
    """Sources of functions and classes, each after those it needs."""

    def __init__(self, model: str) -> None:
        self.model, self.parts, self.imports, self._seen = model, [], set[str](), set[str]()

    def add(self, what: Callable[..., Any]) -> None:
        """Write a function or class of ours, and what it refers to."""
        try:
            source = inspect.getsource(what).rstrip()
        except (OSError, TypeError) as error:
            raise self._problem(what.__name__, str(error)) from None
        # The one annotation that would need this project.
        source = re.sub(r": TrainConfig\b", "", source)
        self._seen.add(what.__name__)
        names = vars(sys.modules[what.__module__])
        for name in _loaded(source):
            if name in names and name not in self._seen and name not in ("torch", "nn", "Dropout"):
                self._seen.add(name)
                self._refer(name, names[name])
        self.parts.append(source)

    def _refer(self, name: str, value: Any) -> None:
        home = getattr(value, "__module__", None)
        if isinstance(value, types.ModuleType):
            self.imports.add(f"import {value.__name__} as {name}")
        elif isinstance(value, int | float | str | bool | tuple | type(None)):
            self.parts.append(f"{name} = {value!r}")
        elif inspect.isclass(value) or inspect.isfunction(value):
            if home is not None and _is_foreign(home):
                alias = f" as {name}" if value.__name__ != name else ""
                self.imports.add(f"from {home} import {value.__name__}{alias}")
            else:
                self.add(value)
        else:
            raise self._problem(name, f"it is a {type(value).__name__}")

    def _problem(self, name: str, why: str) -> ConfigError:
        return ConfigError({"model": f"{self.model} cannot be written as lines of Python: {name} has no source ({why})"})


def _is_foreign(module: str) -> bool:
    """Of PyTorch or the standard library, which a reader of the lines has."""
    return module.split(".")[0] in {"torch", *sys.stdlib_module_names}


def _loaded(source: str) -> list[str]:
    return list(dict.fromkeys(node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)))


def _attributes_of_config(source: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "config"
    }
