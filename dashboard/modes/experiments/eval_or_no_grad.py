"""Is model.eval() the same as torch.no_grad()?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import streamlit as st

from core.modes.copies import some_digits
from core.modes.eval_or_no_grad import Quadrant, two_by_two
from dashboard.modes.code import head_lines
from dashboard.modes.lab import Experiment, Lab, Params, of_kind, points, say, table

_COST_DIGITS = 256


def _controls(lab: Lab) -> Params:
    return {}


def _work(lab: Lab, params: Params) -> Iterator[object]:
    return two_by_two(lab.predictor.model, some_digits(lab.test, _COST_DIGITS))


def _show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: list[Quadrant] = of_kind(results, Quadrant)
    if not found:
        return
    table(
        [
            {
                "": f"**{'train()' if one.train_mode else 'eval()'}** {'' if one.gradients else 'no_grad()'}",
                "correct": f"{100 * one.accuracy:.1f} %",
                "logits off by": f"{one.largest_difference:.2f}" if np.isfinite(one.largest_difference) else "no number",
                "statistics": f"moved {one.statistics_moved:.2g}" if one.statistics_moved else "still",
                "kept, MiB": f"{one.saved_bytes / 2**20:.1f}",
                "ms": f"{1000 * one.seconds:.0f}",
            }
            for one in found
        ]
    )
    by_place = {(one.train_mode, one.gradients): one for one in found}
    if len(by_place) < 4:
        return
    kept, train = by_place[False, True], by_place[True, False]
    st.caption(
        "Columns: digits answered right; the largest change of a logit against eval mode; how far running means or "
        "variances moved; activations kept for backward; time of one forward, the quickest of several."
    )
    say(
        f"Two switches for two things, measured just now on one batch of {_COST_DIGITS} digits. `eval()` changes what layers "
        f"compute: the answers ({points(train.accuracy - kept.accuracy)} in train mode) and whether BatchNorm's statistics "
        f"move. `no_grad()` changes what autograd remembers: {kept.saved_bytes / 2**20:.2f} MiB of activations or nothing. "
        "Neither does the other's work; for answers use both."
    )


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Mode and gradients are two switches."""
    return (
        head_lines(lab, 256)
        + """
expected = model.eval()(images).detach()
for train_mode in (False, True):
    for gradients in (False, True):
        twin = copy.deepcopy(model).train(train_mode).requires_grad_(True)
        before = copy.deepcopy(twin.state_dict())
        kept = {}

        def keep(value):
            kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            return value

        weights = {value.untyped_storage().data_ptr() for value in twin.parameters()}
        with torch.set_grad_enabled(gradients), torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            logits = twin(images)
        moved = any(not torch.equal(before[name], value) for name, value in twin.state_dict().items())
        print(
            "train()" if train_mode else "eval()", "with gradients" if gradients else "no_grad()",
            "| correct", (logits.argmax(1) == labels).float().mean().item(),
            "| statistics moved", moved,
            "| kept for backward", sum(size for place, size in kept.items() if place not in weights), "bytes",
        )
"""
    )


EVAL_OR_NO_GRAD = Experiment(
    "eval or no_grad", "Is model.eval() the same as torch.no_grad()?", "", _controls, _work, _show, pytorch_lines
)
