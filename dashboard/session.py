"""The form, the shown run, charts and jobs of a browser session. Only the `*session.py` files touch st.session_state,
Streamlit's caches and the address bar."""

import gc
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.config import TrainConfig, field_kind, format_value, parse_values, settings
from core.data import data_root, missing_files
from core.errors import ConfigError, CoreError
from core.events import Progress
from core.hardware import choose_threads
from core.preflight import check
from core.presets import PRESETS, preset_named
from core.run_store import list_runs, runs_root
from core.trainer import get_trainer
from dashboard import theme
from dashboard.charts import Sent, View
from dashboard.policy_session import controlled

if TYPE_CHECKING:
    from core.proofs import ProofKind

DOWNLOAD_JOB, CHECK_JOB, WARM_UP_JOB = "download", "check", "warm-up"


# --- the settings form -------------------------------------------------------------------------------------------------


def begin() -> None:
    """Once a session: fill the form from the link's parameters, or with the default preset."""
    if "settings_loaded" in st.session_state:
        return
    st.session_state.settings_loaded = True
    given = {name: value for name, value in st.query_params.items() if name in settings()}
    config, problems = TrainConfig(), {}
    try:
        config = preset_named(st.query_params.get("preset", "tutorial"))
    except ConfigError as error:
        problems.update(error.problems)
    for name, text in given.items():
        try:
            config = replace(config, **parse_values({name: text})).validate()
        except ConfigError as error:
            problems[name] = "; ".join(error.problems.values())
    st.session_state.link_problems = problems
    if "dataset" not in given and missing_files(data_root()):
        config = replace(config, dataset="mnist_sample")
    fill_form(config)
    if run := st.query_params.get("run"):
        st.session_state.shown_run = run


def link_problems() -> dict[str, str]:
    """What was unusable in the link that opened this session."""
    return st.session_state.link_problems


def form_key(name: str) -> str:
    """The widget key of a setting."""
    return f"setting_{name}"


def fill_form(config: TrainConfig) -> None:
    """Show these settings in the form, at its next drawing."""
    for name in settings():
        st.session_state[form_key(name)] = widget_value(name, getattr(config, name))


def widget_value(name: str, value: Any) -> Any:
    """A setting's value as its widget holds it: text where a person types a number such as 1e-5."""
    return format_value(value) if field_kind(name) in (float, str) and not settings()[name].choices else value


def widget_text(key: str) -> str:
    """What a widget of a setting holds, as text to parse; "" for one that was not drawn yet."""
    return format_value(st.session_state.get(key))


def changed_choice(key: str, drawn: Any) -> Any:
    """What a person has chosen in a widget whose key holds what it was drawn with; None when nothing was.

    A message from the browser that is older than the widget's removal brings its old value back, which Streamlit takes for a
    change: that the value is what was drawn says that nobody chose anything.
    """
    value = st.session_state.get(key)
    return None if value == drawn else value


def choose_preset(key: str, current: str | None) -> None:
    """Fill the form with the preset that a widget names; data set and seed stay as they are."""
    name = changed_choice(key, current)
    if name in PRESETS:
        kept = {field: st.session_state[form_key(field)] for field in ("dataset", "seed")}
        fill_form(replace(PRESETS[name].config, **kept))


def form_config() -> tuple[TrainConfig | None, dict[str, str]]:
    """The form's settings, or None, and what is unusable: field -> words."""
    texts = {name: widget_text(form_key(name)) for name in settings()}
    try:
        config = TrainConfig(**parse_values(texts))
    except ConfigError as error:
        return None, error.problems
    found = config.problems()
    if config.dataset == "mnist" and "dataset" not in found and missing_files(data_root()):
        found["dataset"] = "MNIST is not on this machine yet: download it below, or choose the sample"
    return (None if found else config), found


def settings_link(config: TrainConfig) -> str:
    """This page's address with these settings in it."""
    changed = {name: format_value(value) for name, value in config.changed().items()}
    base = (st.context.url or "").split("?")[0]
    return f"{base}?{urlencode(changed)}" if changed else f"{base}?preset=tutorial"


