"""Which operation of the forward pass a NaN of the backward pass belongs to, by the graph that autograd keeps."""

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

# PyTorch's words in anomaly mode (torch/csrc/autograd/engine.cpp).
_FOUND = re.compile(r"Function '(\w+)' returned nan values")


def failed_operation(error: RuntimeError, loss: Tensor, model: nn.Module) -> str | None:
    """The operation that anomaly mode found, in words with the layer it belongs to; None when the error is another one.

    The forward pass's lines are added to the error as a note, so that they stand in its traceback.

    Args:
        loss: what `backward` was called on; its graph may be used up, it is only walked.
    """
    match = _FOUND.search(str(error))
    if match is None:
        return None
    name = re.sub(r"Backward\d*$", "", match[1])
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    nodes = [one for one in _from(loss.grad_fn) if one.name() == match[1]]
    names = {id(parameter): name.rpartition(".")[0] for name, parameter in model.named_parameters()}
    if len(nodes) != 1:  # PyTorch names the kind of operation, and there may be several of them
        layers = [layer for one in reversed(nodes) if (layer := _around(one, names))]
        return f"{plain} (one of those {', '.join(layers)})" if layers else plain
    node = nodes[0]
    if lines := (getattr(node, "metadata", None) or {}).get("traceback_"):
        error.add_note("The forward pass that this operation belongs to:\n" + "".join(lines))
    around = _around(node, names)
    return f"{plain}{',' if around.startswith('which') else ''} {around}" if around else plain


def _around(node: Any, names: dict[int, str]) -> str:
    """The layer that an operation is of, or the one before it, in words; "" when there is none."""
    if own := [layer for one, _ in node.next_functions if (layer := _layer(one, names))]:
        return f"in the layer {own[0]}"
    before = next((layer for one in _from(node) if (layer := _layer(one, names))), "")
    return f"which follows the layer {before}" if before else ""


def _from(start: Any) -> Iterator[Any]:
    """A node and all before it in the forward pass, the nearest first."""
    todo, seen = deque([start]), set()
    while todo:
        node = todo.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo += [one for one, _ in node.next_functions]


def _layer(node: Any, names: dict[int, str]) -> str:
    """The layer whose parameter a leaf of the graph is; "" for other nodes."""
    return names.get(id(getattr(node, "variable", None)), "")
