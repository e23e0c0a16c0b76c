"""The model that answers, in one line: where it comes from, and the way to another one."""

import streamlit as st

from core.runs.info import RunInfo
from dashboard import wording
from dashboard.models import model_session
from dashboard.models.model_session import Chosen
from dashboard.shell import start_session
from dashboard.shell.policy_session import may_control
from dashboard.wording import run_labels


def model_row(chosen: Chosen, choices: list[RunInfo], more: str = "", *, compares: bool = False) -> None:
    """Draw the line; `more` is said behind it. `compares`: a second model may be asked beside it."""
    info = chosen.info
    if missing := model_session.missing_run(choices):
        st.warning(missing, icon=":material/link_off:")
    with st.container(horizontal=True, vertical_alignment="center", key="model_row"):
        st.markdown(f"{model_words(chosen)}{more}", width="stretch")
        with st.popover("Change model", icon=":material/swap_horiz:"):
            labels = run_labels(choices)
            key = f"draw_model_{info.run_id}"
            st.selectbox(
                "Model",
                list(labels),
                list(labels).index(info.run_id),
                format_func=labels.__getitem__,
                key=key,
                on_change=model_session.choose_model,
                args=(key, info.run_id),
            )
            if kinds := model_session.weights_choices(info):
                st.selectbox(
                    "Weights",
                    kinds,
                    key=model_session.weights_key(info, kinds),
                    persist_state="session",
                    format_func=wording.WEIGHTS_WORDS.__getitem__,
                )
            _import()
        if compares:
            _second(info, choices)


def _second(info: RunInfo, choices: list[RunInfo]) -> None:
    """Another model to ask beside this one."""
    others = run_labels([other for other in choices if other.run_id != info.run_id])
    with st.popover("Compare", icon=":material/compare_arrows:", disabled=not others):
        st.selectbox(
            "Ask a second model, too",
            list(others),
            None,
            format_func=others.__getitem__,
            key=model_session.SECOND_KEY,
            persist_state="session",
            placeholder="none",
            help="Both answer the same image, in eval mode; its bars stand beside this model's.",
        )


def _import() -> None:
    """Weights from a file, as a run of their own."""
    given = st.file_uploader(
        "Or weights from a file",
        type=["pt", "pth", "bin", "safetensors"],
        key=model_session.import_key(),
        max_upload_size=64,
        disabled=not may_control(),
        help="A state_dict, a checkpoint of this dashboard, or safetensors, of one of the networks here. "
        "Nothing in the file is executed.",
    )
    if given is not None:
        model_session.import_weights(given.file_id, given.name, given.getvalue())
    if problem := model_session.import_problem():
        st.error(wording.plain(problem))


def model_words(chosen: Chosen) -> str:
    """Where the answering model comes from."""
    info, predictor = chosen.info, chosen.predictor
    if predictor is None:
        return wording.plain(chosen.problem) if chosen.problem else "The first weights are on their way …"
    name = wording.MODEL_WORDS[predictor.config.model]
    where = f"run {info.run_id}, step {predictor.step:,}"
    if chosen.is_live:
        return f"**{name}**, {where} of {info.total_steps:,}, training now; its weights are looked at again each second"
    score = f"imported from {wording.plain(info.imported)}, not tested" if info.imported else "not tested"
    if chosen.kind == "best" and info.test_accuracy is not None:
        score = f"test accuracy {info.test_accuracy:.2%}"
    elif chosen.kind == "best" and info.best_accuracy is not None:
        score = f"validation accuracy {info.best_accuracy:.2%}, not tested"
    parent = f", started from run {wording.plain(info.parent)} (step {info.parent_step or 0:,})" if info.parent else ""
    return f"**{name}**, {where}, **{score}**{parent}"


def model_warning(chosen: Chosen) -> None:
    """What is broken about the answering model's weights or statistics, on every page that asks it."""
    if chosen.predictor is None:
        return
    from core.modes.norm_layers import statistics_problems

    if problems := statistics_problems(chosen.predictor.model):
        more = f" And {len(problems) - 3} more." if len(problems) > 3 else ""
        st.warning(
            wording.plain(" ".join(problems[:3]))
            + f"{more} Its answers in eval mode are wrong, or no answers at all. The experiment *Poisoning* on the page "
            "Train/eval shows how statistics are recalibrated."
        )


def nothing_yet(words: str, preset: str) -> None:
    """No model: offer to train one of a preset; `words` say why this one."""
    with st.container(border=True):
        st.markdown("#### No model can answer yet")
        st.markdown(words)
        st.button(
            "Train a model now",
            type="primary",
            icon=":material/play_arrow:",
            key="first_model",
            on_click=start_session.start_preset,
            args=(preset,),
            disabled=not may_control(),
        )
        if problem := start_session.start_problem():
            st.error(wording.plain(problem))