# --- runs --------------------------------------------------------------------------------------------------------------


@controlled
def start_run() -> None:
    """Start what the form says and show it. Problems are kept for the page."""
    config, found = form_config()
    if config is not None and not found:
        _start(config)


@controlled
def start_preset(name: str) -> None:
    """Start a preset on the digits that are here and show it. Problems are kept for the page."""
    _start(replace(preset_named(name), dataset="mnist_sample" if missing_files(data_root()) else "mnist"))


def _start(config: TrainConfig) -> None:
    try:
        run_id = get_trainer().start(config, data_root(), runs_root(), token=session_id())
    except Exception as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


@controlled
def resume_run(run_id: str) -> None:
    """Go on with a run that has ended early, and show it. Problems are kept for the page."""
    try:
        get_trainer().take_up(run_id, data_root(), runs_root())
    except CoreError as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


@controlled
def pause_run(run_id: str) -> None:
    """Stand still after the current step."""
    get_trainer().pause(run_id)


@controlled
def continue_run(run_id: str) -> None:
    """Go on after a pause."""
    get_trainer().resume(run_id)


@controlled
def stop_run(run_id: str) -> None:
    """End after the current step."""
    get_trainer().stop(run_id)


@controlled
def save_run(run_id: str) -> None:
    """Keep the whole training state as it is now."""
    get_trainer().save_now(run_id)


def start_problem() -> str:
    """Why the last Start or Resume did not start; "" when it did."""
    return st.session_state.get("start_problem", "")


def show_run(run_id: str) -> None:
    """Make this the run that the page shows, in the address bar too."""
    st.session_state.shown_run = run_id
    st.query_params["run"] = run_id


def shown_run() -> str | None:
    """The run to show: the chosen one, else the one that trains, else the newest; None before the first."""
    if chosen := st.session_state.get("shown_run"):
        if st.query_params.get("run") != chosen:  # another page took it out of the address
            st.query_params["run"] = chosen
        return chosen
    if active := get_trainer().active():
        return next(iter(active))
    newest = list_runs(runs_root(), limit=1)
    return newest[0].run_id if newest else None


def choose_shown_run(key: str, drawn: str | None) -> None:
    """Show the run that a widget names; it was drawn with `drawn`."""
    if run_id := changed_choice(key, drawn):
        show_run(run_id)


def estimate(config: TrainConfig) -> str:
    """In words, what a run with these settings would be: its parameters, steps, and the time by a trial on this machine.

    Needs torch; call it when `is_warm`. The trial takes under a second and is kept; while a run trains it is left out.
    """
    try:
        from core.models import parameter_count
        from core.preflight import measure_rate

        words = f"{theme.MODEL_WORDS[config.model]}, {parameter_count(config):,} parameters · {config.total_steps():,} steps"
        if get_trainer().active():
            return words
        rate = measure_rate(replace(TrainConfig(), **{name: getattr(config, name) for name in _SPEED_FIELDS}))
    except CoreError as error:
        return theme.plain(str(error))
    except Exception as error:  # a broken installation, a GPU that answers nothing: the page goes on
        return theme.plain(f"The trial failed ({type(error).__name__}: {error}). The Environment page says more.")
    seconds = theme.duration_words(config.split_sizes()[0] * config.epochs / rate)
    loading = config.pipeline == "dataloader" or config.augment_shift or config.augment_rotation or config.augment_scale
    rest = ", without preparing the images" if loading else ""
    return f"{words} · about {seconds} at {rate:,.0f} images/s, measured here{rest}"


# What the time of a step depends on.
_SPEED_FIELDS = ("model", "batch_size", "dropout", "optimizer", "device", "precision", "threads", "deterministic",
                 "detect_anomaly", "gradient_clip")  # fmt: skip


# --- live charts -------------------------------------------------------------------------------------------------------


def charts_view() -> View:
    """How this session wants to see runs."""
    return View(
        axis=st.session_state.get("view_axis") or "step",
        window=st.session_state.get("view_window", 25),
        log=st.session_state.get("view_log", False),
    )


