"""Proofs that a run repeats and resumes bit for bit."""

from typing import Literal

import streamlit as st

from core.execution.process import get_jobs
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import wording
from dashboard.shell import start_session, torch_ready
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session

_PROOF_WORDS: dict[Literal["repeat", "resume"], tuple[str, str]] = {
    "repeat": ("Prove that it repeats", "Trains the first 60 steps twice from the same start."),
    "resume": ("Prove that it resumes", "Trains the first 60 steps in one go, and again in two parts with a file in between."),
}


def proofs(snapshot: RunView) -> None:
    """Buttons that try out whether these settings repeat and resume bit for bit, and what came of it."""
    info = snapshot.info
    if not torch_ready.has_torch() or not snapshot.started or info.parent:
        st.caption("Only a run that began as its settings say can be proved: no fork, no lesson, and one that has begun.")
        return
    from core.preflight.repeatability import Proof, words_of

    for kind, (label, words) in _PROOF_WORDS.items():
        name = train_session.proof_job(snapshot.info.run_id, kind)
        job = get_jobs().get(name)
        working = job is not None and job.status.is_active
        with st.container(horizontal=True, vertical_alignment="center"):
            if working:
                st.button(
                    "Stop the proof",
                    icon=":material/stop:",
                    key=f"stop_{kind}",
                    on_click=start_session.cancel_job,
                    args=(name,),
                    disabled=not may_control(),
                )
            else:
                st.button(
                    label,
                    icon=":material/fact_check:",
                    key=f"prove_{kind}",
                    on_click=train_session.start_proof,
                    args=(snapshot.info.run_id, kind, snapshot.config),
                    disabled=not may_control(),
                )
            if job is None:
                st.caption(f"{words} Every bit of weights and optimizer is compared after each step.", width="content")
            elif working:
                st.progress(job.progress.share, text=f"{job.progress.message} …", width="stretch")
            elif job.status == RunStatus.FAILED:
                st.caption(f":material/error: {wording.plain(job.reason)}", width="content")
            elif proof := next((result for result in job.results if isinstance(result, Proof)), None):
                icon = ":material/verified:" if proof.holds else ":material/error:"
                st.caption(f"{icon} {wording.plain(words_of(proof))}", width="content")
            else:
                st.caption("Stopped.", width="content")
