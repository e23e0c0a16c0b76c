"""A network as Python lines of its own: a class, or the very code of its builder, so any structure; nothing of this project."""

import ast
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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

    Layers one after the other are written as a class with `__init__` and `forward`; of any other structure the very code of its
    builder.

    Raises:
        ConfigError: its builder uses what cannot be written down.
    """
    if source := _as_class(config):
        return source
    builder = BUILDERS[config.model]
    written = _Written(config.model)
    written.add(builder)
    used = sorted({name for part in written.parts for name in _attributes_of_config(part)})
    given = ", ".join(f"{name}={getattr(config, name)!r}" for name in used)
    lines = [*sorted(written.imports), *(["from types import SimpleNamespace"] if used else [])]
    head = "\n".join(lines) + "\n\n\n" if lines else ""
    settings = f"SimpleNamespace({given})" if used else "None"
    return head + "\n\n\n".join(written.parts) + f"\n\n\nmodel = {builder.__name__}({settings})"


def _as_class(config: TrainConfig) -> str:
    """A chain of named layers as a class; "" for any other network, and for a layer whose words do not make it again."""
    model = outline(config)
    if type(model) is not nn.Sequential or not _is_plain_chain(model):
        return ""
    made, called = [], []
    x = torch.empty(1, 1, 28, 28, device="meta")
    model.eval()
    for name, layer in model.named_children():
        call = _call_of(layer)
        if not name.isidentifier() or not call:
            return ""
        x = layer(x)
        made.append(f"        self.{name} = {call}")
        called.append(f"        x = self.{name}(x)  # ({', '.join(('N', *map(str, x.shape[1:])))})")
    name = "".join({"cnn": "CNN", "mlp": "MLP"}.get(part, part.capitalize()) for part in config.model.split("_"))
    lines = [
        f"class {name}(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *made,
        "",
        "    def forward(self, x):  # (N, 1, 28, 28)",
        *called,
        "        return x",
        "",
        "",
        f"model = {name}()",
    ]
    return "\n".join(lines)


def _is_plain_chain(model: nn.Sequential) -> bool:
    """Whether its layers say all there is of it: none stands twice, shares its weights, or holds some still."""
    layers = [layer for _, layer in model.named_children()]
    weights = sum(len(list(layer.parameters())) for layer in layers)
    return (
        len(layers) == len(model)
        and len(list(model.parameters())) == weights
        and all(weight.requires_grad for weight in model.parameters())
    )


def _call_of(layer: nn.Module) -> str:
    """The call that makes a layer of PyTorch's, without arguments that are the defaults; "" where its words do not tell."""
    kind = type(layer)
    if any(True for _ in layer.children()) or not (kind is Dropout or getattr(nn, kind.__name__, None) is kind):
        return ""
    name = "Dropout" if kind is Dropout else f"nn.{kind.__name__}"
    try:
        call = ast.parse(f"f({layer.extra_repr()})", mode="eval").body
        assert isinstance(call, ast.Call)
        usual = inspect.signature(kind).parameters
        given = [ast.literal_eval(one) for one in call.args]
        named = {one.arg or "": ast.literal_eval(one.value) for one in call.keywords}
        kept = {name: _single(value) for name, value in named.items() if _single(usual[name].default) != _single(value)}
        words = ", ".join([*map(repr, given), *(f"{name}={value!r}" for name, value in kept.items())])
        with torch.device("meta"):
            again = kind(*given, **kept)
    except (SyntaxError, ValueError, KeyError, TypeError):
        return ""
    return f"{name}({words})" if repr(again) == repr(layer) else ""


def _single(value: Any) -> Any:
    """(3, 3) as 3."""
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


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
