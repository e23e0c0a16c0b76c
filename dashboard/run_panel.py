"""One run, live: what it does, its charts, what it got wrong, and what to do next."""

import math
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import streamlit as st

from core.config import TrainConfig, format_value, settings
from core.disk_use import disk_bytes
from core.errors import RunError, TrainingError
from core.events import Mistake, RunStatus
from core.run_files import metrics_csv
from core.run_notes import read_notes
from core.run_reader import RunSnapshot, read_config
from core.run_store import RunInfo, can_go_on, run_folder, runs_root, saved_states
from core.time_left import phase, seconds_left
from core.trainer import get_trainer
from dashboard import charts, fork_session, form_session, model_session, pictures, score_charts, session, theme
from dashboard.fork_panel import fork_panel
from dashboard.live_chart import live_charts, plot
from dashboard.policy_session import exported, may_control

CHART_KEY = "live_charts"
LN10 = math.log(10)


def run_panel(snapshot: RunSnapshot) -> None:
    """Draw the whole panel; called at each refresh."""
    with st.container(horizontal=True, vertical_alignment="center"):
        _headline(snapshot)
        _controls(snapshot)
    if snapshot.info.imported and not snapshot.started:
        _imported(snapshot)
        return
    _progress(snapshot)
    _foreign_note(snapshot)
    _ending(snapshot)
    if not len(snapshot.steps) and snapshot.info.status.is_active:
        _to_come(snapshot)
        return
    parent = _parent(snapshot.info)
    _first_loss(snapshot)
    _chart_settings()
    live_charts(snapshot, session.charts_view(), key=CHART_KEY, parent=parent)
    _evaluation(snapshot)
    _downloads(snapshot, parent)
    fork_panel(snapshot)
    _proofs(snapshot)


def _headline(snapshot: RunSnapshot) -> None:
    info, config = snapshot.info, snapshot.config
    word, color, icon = theme.STATUS_WORDS[info.status]
    st.badge(word, color=color, icon=icon)  # pyright: ignore[reportArgumentType]
    preset = f" · preset {theme.plain(info.preset)}" if info.preset else ""
    with suppress(RunError):  # damaged notes are told on the Runs page
        if name := read_notes(run_folder(runs_root(), info.run_id)).name:
            preset += f" · {theme.plain(name)}"
    if changed := differences(snapshot):
        preset += f" · {theme.plain(changed)}"
    st.markdown(f"**{theme.MODEL_WORDS[config.model]}** on {theme.DATASET_WORDS[config.dataset]}{preset}", width="stretch")


def differences(snapshot: RunSnapshot) -> str:
    """The settings in which a run differs: from its parent, or from the defaults. "" when in none."""
    config, info, before = snapshot.config, snapshot.info, TrainConfig()
    if info.parent is not None:
        try:
            before = read_config(run_folder(runs_root(), info.parent))
        except RunError:
            return ""  # what was changed against it is not known any more
    shown = []
    for name, setting in settings().items():
        old, new = getattr(before, name), getattr(config, name)
        if old != new and name not in ("model", "dataset", "schedule_start"):
            change = f"{format_value(old) or 'none'} → " if info.parent is not None else ""
            shown.append(f"{setting.label.lower()} {change}{format_value(new) or 'none'}")
    return ", ".join(shown)


def _imported(snapshot: RunSnapshot) -> None:
    """A file with weights that was never trained here: where it is from, and what one can do with it."""
    info = snapshot.info
    with st.container(border=True):
        st.markdown(f"#### Weights from a file\n{theme.plain(info.imported)}: **{theme.MODEL_WORDS[snapshot.config.model]}**"
                    + (f", after {info.step:,} updates" if info.step else "")
                    + ". They were not trained here, so there are no curves and no scores. "
                    f"{theme.plain(info.reason)}")  # fmt: skip
        with st.container(horizontal=True):
            st.page_link("views/draw.py", label="Draw a digit for this model", icon=":material/draw:")
            st.page_link("views/modes.py", label="See it in train and in eval mode", icon=":material/toggle_on:")
    _downloads(snapshot, None)


