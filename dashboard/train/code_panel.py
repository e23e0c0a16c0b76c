"""The training loop of a run beside its curves: the exported script's own lines, each tied to what it caused."""

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from core.config.train_config import TrainConfig
from core.errors import DeviceError
from core.events import RunStarted
from core.runs.reader import RunView
from dashboard import wording
from dashboard.shell import torch_ready

_STYLE = """
.digit-lab-code { position: sticky; top: 3.75rem; color: var(--st-text-color, inherit); border-radius: 0.5rem;
  border: 1px solid rgba(128, 128, 128, 0.3); font-family: var(--st-code-font, monospace); font-size: 0.75rem; }
.digit-lab-code .lines { padding: 0.4rem 0; overflow-x: auto; max-height: calc(100vh - 12rem); }
.digit-lab-code .line { display: flex; line-height: 1.45; outline-offset: -2px; }
.digit-lab-code .line[data-does] { cursor: default; }
.digit-lab-code .line.lit { background: rgba(58, 143, 208, 0.2); }
.digit-lab-code .share { flex: 0 0 3.4rem; text-align: right; padding-right: 0.5rem; opacity: 0.85;
  background: linear-gradient(to left, rgba(224, 138, 0, 0.45) calc(100% * var(--share, 0)), transparent 0); }
.digit-lab-code code { white-space: pre-wrap; padding: 0 0.4rem; background: none; color: inherit; font-size: inherit;
  overflow-wrap: anywhere; }
.digit-lab-code .words { border-bottom: 1px solid rgba(128, 128, 128, 0.3); padding: 0.35rem 0.6rem; min-height: 3.2rem;
  font-family: var(--st-font, sans-serif); font-size: 0.8rem; }
.digit-lab-code :is(.k, .kn, .kc, .ow) { color: var(--st-violet-text-color, #8a5cd0); }
.digit-lab-code :is(.s1, .s2, .sa, .sd) { color: var(--st-green-text-color, #12a07a); }
.digit-lab-code :is(.mi, .mf) { color: var(--st-blue-text-color, #3a8fd0); }
.digit-lab-code .c1 { opacity: 0.65; }
.digit-lab-charts figure.lit { outline: 2px solid #3a8fd0; outline-offset: 4px; border-radius: 4px; }
"""


@cache
def _component() -> Callable[..., Any]:
    return component(
        "digit_lab_code",
        html='<div class="digit-lab-code" role="region" aria-label="The training loop of this run"><div class="words" '
        'role="status"></div><div class="lines"></div></div>',
        css=_STYLE,
        js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
        isolate_styles=False,
    )


def code_panel(view: RunView) -> None:
    """The panel; redrawn at each refresh, when only its numbers change."""
    if not torch_ready.has_torch():
        st.caption("The code is written with PyTorch at hand, which is being imported.")
        return
    from dashboard.train.code_facts import facts, loop_lines

    started = view.started or planned(view.config)
    if isinstance(started, str):
        st.caption(wording.plain(started))
        return
    lines = loop_lines(view.info.run_id, view.config, started)
    _component()(
        key="code_panel",
        data={
            "version": zlib.crc32("\n".join(html for _, html in lines).encode()),
            "lines": [{"html": html, "does": line.does} for line, html in lines],
            "facts": {
                does: {"share": fact.share, "words": fact.words, "charts": fact.charts} for does, fact in facts(view).items()
            },
        },
    )


def planned(config: TrainConfig) -> RunStarted | str:
    """What auto settings would become here; why the run could not begin, in words."""
    from core.transfer.script.run_script import as_it_would_start

    try:
        return as_it_would_start(config, beside_pages=True)
    except DeviceError as error:
        return str(error)
