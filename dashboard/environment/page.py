"""Environment: is the installation sound, and what does it compute with?"""

from typing import cast

import streamlit as st

from core.execution.process import get_jobs
from core.finding import Finding, Verdict
from core.machine.check import as_text
from dashboard import wording
from dashboard.environment import session as environment_session

_MARKS = {
    Verdict.OK: ":green[:material/check_circle:] ok",
    Verdict.NOTE: ":orange[:material/info:] note",
    Verdict.FAIL: ":red[:material/error:] mend",
}


def page() -> None:
    """The whole page."""
    st.title("Environment", anchor=False)
    st.caption(
        "Looks at this installation, then multiplies two matrices on each device and checks the result against "
        "float64 on the CPU. In a terminal: `python -m core check`."
    )
    job = get_jobs().get(environment_session.CHECK_JOB)
    if job is None:
        environment_session.start_check()
    running = job is None or job.status.is_active
    st.button(
        "Check again", on_click=environment_session.start_check, icon=":material/refresh:", disabled=running, type="primary"
    )
    st.fragment(_findings, run_every=0.5 if running else 30.0)(running)


def _findings(was_running: bool) -> None:
    job = get_jobs().get(environment_session.CHECK_JOB)
    if job is None:
        return
    if was_running != job.status.is_active:
        st.rerun()
    lines = [cast(Finding, line) for line in job.results]
    st.caption("Looking …" if was_running else _summary(lines))
    st.markdown(_table(lines))
    if job.reason:
        st.error(wording.plain(job.reason))
    if not was_running:
        st.markdown("**As text, for a bug report**")
        st.code(as_text(lines), language=None)


def _table(lines: list[Finding]) -> str:
    rows = ["| | What | Found |", "|:--|:--|:--|"]
    for line in lines:
        advice = f" → *{_one_line(line.advice)}*" if line.advice else ""
        rows.append(f"| {_MARKS[Verdict(line.verdict)]} | **{_one_line(line.name)}** | {_one_line(line.evidence)}{advice} |")
    return "\n".join(rows)


def _one_line(words: str) -> str:
    """A device's errors have several lines, which would end the table."""
    return wording.plain(" ".join(words.split()))


def _summary(lines: list[Finding]) -> str:
    failed = [line.name for line in lines if line.verdict == Verdict.FAIL]
    return f"To mend: {', '.join(failed)}." if failed else "Everything that training needs works."


page()
