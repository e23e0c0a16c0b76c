"""A run, or the form, as PyTorch code: its data set, its network with a table of layers, its loop, the whole script."""

from dataclasses import replace
from functools import lru_cache

import pandas as pd
import streamlit as st

from core.config.train_config import TrainConfig
from core.events import RunStarted
from core.runs.reader import RunView
from dashboard import wording
from dashboard.settings import form_session
from dashboard.shell import torch_ready
from dashboard.train.code_panel import planned

_PARTS = {
    "Network": ("network",),
    "Data set": ("digits", "batches"),
    "Optimizer and schedule": ("optimizer",),
    "Training loop": ("training",),
    "Whole script": (),
}


def code_tab(view: RunView) -> None:
    """The choice of a part, and its lines."""
    if not torch_ready.has_torch():
        st.caption("The code is written with PyTorch at hand, which is being imported.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        part = st.segmented_control(
            "Part",
            list(_PARTS),
            default="Network",
            key="code_part",
            required=True,
            persist_state="session",
            label_visibility="collapsed",
        )
        form, _ = form_session.form_config()
        of_form = st.toggle(
            "Of the form",
            key="code_of_form",
            persist_state="session",
            disabled=form is None,
            help="The code of the run that the form in the sidebar would start, instead of that of the run shown.",
        )
    chosen = form if of_form else None
    config = chosen or view.config
    started = (view.started if chosen is None else None) or planned(config)
    if isinstance(started, str):
        st.caption(wording.plain(started))
        return
    run_id = "new" if chosen else view.info.run_id
    if view.info.parent and chosen is None:
        st.caption(
            f":material/fork_right: This run began with the weights of run {wording.plain(view.info.parent)}; the lines below "
            "begin with weights of their own."
        )
    if part == "Network":
        _network(run_id, config, started)
        return
    st.code(_text(run_id, config, started, part), language="python", line_numbers=part == "Whole script")
    if part == "Data set" and config.pipeline == "memory":
        _as_dataset(run_id, config, started)


def _network(run_id: str, config: TrainConfig, started: RunStarted) -> None:
    from core.model.source import network_source

    st.code(network_source(config), language="python")
    _layers(config)
    with st.expander("How its first weights are drawn, and what stands around it in the script"):
        st.code(_text(run_id, config, started, "Network"), language="python")


# Asked for at each refresh.
@lru_cache(maxsize=32)
def _text(run_id: str, config: TrainConfig, started: RunStarted, part: str) -> str:
    from core.transfer.script.run_script import run_script, script_sections

    if not _PARTS[part]:
        return run_script(run_id, config, started)
    sections = script_sections(run_id, config, started)
    return "\n\n\n".join("\n".join(line.text for line in sections[name]) for name in _PARTS[part])


def _as_dataset(run_id: str, config: TrainConfig, started: RunStarted) -> None:
    """The same digits as a Dataset behind a DataLoader, for who wants to see what tutorials do."""
    with st.expander("The same as a Dataset with a DataLoader"):
        st.caption(
            "What setting *Pipeline* to dataloader trains with: `__len__` says how many digits there are, `__getitem__` makes "
            "one of them ready. The losses differ in the last digits only, since transforms round otherwise."
        )
        lines = _text(run_id, replace(config, pipeline="dataloader"), started, "Data set")
        st.code(lines[lines.index("class Digits(Dataset)") :], language="python")


def _layers(config: TrainConfig) -> None:
    from core.model.layers import layer_rows

    rows, batch = layer_rows(config), config.batch_size
    total, memory = sum(row.flops for row in rows), f"output, {batch} digit{'s' if batch > 1 else ''} (MiB)"
    st.dataframe(
        pd.DataFrame(
            {
                "layer": [row.name for row in rows],
                "kind": [row.kind for row in rows],
                "output shape": [" × ".join(map(str, row.shape)) for row in rows],
                "parameters": [f"{row.parameters:,}" for row in rows],
                "MFLOP": [row.flops / 1e6 for row in rows],
                "share of FLOP (%)": [100 * row.flops / max(1, total) for row in rows],
                memory: [row.output_bytes * batch / 2**20 for row in rows],
                "sees (px)": [row.sees for row in rows],
            }
        ),
        hide_index=True,
        column_config={
            "parameters": st.column_config.TextColumn(alignment="right"),
            "MFLOP": st.column_config.NumberColumn(format="%.3f"),
            "share of FLOP (%)": st.column_config.NumberColumn(format="%.1f"),
            memory: st.column_config.NumberColumn(format="%.2f"),
        },
        alt="The layers of the network",
    )
    st.caption(
        f"In all {sum(row.parameters for row in rows):,} parameters and {total / 1e6:,.2f} MFLOP for the forward pass of one "
        "digit (a multiplication and an addition are two; convolutions and linear layers count), about three times that with "
        "the backward pass. Outputs in float32; the backward pass needs them again. *sees*: side of the square of the image "
        "that one number of the output depends on (receptive field)."
    )
