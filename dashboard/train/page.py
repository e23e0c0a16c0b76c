"""Train: choose settings, start, watch."""

import streamlit as st

from core.config.presets import PRESETS, preset_of
from core.config.train_config import TrainConfig, settings
from core.data.sources import data_root, missing_files
from core.errors import RunError
from core.execution.process import get_jobs, get_readers, get_trainer
from core.runs.folder import runs_root
from core.runs.info import RunInfo, newest_run_id
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import wording
from dashboard.charts import session as charts_session
from dashboard.settings import form_session
from dashboard.settings.settings_form import settings_form
from dashboard.shell import refresh, run_session, start_session, torch_ready
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session
from dashboard.train.run_panel import CHART_KEY, empty_panel, run_panel
from dashboard.wording import run_label

HEARTBEAT = 5.0  # seconds between refreshes while nothing changes; `refresh.refresh_seconds` otherwise


def page() -> None:
    """The whole page."""
    charts_session.page_was_drawn_anew(CHART_KEY)
    _use_download_once_done()
    config, found = form_session.form_config()
    with st.sidebar:
        st.subheader("Settings", anchor=False)
        settings_form(found, config)
        if config is not None:
            with st.expander("Link to these settings"):
                st.code(form_session.settings_link(config), language=None, wrap_lines=True)
    # Refreshing parts have places of their own, made first: a refresh that meets a half-drawn page then still finds its place.
    top, note, live = st.container(), st.container(), st.container()
    with top:
        st.title("Train a digit classifier", anchor=False)
        _presets(config)
        _start_row(config, found)
    with note:
        _data_note()
    with live:
        _live()


def _presets(config: TrainConfig | None) -> None:
    current = preset_of(config) if config is not None else None
    # A key for each state: a message from the browser that is older than the state then changes nothing.
    key = f"preset_{current}"
    st.pills(
        "Preset",
        list(PRESETS),
        default=current,
        required=current is not None,
        key=key,
        format_func=_preset_label,
        on_change=form_session.choose_preset,
        args=(key, current),
    )
    reason = PRESETS[current].reason if current else "Your own settings; a preset replaces them."
    st.caption(f"{reason} Every setting is in the sidebar.")


def _preset_label(name: str) -> str:
    preset = PRESETS[name]
    return f":material/warning: {preset.title}" if preset.instructive else preset.title


def _start_row(config: TrainConfig | None, found: dict[str, str]) -> None:
    busy = bool(get_trainer().active())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Add to the queue" if busy else "Start training",
            type="primary",
            icon=":material/play_arrow:",
            key="start",
            on_click=train_session.start_run,
            disabled=config is None or not may_control(),
        )
        if config is not None:
            _estimate(config)
    for field, problem in form_session.link_problems().items():
        st.warning(f"The link's setting {wording.plain(field)} was left out: {wording.plain(problem)}")
    if found:
        labels = ", ".join(settings()[name].label if name in settings() else name for name in found)
        st.error(
            f"Not yet: {len(found)} setting{'s' if len(found) > 1 else ''} to mend in the sidebar ({wording.plain(labels)})."
        )
    if problem := start_session.start_problem():
        st.error(wording.plain(problem))


def _estimate(config: TrainConfig) -> None:
    if not torch_ready.is_warm():
        st.caption("PyTorch is being imported …", width="content")
        return
    st.caption(form_session.estimate(config), width="content")


