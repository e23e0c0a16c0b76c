"""Which model answers, on every page that asks one. With the other `*session.py` files the only ones that touch
Streamlit's state."""

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.data.sources import data_root, load_pool, missing_files
from core.errors import CoreError
from core.execution.process import get_jobs, get_trainer
from core.runs.folder import RunFolder, runs_root
from core.runs.info import RunInfo, read_info
from core.status import Progress, RunStatus
from dashboard.shell import run_session, widget_session
from dashboard.shell.policy_session import controlled

if TYPE_CHECKING:
    from core.model.predictor import Predictor

LIVE, BEST, LAST = "live", "best", "last"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that answers.

    Attributes:
        kind: LIVE, BEST or LAST. predictor: None when `problem` says why, or when the first live weights are on their way.
    """

    info: RunInfo
    kind: str
    predictor: "Predictor | None"
    problem: str = ""

    @property
    def is_live(self) -> bool:
        """True when its weights still change."""
        return self.kind == LIVE


def model_choices() -> list[RunInfo]:
    """Runs that can answer, newest first: those that train here, and those that have saved weights."""
    active = get_trainer().active()
    return [info for info in run_session.recent_runs() if info.run_id in active or saved_weights(info.run_id)]


def saved_weights(run_id: str) -> list[str]:
    """Which weights of a run lie in its folder, as <name>.pt: BEST, LAST, both or none."""
    folder = RunFolder.of(run_id)
    return [kind for kind in (BEST, LAST) if folder.weights(kind).exists()]


def chosen_run(choices: list[RunInfo]) -> RunInfo | None:
    """The run to ask: the one that is shown, else the one that trains, else the newest that can answer."""
    by_id = {info.run_id: info for info in choices}
    for run_id in (run_session.shown_run(), *get_trainer().active()):
        if run_id in by_id:
            return by_id[run_id]
    return choices[0] if choices else None


def missing_run(choices: list[RunInfo]) -> str:
    """Why the run that was asked for does not answer, in words; "" when it does, or none was asked for."""
    wanted = st.session_state.get("shown_run")
    if not wanted or any(info.run_id == wanted for info in choices):
        return ""
    if not run_session.is_here(wanted):
        return f"{run_session.NOT_HERE} Another one answers."
    return f"Run {wanted} has no weights yet. Another one answers."


def choose_model(key: str, drawn: str) -> None:
    """Ask the run that a widget names; it was drawn with `drawn`."""
    if run_id := widget_session.changed_choice(key, drawn):
        run_session.show_run(run_id)


SECOND_KEY = "second_model"


def second_run(choices: list[RunInfo]) -> RunInfo | None:
    """The run that answers beside the chosen one; None when none was asked for, or it is gone."""
    wanted, chosen = st.session_state.get(SECOND_KEY), chosen_run(choices)
    return next((info for info in choices if info.run_id == wanted and info != chosen), None)


def asks_live(choices: list[RunInfo]) -> bool:
    """True when a model that answers is in training."""
    return any(info is not None and chosen_kind(info) == LIVE for info in (chosen_run(choices), second_run(choices)))


def has_live_weights(choices: list[RunInfo]) -> bool:
    """Whether the model in training that is asked has handed out weights yet."""
    info = chosen_run(choices)
    return info is not None and chosen_kind(info) == LIVE and get_trainer().weights(info.run_id) is not None


def waits_for_digits(choices: list[RunInfo]) -> bool:
    """True while the digits of the answering model's data set are being read, for company and comparison."""
    info = chosen_run(choices)
    return info is not None and bool(info.dataset) and digits_ready(info.dataset) == (False, "")


def chosen_kind(info: RunInfo) -> str:
    """Which weights of a run are asked."""
    kinds = weights_choices(info) or [LIVE]
    kind = st.session_state.get(weights_key(info, kinds))
    return kind if kind in kinds else kinds[0]