def charts_sent(key: str) -> Sent | None:
    """What this session's browser has of the charts; None when everything must be sent."""
    return st.session_state.get(f"sent_{key}")


def remember_charts_sent(key: str, sent: Sent | None) -> None:
    """Note what the browser has after this refresh."""
    st.session_state[f"sent_{key}"] = sent


def charts_failed(key: str) -> bool:
    """True when this browser could not load plotly.js."""
    return st.session_state.get(f"failed_{key}", False)


def remember_charts_failed(key: str) -> None:
    """Draw plain charts from now on."""
    st.session_state[f"failed_{key}"] = True


def page_was_drawn_anew(key: str) -> None:
    """A whole page run: the browser may have lost the charts (another page, a reload), so they are sent whole once."""
    remember_charts_sent(key, None)


# --- jobs --------------------------------------------------------------------------------------------------------------


@controlled
def start_download() -> None:
    """Fetch what is missing or damaged of MNIST."""
    from core.download import download_mnist

    get_trainer().start_job(DOWNLOAD_JOB, lambda: download_mnist(data_root()))


def use_mnist_if_just_downloaded() -> None:
    """After a finished download: choose MNIST in the form, once."""
    get_trainer().forget_job(DOWNLOAD_JOB)
    st.session_state[form_key("dataset")] = "mnist"


@controlled
def cancel_job(name: str) -> None:
    """Ask a download, a sweep or a proof to end."""
    get_trainer().cancel_job(name)


def start_check() -> None:
    """Look at the installation."""
    get_trainer().start_job(CHECK_JOB, check)


def proof_job(run_id: str, kind: str) -> str:
    """The name of the job that proves something about a run."""
    return f"proof-{kind}-{run_id}"


def is_proving(run_id: str) -> bool:
    """True while something is being proved about a run."""
    jobs = [get_trainer().job(proof_job(run_id, kind)) for kind in ("repeat", "resume")]
    return any(job is not None and job.status.is_active for job in jobs)


@controlled
def start_proof(run_id: str, kind: "ProofKind", config: TrainConfig) -> None:
    """Train the first steps of a run twice, in a process of its own."""
    from core.proofs import prove_apart

    get_trainer().start_job(proof_job(run_id, kind), lambda: prove_apart(kind, config, data_root()), heavy=True)


def warm_up() -> None:
    """Import torch in the background once a process, so that the first page does not wait for it.

    Then everything imported is taken out of the garbage collector's sight: with torch a collection takes 0.2 s, in
    which no thread runs, training included.
    """

    def steps() -> Any:
        yield Progress(0, 0, "Importing PyTorch")
        import torch

        import core.recorded_run  # noqa: F401

        # What pages and experiments compute leaves a core to the rest, as runs do. Set once, before any run: a run's own
        # number of threads is part of its result.
        torch.set_num_threads(choose_threads(None, shared=True))
        gc.collect()
        gc.freeze()

    if get_trainer().job(WARM_UP_JOB) is None:
        get_trainer().start_job(WARM_UP_JOB, steps)


def is_warm() -> bool:
    """True once torch is imported."""
    job = get_trainer().job(WARM_UP_JOB)
    return job is not None and not job.status.is_active


_last_seen: dict[str, float] = {}
_GONE_AFTER = 15.0  # seconds; the slowest page asks every 5


def refresh_seconds() -> float:
    """Seconds between the refreshes of a page on which something changes: 1, and more when many watch.

    A refresh takes the server some 20 ms: thirty viewers at one a second would leave the training half its speed.
    """
    now = monotonic()
    _last_seen[session_id()] = now
    for viewer, seen in list(_last_seen.items()):
        if now - seen > _GONE_AFTER:
            _last_seen.pop(viewer, None)
    viewers = len(_last_seen)
    return 1.0 if viewers <= 8 else 2.0 if viewers <= 16 else 5.0


def session_id() -> str:
    """Who this browser tab is."""
    context = get_script_run_ctx()
    return context.session_id if context else "none"