def _to_come(snapshot: RunSnapshot) -> None:
    """Before the first step: what will appear, instead of five empty charts."""
    with st.container(border=True):
        what = "It waits for its turn." if snapshot.info.status == RunStatus.QUEUED else "It is about to begin."
        st.markdown(f"{what} Loss, accuracy, learning rate, gradient norm and memory appear here with its first steps, and "
                    f"after each validation what it gets wrong. {snapshot.total_steps:,} steps, {snapshot.config.epochs} "
                    f"epoch{'s' if snapshot.config.epochs != 1 else ''}.")  # fmt: skip


def _progress(snapshot: RunSnapshot) -> None:
    info, config, started = snapshot.info, snapshot.config, snapshot.started
    epoch = min(config.epochs, snapshot.step // config.steps_per_epoch() + 1)
    share = snapshot.step / max(1, snapshot.total_steps)
    text = f"Epoch {epoch} of {config.epochs} · step {snapshot.step:,} of {snapshot.total_steps:,}{_time_left(snapshot)}"
    if info.status == RunStatus.QUEUED:
        place = list(get_trainer().active()).index(info.run_id) if info.run_id in get_trainer().active() else 0
        text = f"Waits: {place} run{'s' if place != 1 else ''} before it"
    elif info.status == RunStatus.PREPARING:
        text = "Reads and verifies the digits, builds the model"
    elif info.status == RunStatus.RUNNING and (doing := phase(snapshot)):
        text += f" · {doing}"
    st.progress(min(1.0, share), text=text)
    rate, waiting = snapshot.images_per_second(), snapshot.data_share()
    device = theme.plain(f"{started.device_name} ({started.device})") if started else "not chosen yet"
    threads = f" · {started.threads} thread{'s' if started.threads != 1 else ''}" if started and started.device == "cpu" else ""
    st.caption(
        f"**{f'{rate:,.0f}' if rate else '–'}** images/s · **{f'{waiting:.1%}' if waiting is not None else '–'}** of the "
        f"time waiting for data ({config.pipeline}) · {device}{threads} · {started.precision if started else config.precision}"
        f" · seed {config.seed}",
        help="Threads: on the CPU one core is left to this page, since a second thread that must wait for its core slows "
        "training more than it helps. Set CPU threads in the settings to choose otherwise.",
    )
    for note in (*(started.notes if started else ()), *snapshot.damage):
        st.caption(f":material/info: {theme.plain(note)}")


def _time_left(snapshot: RunSnapshot) -> str:
    seconds = seconds_left(snapshot) if snapshot.info.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None
    return f" · {theme.duration_words(seconds)} left" if seconds is not None else ""


def _controls(snapshot: RunSnapshot) -> None:
    """Pause or resume, and stop; the same buttons in every state, so that nothing moves."""
    run_id, status = snapshot.info.run_id, snapshot.info.status
    trainer = get_trainer()
    here, stopping = run_id in trainer.active(), trainer.is_stopping(run_id)
    paused, locked = status == RunStatus.PAUSED, not may_control()
    off = locked or not here or stopping
    with st.container(horizontal=True, width="content"):
        st.button("Resume" if paused else "Pause", icon=":material/play_arrow:" if paused else ":material/pause:",
                  key="resume" if paused else "pause", on_click=session.continue_run if paused else session.pause_run,
                  args=(run_id,), disabled=off or status not in (RunStatus.RUNNING, RunStatus.PAUSED))  # fmt: skip
        st.button("Stopping …" if stopping else "Stop", icon=":material/stop:", key="stop", on_click=session.stop_run,
                  args=(run_id,), disabled=off)  # fmt: skip
        st.button("Save", icon=":material/save:", key="save_now", on_click=session.save_run, args=(run_id,),
                  help="Keep the whole training state as it is now: weights, optimizer, schedule, place in the epoch. It is "
                  "never deleted by itself.", disabled=off or status == RunStatus.QUEUED)  # fmt: skip


def _foreign_note(snapshot: RunSnapshot) -> None:
    if snapshot.info.status.is_active and snapshot.info.run_id not in get_trainer().active():
        st.caption("Another process trains this run (a terminal, say); it can be watched here and is stopped there.")
    if snapshot.info.imported and snapshot.started:
        st.caption(f":material/upload: Taken in from {theme.plain(snapshot.info.imported)}, not trained here.")


def _ending(snapshot: RunSnapshot) -> None:
    """How the run ended, in the words it deserves, and what one can do now."""
    info = snapshot.info
    if info.status == RunStatus.FAILED:
        st.error(theme.plain(info.reason), icon=":material/error:")
        if info.failure == "DataError":
            st.button("Download the missing or damaged files", on_click=session.start_download, icon=":material/download:",
                      disabled=not may_control())  # fmt: skip
        if info.details:
            with st.expander("Details for a bug report"):
                st.code(info.details, language=None)
    elif info.status == RunStatus.INTERRUPTED:
        st.warning(f"{theme.plain(info.reason)} What it measured until then is below.", icon=":material/power_off:")
    elif info.status == RunStatus.FINISHED and snapshot.tested and snapshot.tested.evaluation.accuracy < _LEARNED:
        score = snapshot.tested.evaluation
        st.warning(f"**It learned nothing: test accuracy {score.accuracy:.2%}**, where guessing gives about 10%. "
                   f"{theme.plain(_nothing_learned(snapshot))}", icon=":material/flag:")  # fmt: skip
    elif info.status == RunStatus.FINISHED and snapshot.tested:
        score = snapshot.tested.evaluation
        st.success(f"**Test accuracy {score.accuracy:.2%}** (loss {score.loss:.4f}), scored once with the weights of step "
                   f"{snapshot.tested.step:,}, the best on the validation digits. Next: draw a digit for it, change one "
                   "setting and start again to compare, or take the results with you (downloads below).",
                   icon=":material/flag:")  # fmt: skip
        with st.container(horizontal=True):
            st.page_link("views/draw.py", label="Draw a digit for this model", icon=":material/draw:")
            st.page_link("views/modes.py", label="See it in train and in eval mode", icon=":material/toggle_on:")
            st.page_link("views/runs.py", label="Compare it with other runs", icon=":material/table_view:")
        if snapshot.stopped_early:
            st.info(theme.plain(snapshot.stopped_early.reason))
    elif info.status == RunStatus.STOPPED:
        saved = "; the last weights are saved in the run's folder" if snapshot.step else " and nothing was trained"
        st.info(f"{theme.plain(info.reason) or 'Stopped by hand.'} The test digits were not scored{saved}.")
    if info.failure == TrainingError.__name__ and snapshot.step:
        _go_on_gentler(snapshot)
    elif can_go_on(run_folder(runs_root(), info.run_id), info):
        _resume(snapshot)


# Below this share of right answers on ten classes a network has learned next to nothing.
_LEARNED = 0.3


def _nothing_learned(snapshot: RunSnapshot) -> str:
    """The likeliest cause by what was recorded, and what to do."""
    config, losses = snapshot.config, snapshot.steps.column("loss")
    rate = f"{config.learning_rate:g}"
    if snapshot.tested and snapshot.tested.evaluation.unanswered:
        return (
            "Its answers are not numbers (NaN): the weights or BatchNorm's statistics have run away. Lower the learning rate."
        )
    if config.order == "by_class":
        return "It saw the digits sorted by class and forgot each while it learned the next. Shuffle them."
    finite = losses[np.isfinite(losses)]
    if len(finite) and float(np.quantile(finite, 0.9)) > 1.2 * LN10:  # not one spike: a tenth of the run
        return (f"In a tenth of the steps the loss was above {np.quantile(finite, 0.9):.3g}, more than guessing has: a "
                f"learning rate of {rate} is too high here. Try {config.learning_rate / 10:g}.")  # fmt: skip
    epochs = "1 epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    return (f"The loss hardly left that of guessing: a learning rate of {rate} with {theme.CHOICE_WORDS[config.optimizer]} is "
            f"too low, or {epochs} too few. Try {config.learning_rate * 10:g}.")  # fmt: skip