def _data_note() -> None:
    """What there is of MNIST, and how to get the rest."""
    job = get_jobs().get(train_session.DOWNLOAD_JOB)
    running = job is not None and job.status.is_active
    if running:
        st.fragment(_download_progress, run_every=0.5)()
        return
    if not missing_files(data_root()) and (job is None or job.status != RunStatus.FAILED):
        return
    with st.container(border=True):
        if job is not None and job.status == RunStatus.FAILED:
            st.markdown(f":material/cloud_off: {wording.plain(job.reason)}")
        elif job is not None and job.status == RunStatus.STOPPED:
            st.markdown("The download was cancelled.")
        else:
            st.markdown(
                "**MNIST is not on this machine.** Training uses the sample: 5,000 real MNIST digits that came with "
                "the installation; with so few, fewer test digits are right than with all 60,000."
            )
        st.button(
            "Download MNIST (11 MB)" if job is None else "Try the download again",
            on_click=train_session.start_download,
            icon=":material/download:",
            key="download",
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


def _live() -> None:
    """The panel, refreshed quickly while something is about to change, and slowly otherwise."""
    _run_list()
    _queue()
    snapshot = _read_shown()[0]
    st.fragment(_panel, run_every=_interval(snapshot))(_state(snapshot))


def _panel(drawn_for: tuple[object, ...]) -> None:
    snapshot, problem = _read_shown()
    if _state(snapshot) != drawn_for:
        st.rerun()  # only a whole run changes the interval, the list and the buttons above
    if problem:
        st.warning(wording.plain(problem))
    elif snapshot is None:
        empty_panel()
    else:
        run_panel(snapshot)


def _state(snapshot: RunView | None) -> tuple[object, ...]:
    """What a whole run of the page is made for: it alone sets the interval, and draws what lies outside the panel."""
    download = get_jobs().get(train_session.DOWNLOAD_JOB)
    return (
        newest_run_id(runs_root()),
        *get_trainer().active().items(),
        _interval(snapshot),
        start_session.start_problem(),
        form_session.form_fillings(),
        form_session.is_trying(),
        download.status if download else None,
    )


def _interval(snapshot: RunView | None) -> float:
    return refresh.refresh_seconds() if _is_busy(snapshot) else HEARTBEAT


def _is_busy(snapshot: RunView | None) -> bool:
    if not torch_ready.is_warm() or form_session.is_trying():
        return True
    return snapshot is not None and (snapshot.info.status.is_active or train_session.is_proving(snapshot.info.run_id))


def _read_shown() -> tuple[RunView | None, str]:
    """The run to show, or None and why there is none ("" before the first run)."""
    run_id = run_session.shown_run()
    if run_id is None:
        return None, ""
    if not run_session.is_here(run_id):
        return None, run_session.NOT_HERE
    try:
        return get_readers().read(runs_root(), run_id), ""
    except RunError as error:
        return None, str(error)


def _run_list() -> None:
    runs = run_session.recent_runs()
    labels = {info.run_id: run_label(info) for info in runs}
    shown = run_session.shown_run()
    if not labels:
        return
    key, index = f"run_choice_{shown}", list(labels).index(shown) if shown in labels else None
    st.selectbox(
        "Run shown",
        list(labels),
        index,
        format_func=lambda run_id: labels[run_id],
        key=key,
        width=420,
        on_change=train_session.choose_shown_run,
        args=(key, shown),
    )
    _unfinished(train_session.left_unfinished(runs, shown))


def _unfinished(found: list[RunInfo]) -> None:
    """Runs that a crash of the server, say, cut short."""
    if not found:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        st.caption(
            f":material/power_off: Interrupted: run {found[0].run_id} at step {found[0].step:,} of "
            f"{found[0].total_steps:,}{more}.",
            width="content",
        )
        st.button(
            "Resume it",
            icon=":material/resume:",
            key="take_up_other",
            type="tertiary",
            on_click=train_session.resume_run,
            args=(found[0].run_id,),
            disabled=not may_control(),
        )
        st.button(
            "Not now",
            key="put_aside",
            type="tertiary",
            on_click=train_session.put_aside,
            args=([info.run_id for info in found],),
            help="Says no more about it until you reload.",
        )


def _queue() -> None:
    """What trains and what waits, when there is more than one; a click shows that run."""
    active = list(get_trainer().active())
    if len(active) < 2:
        return
    shown = run_session.shown_run()
    current = shown if shown in active else None
    # A key for each state: a message from the browser that is older than the state then changes nothing.
    key = f"queue_{current}_{'-'.join(active)}"
    st.pills(
        "Queue",
        active,
        default=current,
        key=key,
        on_change=train_session.choose_shown_run,
        args=(key, current),
        format_func=lambda run_id: f"{active.index(run_id) + 1}. {run_id}" if active.index(run_id) else f"Now: {run_id}",
        help="One run trains at a time; the others wait for their turn.",
    )


page()
