"""Which run this browser looks at: the address, the choice, or the newest."""

from contextlib import suppress

import streamlit as st

from core.errors import RunError
from core.execution.process import get_trainer
from core.runs.folder import RunFolder, runs_root
from core.runs.info import RunInfo, list_runs, read_info
from dashboard.shell.policy_session import is_timed_refresh


def show_run(run_id: str) -> None:
    """Make this the run that the page shows, in the address bar too."""
    st.session_state.shown_run = st.session_state.run_in_address = run_id
    st.query_params["run"] = run_id


def shown_run() -> str | None:
    """The run to show: the chosen one, else the one that trains, else the newest; None before the first."""
    state, there = st.session_state, st.query_params.get("run")
    # A link, or the browser's Back: both draw the whole page. A timer's refresh may carry the address from before a click.
    if there and there != state.get("run_in_address") and not is_timed_refresh():
        state.shown_run = state.run_in_address = there
    if chosen := state.get("shown_run"):
        if there != chosen:  # another page took it out of the address
            show_run(chosen)
        return chosen
    if active := get_trainer().active():
        return next(iter(active))
    newest = list_runs(runs_root(), limit=1)
    return newest[0].run_id if newest else None


NOT_HERE = "The run of this link is not on this server: it was deleted, or never was here."
"""Its id is not repeated: whoever makes a link could write anything there."""


def is_here(run_id: str) -> bool:
    """Whether there is a run of this id."""
    with suppress(RunError):
        return RunFolder.of(run_id).path.is_dir()
    return False


def recent_runs(limit: int = 30) -> list[RunInfo]:
    """The newest runs, and the one that is shown, however old it is."""
    found = list_runs(runs_root(), limit)
    shown = shown_run()
    if shown and all(info.run_id != shown for info in found):
        with suppress(RunError):
            found.append(read_info(RunFolder.of(shown).path))
    return found