def _go_on_gentler(snapshot: RunSnapshot) -> None:
    """After a loss that was no number: the same steps would end in the same place, so a fork with a lower rate is offered."""
    run_id, rate = snapshot.info.run_id, snapshot.config.learning_rate / 10
    steps = list(saved_states(run_folder(runs_root(), run_id)))
    if not steps:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(f"Fork from step {steps[-1]:,} with learning rate {rate:g}", icon=":material/fork_right:", key="fork_gentler",
                  args=(run_id, steps[-1], replace(snapshot.config, learning_rate=rate), None),
                  on_click=fork_session.start_fork, disabled=not may_control())  # fmt: skip
        st.caption("Resuming would take the same steps to the same end.", width="content")
    if problem := fork_session.problem(run_id):
        st.error(theme.plain(problem))


def _resume(snapshot: RunSnapshot) -> None:
    """The way on for a run that has ended early."""
    info, started = snapshot.info, snapshot.started
    steps = list(saved_states(run_folder(runs_root(), info.run_id)))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Resume",
            icon=":material/resume:",
            key="take_up",
            on_click=session.resume_run,
            args=(info.run_id,),
            disabled=not may_control(),
        )
        if not steps:
            words = "It had only waited in line, and begins when its turn comes."
            if info.status == RunStatus.FAILED:
                words = "It failed before its first step; it begins once more, best after the cause above is mended."
            st.caption(words, width="content")
            return
        exact = ", bit for bit as if it had never stopped" if started and started.device == "cpu" else ""
        lost = f"; the {info.step - steps[-1]:,} steps after it are trained again" if info.step > steps[-1] else ""
        st.caption(f"Goes on from the state saved after step {steps[-1]:,}{exact}{lost}.", width="content")