def weights_key(info: RunInfo, kinds: list[str]) -> str:
    """The key of the widget that chooses among them."""
    return f"weights_{info.run_id}_{len(kinds)}"


def weights_choices(info: RunInfo) -> list[str]:
    """Which weights of a run there are."""
    live = [LIVE] if info.run_id in get_trainer().active() else []
    return live + saved_weights(info.run_id)


def chosen_model(choices: list[RunInfo]) -> Chosen | None:
    """The model that answers, loaded; None when there is none."""
    info = chosen_run(choices)
    return load_model(info.run_id, chosen_kind(info)) if info else None


def second_model(choices: list[RunInfo]) -> Chosen | None:
    """The model that answers beside the chosen one, loaded; None when none was asked for."""
    info = second_run(choices)
    return load_model(info.run_id, chosen_kind(info)) if info else None


def load_model(run_id: str, kind: str) -> Chosen:
    """Load a run's weights; live ones as new as there are."""
    from core.model.predictor import Predictor, load_predictor

    try:
        info = read_info(RunFolder.of(run_id).path)
    except CoreError as error:
        return Chosen(RunInfo(run_id, RunStatus.FAILED), kind, None, str(error))
    try:
        if kind != LIVE:
            return Chosen(info, kind, load_predictor(RunFolder.of(run_id).weights(kind)))
        live = get_trainer().weights(run_id)
        if live is None:
            return Chosen(info, kind, None)
        known = st.session_state.get("live_predictor")
        if known is None or known[:2] != (run_id, live.step):
            known = (run_id, live.step, Predictor(live.weights, live.config, live.step))
            st.session_state.live_predictor = known
        return Chosen(info, kind, known[2])
    except CoreError as error:
        return Chosen(info, kind, None, str(error))


def import_key() -> str:
    """The uploader's key; a new one empties it."""
    return f"import_{st.session_state.get('imports', 0)}"


@controlled
def import_weights(file_id: str, name: str, content: bytes) -> None:
    """Keep weights from a file as a run and ask it; once for each file. Problems are kept for the page."""
    from core.transfer.imported import import_run
    from core.transfer.weights_in import read_weights

    state = st.session_state
    if state.get("import_id") == file_id:
        return
    state.import_id = file_id
    try:
        allowed = os.environ.get("DIGIT_LAB_ALLOW_PICKLE") == "1"
        run_id = import_run(read_weights(content, name, allow_pickle=allowed), name, runs_root())
    except CoreError as error:
        state.import_problem = str(error)
        return
    state.import_problem = ""
    state.imports = state.get("imports", 0) + 1
    run_session.show_run(run_id)
    st.rerun()


def import_problem() -> str:
    """Why the last file was not taken; "" when it was."""
    return st.session_state.get("import_problem", "")


def _files_state() -> str:
    """Another one when MNIST's files have come whole, have gone, or are others."""
    root = data_root()
    if missing_files(root):
        return "missing"  # as long as a download is under way
    with suppress(OSError):
        found = [path.stat() for path in sorted((root / "MNIST" / "raw").glob("*-ubyte*")) if path.suffix != ".part"]
        return f"{zlib.crc32(repr([(one.st_size, one.st_mtime_ns) for one in found]).encode()):08x}"
    return "missing"


def digits_ready(dataset: str) -> tuple[bool, str]:
    """(True when a data set is in memory, "" or why it cannot be). Reading it is a job: it takes a second or two, and is tried
    again once the files are others."""
    name = f"digits-{dataset}-{_files_state() if dataset == 'mnist' else ''}"
    job = get_jobs().get(name)
    if job is None:

        def steps() -> Any:
            yield Progress(0, 0, "Reading the digits")
            load_pool(dataset, data_root())

        get_jobs().start(name, steps, lasting=True)
        return False, ""
    if job.status == RunStatus.FAILED:
        return False, job.reason
    return not job.status.is_active, ""
