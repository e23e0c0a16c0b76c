"""The train/eval page once PyTorch is there: a model, questions, and the answer to one of them."""

from typing import Any

import streamlit as st

from core.errors import Failure
from core.execution.jobs import JobView
from core.runs.info import RunInfo
from core.status import RunStatus
from dashboard import wording
from dashboard.models import model_session
from dashboard.models.model_row import model_row, model_warning, nothing_yet
from dashboard.models.model_session import Chosen
from dashboard.modes import session as modes_session
from dashboard.modes.experiments.batch_size import BATCH_SIZE
from dashboard.modes.experiments.company import COMPANY
from dashboard.modes.experiments.distribution_shift import DISTRIBUTION_SHIFT
from dashboard.modes.experiments.dropout_passes import DROPOUT_PASSES
from dashboard.modes.experiments.during_training import DURING_TRAINING
from dashboard.modes.experiments.eval_or_no_grad import EVAL_OR_NO_GRAD
from dashboard.modes.experiments.inside_layer import INSIDE_LAYER
from dashboard.modes.experiments.one_switch import ONE_SWITCH
from dashboard.modes.experiments.poisoning import POISONING
from dashboard.modes.experiments.warming_up import WARMING_UP
from dashboard.modes.experiments.with_and_without import WITH_AND_WITHOUT
from dashboard.modes.lab import Experiment, Lab, make_lab, newer_weights, point_first
from dashboard.shell import start_session
from dashboard.shell.policy_session import may_control

EXPERIMENTS: dict[str, Experiment[Any]] = {
    "switch": ONE_SWITCH,
    "size": BATCH_SIZE,
    "company": COMPANY,
    "inside": INSIDE_LAYER,
    "warm_up": WARMING_UP,
    "poison": POISONING,
    "shift": DISTRIBUTION_SHIFT,
    "dropout": DROPOUT_PASSES,
    "twins": WITH_AND_WITHOUT,
    "gap": DURING_TRAINING,
    "no_grad": EVAL_OR_NO_GRAD,
}
LAB_PRESET = "train-eval"


def modes_page(choices: list[RunInfo]) -> None:
    """Everything; called at each choice and, while an experiment runs, at each refresh."""
    chosen = model_session.chosen_model(choices)
    if chosen is None:
        nothing_yet(
            "Train one first: the preset *For train and eval* has BatchNorm and Dropout, and is trained in one epoch.",
            LAB_PRESET,
        )
        return
    lab = make_lab(chosen)
    model_row(lab.chosen if lab else chosen, choices)
    name = st.pills(
        "Question",
        list(EXPERIMENTS),
        default="switch",
        required=True,
        key=modes_session.EXPERIMENT_KEY,
        format_func=lambda one: f"{list(EXPERIMENTS).index(one) + 1} {EXPERIMENTS[one].title}",
        bind="query-params",
        label_visibility="collapsed",
    )
    if lab is None:
        _not_yet(chosen)
        return
    _notes(lab)
    experiment = EXPERIMENTS[name]
    st.subheader(experiment.question, anchor=False)
    if not experiment.fits(lab.layers):
        _does_not_fit(experiment, lab)
        return
    _experiment(name, experiment, lab)


def _not_yet(chosen: Chosen) -> None:
    if chosen.predictor is None:
        st.caption("The experiments begin when the model can be read.")
        return
    ready, problem = model_session.digits_ready(chosen.predictor.config.dataset)
    if not ready:
        st.caption(wording.plain(problem) if problem else "Reading the digits …")


def _notes(lab: Lab) -> None:
    """What a person must know about the model before any answer."""
    for note in lab.predictor.notes:
        st.caption(f":material/info: {wording.plain(note)}")
    model_warning(lab.chosen)
    if lab.chosen.is_live:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"This run trains on; the page holds its weights of step {lab.predictor.step:,}.", width="content")
            st.button(
                "Take the newest weights",
                key="m_newer",
                icon=":material/refresh:",
                type="tertiary",
                on_click=newer_weights,
                args=(lab.chosen.info.run_id,),
            )


def _does_not_fit(experiment: Experiment[Any], lab: Lab) -> None:
    missing = {"batchnorm": "BatchNorm", "dropout": "Dropout", "either": "BatchNorm and no Dropout"}[experiment.needs]
    with st.container(border=True):
        st.markdown(
            f"**{wording.MODEL_WORDS[lab.predictor.config.model]}** of this run has no {missing}: both modes give the "
            "same answer, and there is nothing to see here."
        )
        fitting = [one.title for one in EXPERIMENTS.values() if one.fits(lab.layers)]
        st.markdown(
            "What works with it: " + ", ".join(fitting) + ". Or choose another model above, or train one that has "
            "BatchNorm and Dropout:"
        )
        st.button(
            "Train a fitting model",
            type="primary",
            icon=":material/play_arrow:",
            key="m_train",
            on_click=start_session.start_preset,
            args=(LAB_PRESET,),
            disabled=not may_control(),
        )


def _experiment(name: str, experiment: Experiment[Any], lab: Lab) -> None:
    """The answer and its picture first, then what one can change, then why, then the code."""
    answer, picture, row, controls, why = (st.container() for _ in range(5))
    with controls:
        params = experiment.controls(lab)
    # Entries that begin with _ change how an answer is drawn, not the answer.
    asked = {key: value for key, value in params.items() if not key.startswith("_")}
    question = (name, lab.identity, tuple(sorted(asked.items())))
    start = experiment.begins is None or modes_session.is_wanted(question)
    job = modes_session.experiment_job(question, lambda: experiment.steps(lab, params), start=start)
    with row:
        _job_row(experiment, question, job)
    if job is not None and job.results:
        with picture:
            words = experiment.show(lab, params, job.results[-1])
        lead, rest = point_first(words)
        answer.markdown(lead)
        why.markdown(rest)
    with st.expander("The PyTorch lines that do it", icon=":material/code:", key=f"m_code_{name}", on_change="rerun") as box:
        if box.open:
            st.code(experiment.code(lab, params), language="python")


def _job_row(experiment: Experiment[Any], question: object, job: JobView | None) -> None:
    """Progress with a way to stop, or what came of it; one row of the same height in each state."""
    with st.container(horizontal=True, vertical_alignment="center", key="m_job"):
        if job is None:
            words, what = experiment.begins or ("Begin", "")
            st.button(
                words,
                type="primary",
                icon=":material/play_arrow:",
                key="m_run",
                on_click=modes_session.run_again,
                args=(question,),
            )
            st.caption(what, width="stretch")
        elif job.status.is_active:
            st.progress(job.progress.share, text=f"{job.progress.message} …", width="stretch")
            st.button("Stop", icon=":material/stop:", key="m_stop", on_click=modes_session.stop_experiment)
        elif job.failure == Failure.BATCH_OF_ONE:  # what PyTorch does with such a batch; nothing broke, and it would again
            st.info(wording.plain(job.reason), icon=":material/filter_1:", width="stretch")
        elif job.status == RunStatus.FAILED:
            st.error(wording.plain(job.reason), icon=":material/error:", width="stretch")
            st.button("Try again", icon=":material/replay:", key="m_again", on_click=modes_session.run_again, args=(question,))
        else:
            st.button(
                "Again",
                icon=":material/replay:",
                key="m_again",
                type="tertiary",
                on_click=modes_session.run_again,
                args=(question,),
            )
            stopped = job.status == RunStatus.STOPPED
            st.caption("Stopped; what was measured until then is below." if stopped else experiment.measured, width="content")