def _parent(info: RunInfo) -> RunSnapshot | None:
    """The run that this one started from, to be drawn behind it; None without one, and a word when it is gone."""
    if info.parent is None:
        return None
    words = f":material/fork_right: Starts from run {theme.plain(info.parent)} after its step {info.parent_step or 0:,}"
    try:
        parent = get_trainer().read(runs_root(), info.parent)
        st.caption(f"{words}; that run's curves are drawn in gray.")
        return parent
    except RunError as error:
        st.caption(f"{words}. That run's curves cannot be drawn: {theme.plain(str(error))}")
        return None


def _first_loss(snapshot: RunSnapshot) -> None:
    """The first loss against that of guessing, for a run that starts anew."""
    if not len(snapshot.steps) or snapshot.info.parent or snapshot.info.first_step:
        return
    first = float(snapshot.steps.column("loss")[0])
    verdict = first_loss_words(first)
    st.caption(f":material/start: **First loss {first:.3f}**; guessing among ten digits costs ln 10 = {LN10:.3f}. {verdict}")


def first_loss_words(first: float) -> str:
    """What the loss before any update says about a network for ten classes."""
    if not math.isfinite(first):
        return "It is not finite before any update: the images or the first weights hold NaN or overflow."
    if abs(first - LN10) < 0.35:
        return "As it should be: nothing is known yet, and nothing is wrong yet."
    if first > LN10:
        return ("Higher: the untrained network is sure of wrong answers. Likely causes: first weights too large, or images "
                "that are not normalised.")  # fmt: skip
    return "Lower: it knows something already. Likely causes: few classes in the first batch (digits in order), or old weights."


def _chart_settings() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.segmented_control("X axis", charts.AXES, default="step", key="view_axis", required=True, persist_state="session")
        st.select_slider("Smoothing (steps)", (1, 5, 10, 25, 50, 100, 250, 500), 25, key="view_window", width=220,
                         help="The bold train line is the mean of so many steps; the thin one behind it is every step.",
                         persist_state="session")  # fmt: skip
        st.toggle("Logarithmic loss", key="view_log", persist_state="session")


