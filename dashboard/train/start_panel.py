"""What starts the next run, at the head of the sidebar: a preset, Start, what it would take, MNIST; below them its settings."""

import streamlit as st

from core.config.presets import PRESETS, preset_of
from core.config.train_config import TrainConfig, settings
from core.data.sources import data_root, missing_files
from core.execution.process import get_jobs, get_trainer
from core.status import RunStatus
from dashboard import wording
from dashboard.settings import form_session
from dashboard.settings.settings_form import settings_form
from dashboard.shell import start_session, torch_ready
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session


def start_panel() -> None:
    """The whole sidebar."""
    _use_download_once_done()
    config, found = form_session.form_config()
    _presets(config)
    _start(config, found)
    _data_note()
    settings_form(found, config)
    if config is not None:
        with st.expander("Link to these settings"):
            st.code(form_session.settings_link(config), language=None, wrap_lines=True)


def _presets(config: TrainConfig | None) -> None:
    current = preset_of(config) if config is not None else None
    # A key for each state: a message from the browser that is older than the state then changes nothing.
    key = f"preset_{current}"
    names = list(PRESETS)
    st.selectbox(
        "Start from",
        names,
        names.index(current) if current else None,
        key=key,
        format_func=_preset_label,
        placeholder="your own settings",
        on_change=form_session.choose_preset,
        args=(key, current),
        help="A preset replaces the settings below; data set and seed stay.",
    )
    st.caption(PRESETS[current].reason if current else "Your own settings; a preset replaces them.")


def _preset_label(name: str) -> str:
    preset = PRESETS[name]
    return f"{preset.title} (goes wrong on purpose)" if preset.instructive else preset.title


def _start(config: TrainConfig | None, found: dict[str, str]) -> None:
    busy = bool(get_trainer().active())
    st.button(
        "Add to the queue" if busy else "Start training",
        type="primary",
        icon=":material/play_arrow:",
        key="start",
        on_click=train_session.start_run,
        disabled=config is None or not may_control(),
        width="stretch",
        shortcut="Ctrl+Enter",
    )
    if config is not None:
        st.caption(form_session.estimate(config) if torch_ready.is_warm() else "PyTorch is being imported …")
    st.selectbox(
        "Seeds",
        (1, 3, 5, 10),
        key="start_seeds",
        format_func=lambda count: "one run" if count == 1 else f"{count} runs, each with another seed",
        persist_state="session",
        help="One run may be lucky: several with other seeds tell what the settings give on average (tab Seeds).",
    )
    if problems := form_session.link_problems():
        told = "; ".join(f"{wording.plain(field)}: {wording.plain(problem)}" for field, problem in problems.items())
        st.warning(f"Left out of the link: {told}")
    if found:
        labels = ", ".join(settings()[name].label if name in settings() else name for name in found)
        st.error(f"Not yet: {len(found)} setting{'s' if len(found) > 1 else ''} to mend below ({wording.plain(labels)}).")
    if problem := start_session.start_problem():
        st.error(wording.plain(problem))


def _data_note() -> None:
    """What there is of MNIST, and how to get the rest."""
    job = get_jobs().get(train_session.DOWNLOAD_JOB)
    if job is not None and job.status.is_active:
        st.fragment(_download_progress, run_every=0.5)()
        return
    if not missing_files(data_root()) and (job is None or job.status != RunStatus.FAILED):
        return
    if job is not None and job.status == RunStatus.FAILED:
        st.caption(f":material/cloud_off: {wording.plain(job.reason)}")
    elif job is not None and job.status == RunStatus.STOPPED:
        st.caption("The download was cancelled.")
    else:
        st.caption(
            "**MNIST is not on this machine.** Training uses the sample: 5,000 real MNIST digits that came with "
            "the installation; with so few, fewer test digits are right than with all 60,000."
        )
    st.button(
        "Download MNIST (11 MB)" if job is None else "Try the download again",
        on_click=train_session.start_download,
        icon=":material/download:",
        key="download",
        width="stretch",
    )


def _download_progress() -> None:
    job = get_jobs().get(train_session.DOWNLOAD_JOB)
    if job is None or not job.status.is_active:
        st.rerun()
    progress = job.progress
    st.progress(progress.share, text=f"Downloading MNIST: {progress.message} {progress.done / 2**20:.1f} MiB")
    st.button("Cancel", on_click=start_session.cancel_job, args=(train_session.DOWNLOAD_JOB,), key="cancel_download")


def _use_download_once_done() -> None:
    job = get_jobs().get(train_session.DOWNLOAD_JOB)
    if job is not None and job.status == RunStatus.FINISHED:
        train_session.use_mnist_if_just_downloaded()
        st.toast("MNIST is here and verified.")
