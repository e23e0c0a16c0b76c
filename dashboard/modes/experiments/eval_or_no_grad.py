"""Is model.eval() the same as torch.no_grad()?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import streamlit as st

from core.modes.copies import some_digits
from core.modes.eval_or_no_grad import Quadrant, two_by_two
from core.status import Progress
from dashboard.modes.code import head_lines
from dashboard.modes.lab import Experiment, Lab, Params, points, table

_COST_DIGITS = 256


def _controls(lab: Lab) -> Params:
    return {}


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[Quadrant, ...]]:
    return two_by_two(lab.predictor.model, some_digits(lab.test, _COST_DIGITS))


def _show(lab: Lab, params: Params, found: tuple[Quadrant, ...]) -> str:
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
        return ""
    kept, train = by_place[False, True], by_place[True, False]
    st.caption(
        "Columns: digits answered right; the largest change of a logit against eval mode; how far running means or "
        "variances moved; activations kept for backward; time of one forward, the quickest of several."
    )
    return (
        f"Two switches for two things, measured just now on one batch of {_COST_DIGITS} digits. `eval()` changes what layers "
        f"compute: the answers ({points(train.accuracy - kept.accuracy)} in train mode) and whether BatchNorm's statistics "
        f"move. `no_grad()` changes what autograd remembers: {kept.saved_bytes / 2**20:.2f} MiB of activations or nothing. "
        "Neither does the other's work; for answers use both."
    )


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Mode and gradients are two switches."""
    return (
        head_lines(lab, _COST_DIGITS)
        + """
expected = model(images).detach()
for train_mode in (False, True):
    for gradients in (False, True):
        copied = copy.deepcopy(model).train(train_mode).requires_grad_(True)
        reseed_dropout(copied, 0, 0)
        before = {name: value.clone() for name, value in copied.named_buffers() if name.split(".")[-1].startswith("running")}
        known = {value.untyped_storage().data_ptr() for value in (*copied.parameters(), *copied.buffers(), images)}
        kept = {}

        def keep(value):
            storage = value.untyped_storage()
            if storage.data_ptr() not in known:
                kept[storage.data_ptr()] = storage.nbytes()
            return value

        with torch.set_grad_enabled(gradients), torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            logits = copied(images)
        after = dict(copied.named_buffers())
        print(
            "train()" if train_mode else "eval()", "with gradients" if gradients else "no_grad()",
            "correct:", (logits.argmax(1) == labels).float().mean().item(),
            "logits off by:", (logits - expected).abs().max().item(),
            "statistics moved:", max((float((after[name] - value).abs().max()) for name, value in before.items()), default=0.0),
            "bytes kept for backward:", sum(kept.values()),
        )
"""
    )


EVAL_OR_NO_GRAD = Experiment(
    "eval or no_grad", "Is model.eval() the same as torch.no_grad()?", "", _controls, _work, _show, pytorch_lines
)