def _evaluation(snapshot: RunSnapshot) -> None:
    """What the last scoring got wrong. Redrawn only when there is a new one."""
    if snapshot.tested:
        evaluation, of = snapshot.tested.evaluation, "the test digits"
    elif snapshot.validations:
        evaluation, of = (
            snapshot.validations[-1].evaluation,
            f"the validation digits, after step {snapshot.validations[-1].step:,}",
        )
    else:
        st.caption("After the first validation you will see here which digits the model confuses, and the worst mistakes "
                   "as pictures.")  # fmt: skip
        return
    st.subheader(f"What it gets wrong, on {of}", anchor=False)
    left, right = st.columns(2)
    with left:
        st.markdown("**Confusion matrix**: rows are the digits, columns the answers")
        plot(score_charts.confusion_drawn(evaluation.confusion), key="confusion", alt="Confusion matrix of the ten digits")
    with right:
        st.markdown("**Accuracy of each digit**")
        plot(score_charts.per_digit_drawn(evaluation.confusion, evaluation.unanswered_by_label), key="per_digit",
             alt="Accuracy of each of the ten digits")  # fmt: skip
    if evaluation.unanswered:
        st.warning(f"{evaluation.unanswered:,} digits got no answer at all: the network gave NaN or infinity for them. They "
                   "count as wrong and stand in no column of the confusion matrix.", icon=":material/error:")  # fmt: skip
    if evaluation.mistakes:
        st.markdown("**Most confidently wrong**")
        st.html("".join(_mistake(one) for one in evaluation.mistakes))
        st.caption("it is → the model said (how sure it was)")


@lru_cache(maxsize=256)
def _mistake(one: Mistake) -> str:
    image = np.frombuffer(one.image, np.uint8).reshape(28, 28)
    words = f"{one.label} → {one.predicted} ({one.probability:.0%})"
    return pictures.figure(image, words, f"A {one.label} taken for a {one.predicted}")


def _downloads(snapshot: RunSnapshot, parent: RunSnapshot | None) -> None:
    run_id, view, locked = snapshot.info.run_id, session.charts_view(), not may_control()
    with st.container(horizontal=True):
        st.download_button("Metrics (CSV)", exported(lambda: metrics_csv(snapshot)), f"{run_id}-steps.csv", "text/csv",
                           on_click="ignore", disabled=locked or not len(snapshot.steps))  # fmt: skip
        _weights(snapshot)
        st.button("Use these settings", icon=":material/tune:", key="use_settings", on_click=form_session.use_settings,
                  args=(snapshot.config,), help="Fills the form in the sidebar with this run's settings: change one of them "
                  "and start again.")  # fmt: skip
        st.download_button("Settings (JSON)", snapshot.config.to_json(), f"{run_id}-config.json", "application/json",
                           on_click="ignore", disabled=locked)  # fmt: skip
        _script(snapshot)
        st.download_button("Charts (HTML)", exported(lambda: charts.standalone_html(snapshot, view, parent).encode()),
                           f"{run_id}-charts.html", "text/html", on_click="ignore",
                           disabled=locked or not len(snapshot.steps))  # fmt: skip

    st.caption(disk_words(run_folder(runs_root(), run_id)))


def _script(snapshot: RunSnapshot) -> None:
    """The run as one Python file."""
    info, started = snapshot.info, snapshot.started
    words = "One Python file with nothing of Digit Lab in it: PyTorch's own calls only, and the same losses to the last bit."
    if info.parent or not started:
        words = "Only for runs that were trained from weights of their own."
    can = bool(started and session.has_torch() and not info.parent and may_control())

    def text() -> bytes:
        from core.run_script import run_script

        assert started is not None
        return run_script(info.run_id, snapshot.config, started).encode()

    st.download_button("Script (Python)", exported(text), f"{info.run_id}.py", "text/x-python", on_click="ignore",
                       disabled=not can, help=words)  # fmt: skip


_PROOF_WORDS: dict[Literal["repeat", "resume"], tuple[str, str]] = {
    "repeat": ("Prove that it repeats", "Trains the first 60 steps twice from the same start."),
    "resume": ("Prove that it resumes", "Trains the first 60 steps in one go, and again in two parts with a file in between."),
}


