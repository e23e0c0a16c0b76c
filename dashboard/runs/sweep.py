"""A sweep: the settings of the Train page with some of them varied, trained one after the other."""

import streamlit as st

from core.config.train_config import settings
from core.status import RunStatus
from dashboard import wording
from dashboard.runs import session as runs_session
from dashboard.settings import form_session
from dashboard.shell import start_session
from dashboard.shell.policy_session import may_control

_EXAMPLES = {
    "learning_rate": "1e-4, 1e-3, 1e-2",
    "batch_size": "32, 128",
    "optimizer": "sgd, adam",
    "seed": "0, 1, 2",
    "model": "mlp, simple_cnn",
    "dropout": "0, 0.3",
    "weight_decay": "0, 0.01",
}


def sweep_panel() -> None:
    """The form, folded until it is wanted, and the progress of the sweep that runs."""
    job = runs_session.sweep_job()
    working = job is not None and job.status.is_active
    if job is not None and working:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.progress(job.progress.share, text=f"Sweep: {wording.plain(job.progress.message)}", width="stretch")
            st.button(
                "Stop the sweep",
                icon=":material/stop:",
                key="sweep_stop",
                on_click=start_session.cancel_job,
                args=(runs_session.SWEEP_JOB,),
                disabled=not may_control(),
            )
    elif job is not None and job.status == RunStatus.FAILED:
        st.error(f"The sweep ended early: {wording.plain(job.reason)}")
    elif job is not None:
        how = "is done" if job.status == RunStatus.FINISHED else "was stopped"
        st.caption(f":material/grid_view: The last sweep {how}: {wording.plain(job.progress.message)}.")
    with st.expander(
        "Sweep: train many settings one after the other", icon=":material/grid_view:", key="sweep_open", on_change="rerun"
    ) as opened:
        if opened.open:
            _form(working)


def _form(working: bool) -> None:
    base, found = form_session.form_config()
    st.caption(
        "Everything else is as on the Train page. Other people's runs and yours still get their turn in between; each "
        "run of the sweep is an ordinary one, with the sweep's tag."
    )
    names = [name for name, one in settings().items() if one.group not in ("Saving", "Hardware")]
    st.multiselect("Settings to vary", names, key="sweep_names", format_func=lambda name: settings()[name].label)
    how = st.radio(
        "How",
        ["grid", "random"],
        key="sweep_how",
        horizontal=True,
        format_func={"grid": "Every combination", "random": "Random ones"}.__getitem__,
    )
    for name in runs_session.sweep_form()[0]:
        example = _EXAMPLES.get(name, ", ".join(list(settings()[name].choices)[:3]) or "values with commas between them")
        also = " A range: 1e-4 .. 1e-1." if how == "random" else ""
        st.text_input(
            settings()[name].label,
            key=f"sweep_values_{name}",
            placeholder=f"{example}",
            help=f"Values with commas between them.{also} {settings()[name].help}",
        )
    with st.container(horizontal=True):
        if how == "random":
            st.number_input("Runs", 1, 200, 10, key="sweep_runs", width=140)
        st.number_input(
            "At most (minutes)",
            0.1,
            10_000.0,
            None,
            key="sweep_minutes",
            placeholder="no limit",
            width=180,
            help="The run in progress when the time is spent is stopped; the rest is left out.",
        )
    count, note = runs_session.planned_sweep(base)
    off = working or not count or not may_control()
    label = f"Start {count} run{'s' if count != 1 else ''}" if count else "Start the sweep"
    st.button(
        label,
        type="primary",
        icon=":material/play_arrow:",
        key="sweep_start",
        disabled=off,
        on_click=runs_session.start_sweep,
        args=(base,),
    )
    if note:
        st.caption(wording.plain(note) if count else f":red[{wording.plain(note)}]")
    if found:
        st.caption(f":red[The settings on the Train page cannot be used: {wording.plain('; '.join(found.values()))}]")
    if problem := runs_session.sweep_problem():
        st.error(wording.plain(problem))
