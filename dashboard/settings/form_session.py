"""The settings form of a browser session: presets, links, what is unusable, and what a run would take."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from core.config.presets import PRESETS, preset_named
from core.config.text import format_value, parse_values, with_texts
from core.config.train_config import TrainConfig, field_kind, settings
from core.data.sources import data_root, missing_files
from core.errors import ConfigError, CoreError
from core.execution.process import get_jobs, get_trainer
from core.status import Progress
from dashboard import wording
from dashboard.shell.policy_session import asker, may_control
from dashboard.shell.widget_session import changed_choice

TRIAL_JOB, _KEPT_RATES = "trial", 256


def begin() -> None:
    """Once a session: fill the form from the link's parameters, or with the default preset."""
    if "settings_loaded" in st.session_state:
        return
    st.session_state.settings_loaded = True
    config, problems = TrainConfig(), {}
    try:
        config = preset_named(st.query_params.get("preset", "tutorial"))
    except ConfigError:  # its text comes from whoever made the link: it is not shown
        problems["preset"] = f"there is none of that name; there are {', '.join(PRESETS)}"
    given = {name: value for name, value in st.query_params.items() if name in settings()}
    config, left_out = with_link(config, given)
    for name in st.query_params:
        if name not in settings() and (close := get_close_matches(name, settings(), 1, 0.8)):
            left_out[name] = f"there is no such setting; {close[0]} is one"
    st.session_state.link_problems = problems | left_out
    if "dataset" not in given and missing_files(data_root()):
        config = replace(config, dataset="mnist_sample")
    fill_form(config)


def with_link(config: TrainConfig, texts: dict[str, str]) -> tuple[TrainConfig, dict[str, str]]:
    """Settings with those of a link taken over together, and what of the link is unusable: field -> words."""
    values, unread = parse_values(texts)
    problems = {field: without_value(problem) for field, problem in unread.items()}
    while found := replace(config, **values).problems():
        # A problem between two settings may be told at one that the link does not name: then nothing of it fits.
        wrong = [name for name in found if name in values] or list(values)
        if not wrong:
            break
        problems.update({name: without_value(found.get(name) or "; ".join(found.values())) for name in wrong})
        values = {name: value for name, value in values.items() if name not in wrong}
    return replace(config, **values), problems


def without_value(problem: str) -> str:
    """A problem without what was given: words of a link are not repeated on the page."""
    return problem.partition("; got ")[0]


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


def use_settings(config: TrainConfig) -> None:
    """Fill the form with the settings of a run, so that one can change one of them and start again."""
    fill_form(config)
    st.session_state.form_fillings = form_fillings() + 1


def form_fillings() -> int:
    """How often the form was filled with the settings of a run: the whole page must be drawn anew after each."""
    return st.session_state.get("form_fillings", 0)


def widget_value(name: str, value: Any) -> Any:
    """A setting's value as its widget holds it: text where a person types a number such as 1e-5 or 60,000."""
    return format_value(value) if field_kind(name) is not bool and not settings()[name].choices else value


def widget_text(key: str) -> str:
    """What a widget of a setting holds, as text to parse; "" for one that was not drawn yet."""
    return format_value(st.session_state.get(key))


def choose_preset(key: str, current: str | None) -> None:
    """Fill the form with the preset that a widget names; data set and seed stay as they are."""
    name = changed_choice(key, current)
    if name in PRESETS:
        texts = {field: widget_text(form_key(field)) for field in ("dataset", "seed")}
        fill_form(with_link(PRESETS[name].config, texts)[0])


def form_config() -> tuple[TrainConfig | None, dict[str, str]]:
    """The form's settings, or None, and what is unusable: field -> words."""
    texts, found, config = {name: widget_text(form_key(name)) for name in settings()}, {}, None
    try:
        config = with_texts(TrainConfig(), texts)
    except ConfigError as error:
        found = dict(error.problems)
    if texts["precision"] == "float16" and not has_cuda():
        found["precision"] = "float16 training needs a CUDA GPU, and there is none here. Choose float32 or bfloat16"
    if texts["dataset"] == "mnist" and missing_files(data_root()):
        found["dataset"] = "MNIST is not on this machine yet: download it below, or choose the sample"
    return (None if found else config), found


def has_cuda() -> bool:
    """False when it is known that there is no CUDA GPU; True while PyTorch is not imported yet."""
    torch = sys.modules.get("torch")
    return torch is None or not hasattr(torch, "cuda") or bool(torch.cuda.is_available())


def settings_link(config: TrainConfig) -> str:
    """This page's address with these settings in it."""
    changed = {name: format_value(value) for name, value in config.changed().items()}
    base = (st.context.url or "").split("?")[0]
    return f"{base}?{urlencode(changed)}" if changed else f"{base}?preset=tutorial"


def estimate(config: TrainConfig) -> str:
    """In words, what a run with these settings would be: its parameters, steps, and the time by a trial on this machine.

    Needs torch; call it when `is_warm`. The trial is a job of about a second, whose result is kept; see `is_trying`. While a
    run trains it is left out.
    """
    try:
        from core.model.networks import parameter_count
        from core.runs.time_left import duration_words, seconds_for

        words = f"{wording.MODEL_WORDS[config.model]}, {parameter_count(config):,} parameters · {config.total_steps():,} steps"
        if get_trainer().active():
            return words
    except Exception as error:  # a broken installation: the page goes on
        return wording.plain(f"No estimate ({type(error).__name__}: {error}). The Environment page says more.")
    trial = replace(TrainConfig(), **{name: getattr(config, name) for name in _SPEED_FIELDS})
    rate = _rates.get(trial)
    if rate is None:
        if not may_control():  # it computes for a second on all threads that a link asks for
            return words
        if not is_trying():
            get_jobs().start(TRIAL_JOB, lambda: _trying(trial), heavy=True, asker=asker())
        return f"{words} · measuring how long that takes here …"
    if isinstance(rate, str):
        return wording.plain(rate)
    seconds = duration_words(seconds_for(config, rate))
    loading = config.pipeline == "dataloader" or config.augments()
    rest = ", without preparing the images" if loading else ""
    return f"{words} · about {seconds} at {rate:,.0f} images/s, measured here{rest}"


def _trying(trial: TrainConfig) -> Iterator[Progress]:
    yield Progress(0, 0, "Trying out the speed")
    try:
        from core.preflight.speed import measure_rate

        rate: float | str = measure_rate(trial)
    except CoreError as error:
        rate = str(error)
    except Exception as error:  # a GPU that answers nothing
        rate = f"The trial failed ({type(error).__name__}: {error}). The Environment page says more."
    _rates[trial] = rate
    while len(_rates) > _KEPT_RATES:
        del _rates[next(iter(_rates))]


def is_trying() -> bool:
    """True while the speed of a configuration is tried out."""
    job = get_jobs().get(TRIAL_JOB)
    return job is not None and job.status.is_active


# Training images per second by what the time of a step depends on, or why they could not be measured; of this process.
_rates: dict[TrainConfig, float | str] = {}
_SPEED_FIELDS = (
    "model",
    "batch_size",
    "dropout",
    "optimizer",
    "device",
    "precision",
    "threads",
    "deterministic",
    "detect_anomaly",
    "gradient_clip",
)
