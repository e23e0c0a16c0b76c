"""What can be taken away from a run: metrics, charts, its script, its weights."""

import streamlit as st

from core.runs.folder import RunFolder
from core.runs.reader import RunView
from core.transfer.metrics_files import metrics_csv
from dashboard import wording
from dashboard.charts import session as charts_session
from dashboard.models import model_session
from dashboard.shell import torch_ready
from dashboard.shell.policy_session import exported, may_control
from dashboard.train.report import report_html
from dashboard.wording import disk_words


def downloads(snapshot: RunView, parent: RunView | None) -> None:
    """Buttons for what can be taken away from a run."""
    run_id, view, locked = snapshot.info.run_id, charts_session.charts_view(), not may_control()
    with st.container(horizontal=True):
        st.download_button(
            "Metrics (CSV)",
            exported(lambda: metrics_csv(snapshot)),
            f"{run_id}-steps.csv",
            "text/csv",
            on_click="ignore",
            disabled=locked or not len(snapshot.steps),
        )
        _weights(snapshot)
        st.download_button(
            "Settings (JSON)",
            snapshot.config.to_json(),
            f"{run_id}-config.json",
            "application/json",
            on_click="ignore",
            disabled=locked,
        )
        _script(snapshot)
        st.download_button(
            "Report (HTML)",
            exported(lambda: report_html(snapshot, view, parent).encode()),
            f"{run_id}-report.html",
            "text/html",
            on_click="ignore",
            disabled=locked or not len(snapshot.steps),
        )

    st.caption(disk_words(RunFolder.of(run_id).path))


def _script(snapshot: RunView) -> None:
    """The run as one Python file."""
    info, started = snapshot.info, snapshot.started
    words = "One Python file with nothing of Digit Lab in it: PyTorch's own calls only, and the same losses to the last bit."
    if info.parent or not started:
        words = "Only for runs that were trained from weights of their own."
    can = bool(started and torch_ready.has_torch() and not info.parent and may_control())

    def text() -> bytes:
        from core.transfer.script.run_script import run_script

        assert started is not None
        return run_script(info.run_id, snapshot.config, started).encode()

    st.download_button(
        "Script (Python)", exported(text), f"{info.run_id}.py", "text/x-python", on_click="ignore", disabled=not can, help=words
    )


_FORMAT_WORDS = {
    "state_dict": "state_dict (recommended)",
    "whole_model": "whole model",
    "safetensors": "safetensors",
    "tutorial": "state_dict under a guide's names",
}
_FORMAT_HELP = {
    "state_dict": "The weights and buffers by name. Whoever loads it needs the network's code, shown below; nothing in the "
    "file is executed. What PyTorch recommends.",
    "whole_model": "The pickled object, network and all. One line loads it, but loading runs what the file holds, and it "
    "breaks when classes move between versions. Only for files you trust.",
    "safetensors": "The same names and numbers in a format without any code, read by many programs and languages.",
    "tutorial": "The same weights under the names that many PyTorch guides use: features.0.weight, features.3.weight, "
    "classifier.weight. Their network, two convolutions with ReLU before pooling and a linear layer, gives the "
    "same answers.",
}


def _weights(snapshot: RunView) -> None:
    """The best or last weights in three formats, each with the lines that load it."""
    files = model_session.saved_weights(snapshot.info.run_id)
    off = not files or not torch_ready.has_torch() or not may_control()
    with st.popover(
        "Weights",
        icon=":material/download:",
        disabled=off,
        help=None if files else "There are none before the first validation, or before the run ends.",
    ):
        if off:
            return
        from core.model.weights import load_weights
        from core.transfer.weights_out import FILE_NAMES, WeightFormat, formats_of, loading_lines, packed

        kind = WeightFormat(
            st.radio(
                "Format",
                formats_of(snapshot.config),
                format_func=_FORMAT_WORDS.__getitem__,
                key=f"weight_format_{snapshot.config.model}",
            )
        )
        st.caption(_FORMAT_HELP[kind])
        which = st.radio(
            "Which", files, format_func=wording.WEIGHTS_WORDS.__getitem__, key=f"weights_{'_'.join(files)}", horizontal=True
        )
        path = RunFolder.of(snapshot.info.run_id).weights(which)
        content = exported(lambda: packed(kind, load_weights(path)["weights"], snapshot.config))
        st.download_button(
            f"Download {FILE_NAMES[kind]}",
            content,
            FILE_NAMES[kind],
            "application/octet-stream",
            on_click="ignore",
            type="primary",
        )
        st.code(loading_lines(kind, snapshot.config), language="python")
