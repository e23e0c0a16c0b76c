"""The entry: `streamlit run dashboard/app.py`, or `python -m dashboard`."""

import sys
from pathlib import Path

# `streamlit run` puts only this folder on the path; core and dashboard lie beside each other.
ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

import streamlit as st  # noqa: E402

from dashboard import theme  # noqa: E402
from dashboard.draw import session as draw_session  # noqa: E402
from dashboard.modes import session as modes_session  # noqa: E402
from dashboard.settings import form_session  # noqa: E402
from dashboard.shell import torch_ready  # noqa: E402
from dashboard.shell.policy_row import policy_row  # noqa: E402
from dashboard.shell.uploads import limit_uploads  # noqa: E402


def main() -> None:
    """Draw the chosen page."""
    st.set_page_config(page_title="Digit Lab", page_icon="🔢", layout="wide")
    st.html(theme.PAGE_STYLE)
    limit_uploads()
    form_session.begin()
    chosen = st.navigation(
        [
            st.Page("train/page.py", title="Train", icon=":material/model_training:", default=True),
            st.Page("draw/page.py", title="Draw", url_path="draw", icon=":material/draw:"),
            st.Page("modes/page.py", title="Train/eval", url_path="modes", icon=":material/toggle_on:"),
            st.Page("runs/page.py", title="Runs", url_path="runs", icon=":material/table_view:"),
            st.Page("environment/page.py", title="Environment", url_path="environment", icon=":material/memory:"),
        ],
        position="top",
    )
    if chosen.title != "Draw":
        draw_session.canvas_is_gone()
    if chosen.title != "Train/eval":
        modes_session.stop_experiment()
    policy_row()
    chosen.run()
    torch_ready.warm_up()


# The name is another one in DataLoader workers, which import this file as the main script of their parent.
if __name__ == "__main__":
    main()