def _proofs(snapshot: RunSnapshot) -> None:
    """Buttons that try out whether these settings repeat and resume bit for bit, and what came of it."""
    info = snapshot.info
    if not session.has_torch() or not snapshot.started or info.parent:  # it did not begin as its settings say
        return
    from core.proofs import Proof, words_of

    for kind, (label, words) in _PROOF_WORDS.items():
        name = session.proof_job(snapshot.info.run_id, kind)
        job = get_trainer().jobs.get(name)
        working = job is not None and job.status.is_active
        with st.container(horizontal=True, vertical_alignment="center"):
            if working:
                st.button("Stop the proof", icon=":material/stop:", key=f"stop_{kind}", on_click=session.cancel_job,
                          args=(name,), disabled=not may_control())  # fmt: skip
            else:
                st.button(label, icon=":material/fact_check:", key=f"prove_{kind}", on_click=session.start_proof,
                          args=(snapshot.info.run_id, kind, snapshot.config), disabled=not may_control())  # fmt: skip
            if job is None:
                st.caption(f"{words} Every bit of weights and optimizer is compared after each step.", width="content")
            elif working:
                st.progress(job.progress.share, text=f"{job.progress.message} …", width="stretch")
            elif job.status == RunStatus.FAILED:
                st.caption(f":material/error: {theme.plain(job.reason)}", width="content")
            elif proof := next((one for one in job.results if isinstance(one, Proof)), None):
                icon = ":material/verified:" if proof.holds else ":material/error:"
                st.caption(f"{icon} {theme.plain(words_of(proof))}", width="content")
            else:
                st.caption("Stopped.", width="content")


_FORMAT_WORDS = {
    "state_dict": "state_dict (recommended)", "whole_model": "whole model", "safetensors": "safetensors",
    "tutorial": "state_dict under a guide's names",
}  # fmt: skip
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


def _weights(snapshot: RunSnapshot) -> None:
    """The best or last weights in three formats, each with the lines that load it."""
    files = model_session.saved_weights(snapshot.info.run_id)
    off = not files or not session.has_torch() or not may_control()
    with st.popover("Weights", icon=":material/download:", disabled=off,
                    help=None if files else "There are none before the first validation, or before the run ends."):  # fmt: skip
        if off:
            return
        from core.checkpoints import load_weights
        from core.weight_files import FILE_NAMES, WeightFormat, formats_of, loading_lines, packed

        kind = WeightFormat(st.radio("Format", formats_of(snapshot.config), format_func=_FORMAT_WORDS.__getitem__,
                                     key=f"weight_format_{snapshot.config.model}"))  # fmt: skip
        st.caption(_FORMAT_HELP[kind])
        which = st.radio("Which", files, format_func=theme.WEIGHTS_WORDS.__getitem__, key=f"weights_{'_'.join(files)}",
                         horizontal=True)  # fmt: skip
        path = run_folder(runs_root(), snapshot.info.run_id) / f"{which}.pt"
        content = exported(lambda: packed(kind, load_weights(path)["weights"], snapshot.config))
        st.download_button(f"Download {FILE_NAMES[kind]}", content,
                           FILE_NAMES[kind], "application/octet-stream", on_click="ignore", type="primary")  # fmt: skip
        st.code(loading_lines(kind, snapshot.config), language="python")


def disk_words(folder: Path) -> str:
    """What a run keeps on the disk, and what for."""
    sizes, states = disk_bytes(folder), len(saved_states(folder))
    return (f"On disk: {sum(sizes.values()) / 2**20:.1f} MiB. {states} checkpoint{'s' if states != 1 else ''} to resume from "
            f"({sizes['states'] / 2**20:.1f} MiB), snapshots of the weights along the way ({sizes['snapshots'] / 2**20:.1f} "
            f"MiB), metrics and best and last weights ({sizes['rest'] / 2**20:.1f} MiB).")  # fmt: skip


def run_label(info: RunInfo) -> str:
    """A run in one line of a list. Nothing that changes while it trains: a select box takes another label for another run."""
    return f"{info.run_id} · {theme.MODEL_WORDS.get(info.model, info.model)}"


def empty_panel() -> None:
    """Before the first run: what will appear here."""
    with st.container(border=True):
        st.markdown("#### What you will see here")
        st.markdown(
            "- **Loss**, falling from about 2.3 (guessing) towards 0, for every step and for the validation digits\n"
            "- **Accuracy** on digits it trains on and on digits it never saw\n"
            "- **Learning rate**, **gradient norm** and **memory**\n"
            "- after each epoch, the digits it confuses and its worst mistakes as pictures\n\n"
            f"Press **Start training**. Runs are kept in `{runs_root()}/`; they go on when you close this page."
        )
