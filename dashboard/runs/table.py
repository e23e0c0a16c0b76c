"""The table of runs, and what one can do with the chosen ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from core.config.presets import PRESETS
from core.config.text import format_value
from core.config.train_config import field_kind, settings
from core.execution.process import get_jobs, get_readers
from core.runs.folder import RunFolder, runs_root
from core.runs.index import RESULTS, RunRow, differing
from core.runs.notes import MAX_NAME, MAX_NOTE
from core.runs.trash import deleted_bytes, deleted_runs
from core.transfer.run_zip import Unpacked, pack_run
from dashboard import wording
from dashboard.runs import session as runs_session
from dashboard.shell import run_session
from dashboard.shell.policy_session import exported, may_control

MAX_UPLOAD_MB = 64
MAX_TENSORBOARD_RUNS = 30  # writing one takes up to two seconds

_COLUMNS = {
    "status": st.column_config.TextColumn("Status", width=100),
    "name": st.column_config.TextColumn("Run", width=190, pinned=True),
    "validation": st.column_config.NumberColumn("Validation (%)", format="%.2f", help="Best accuracy on validation digits."),
    "test": st.column_config.NumberColumn("Test (%)", format="%.2f", help="Accuracy on test digits, scored at the end."),
    "rate": st.column_config.NumberColumn("Images/s", format="%d"),
    "seconds": st.column_config.NumberColumn("Training (s)", format="%.1f"),
    "started": st.column_config.DatetimeColumn("Started", format="YYYY-MM-DD HH:mm:ss"),
    "preset": st.column_config.TextColumn("Preset"),
    "tags": st.column_config.ListColumn("Tags"),
    "note": st.column_config.TextColumn("Note", width=200),
    "parent": st.column_config.TextColumn("Parent", width=190),
    "id": st.column_config.TextColumn("Id", width=190),
}
MAX_SETTINGS = 12  # columns for settings; more of them are for a file


def runs_table(rows: list[RunRow]) -> None:
    """Draw the table; which rows are chosen is kept by id."""
    ids = [row.run_id for row in rows]
    key, chosen = runs_session.table_key(ids), set(runs_session.selected_ids())
    places = [place for place, run_id in enumerate(ids) if run_id in chosen]
    st.dataframe(
        frame_of(rows),
        key=key,
        hide_index=True,
        height=min(420, 38 + 35 * max(2, len(rows))),
        row_height=35,
        column_config=_COLUMNS | _setting_columns(rows),
        on_select=lambda: runs_session.take_selection(key),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": places}},
        placeholder="–",
        alt="All runs with their settings and results",
    )


def frame_of(rows: Sequence[RunRow]) -> pd.DataFrame:
    """The rows as the table and its CSV show them."""
    columns = {
        "status": ["Damaged" if row.damage else wording.STATUS_WORDS[row.info.status][0] for row in rows],
        "name": [row.title for row in rows],
        "validation": pd.array([_percent(row.result("best_accuracy")) for row in rows], "Float64"),
        "test": pd.array([_percent(row.result("test_accuracy")) for row in rows], "Float64"),
        "rate": pd.array([row.images_per_second for row in rows], "Float64"),
        "seconds": pd.array([row.result("train_seconds") for row in rows], "Float64"),
        "started": [datetime.fromtimestamp(_moment(row)) if _moment(row) else None for row in rows],
        "preset": [PRESETS[row.info.preset].title if row.info.preset in PRESETS else "" for row in rows],
        "tags": [list(row.notes.tags) for row in rows],
        "note": [row.notes.note for row in rows],
        "parent": [row.info.parent or "" for row in rows],
        "id": [row.run_id for row in rows],
    }
    first = ("status", "name", "validation", "test")
    shown = {name: columns[name] for name in first}
    shown |= {name: _values(name, rows) for name in _setting_columns(rows)}
    return pd.DataFrame(shown | {name: values for name, values in columns.items() if name not in first})


def _setting_columns(rows: Sequence[RunRow]) -> dict[str, Any]:
    """A column for each setting in which the rows differ, under the form's own name; numbers sort as numbers."""
    found = {}
    for name in list(differing(rows))[:MAX_SETTINGS]:
        setting = settings()[name]
        if field_kind(name) in (int, float) and not setting.choices:
            found[name] = st.column_config.NumberColumn(setting.label, help=setting.help, format=_NUMBERS[field_kind(name)])
        else:
            found[name] = st.column_config.TextColumn(setting.label, help=setting.help)
    return found


_NUMBERS = {int: "localized", float: "%g"}


def _values(name: str, rows: Sequence[RunRow]) -> Any:
    """One setting of every row; empty where the settings cannot be read."""
    values = [getattr(row.config, name) if row.config else None for row in rows]
    if field_kind(name) in (int, float) and not settings()[name].choices:
        return pd.array([None if value is None else float(value) for value in values], "Float64")
    return ["" if value is None else wording.CHOICE_WORDS.get(value, format_value(value)) for value in values]


def sort_row(rows: list[RunRow]) -> list[RunRow]:
    """The rows in the order that a person has chosen. The table's own, by a click on a column, is lost when a run appears."""
    labels = {name: settings()[name].label for name in _setting_columns(rows)}
    names: dict[str, str] = {"": "Newest first", **RESULTS, **labels}
    with st.container(horizontal=True, vertical_alignment="bottom", width="content", gap="xsmall"):
        by = st.selectbox(
            "Order",
            list(names),
            key=runs_session.ORDER_KEY,
            format_func=lambda name: names.get(name) or str(name),
            width=230,
            persist_state="session",
        )
        upwards = st.toggle("Smallest first", key=runs_session.UPWARDS_KEY, persist_state="session", disabled=not by)
    if not by:
        return rows
    known = [(value, row) for row in rows if (value := _sortable(by, row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=not upwards)
    return [row for _, row in known] + [row for row in rows if _sortable(by, row) is None]


def _sortable(by: str, row: RunRow) -> Any:
    """What a row is sorted by; None, which comes last, where it is not known."""
    if by in RESULTS:
        return row.result(by)
    value = getattr(row.config, by, None) if row.config else None
    return str(value) if settings()[by].choices and value is not None else value


def table_csv(rows: Sequence[RunRow]) -> bytes:
    """The table as a file. A text that a spreadsheet would take for a formula is marked as text."""
    frame = frame_of(rows)
    frame.insert(0, "id", frame.pop("id"))  # what other files name a run by comes first
    frame["tags"] = [", ".join(tags) for tags in frame["tags"]]
    for name in frame.columns:
        if frame[name].dtype == object or str(frame[name].dtype).startswith("str"):
            frame[name] = [_as_text(value) if isinstance(value, str) else value for value in frame[name]]
    return frame.to_csv(index=False).encode()


def _as_text(value: str) -> str:
    value = " ".join(value.split())  # a line's end within a name would be a row's end to some programs
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value


def _moment(row: RunRow) -> float:
    """A file from elsewhere may hold any number."""
    return row.info.created_at if 0 < row.info.created_at < 4e9 else 0.0


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def actions(chosen: list[RunRow]) -> None:
    """Buttons for the chosen runs."""
    ids, locked = [row.run_id for row in chosen], not may_control()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{len(chosen)} chosen**" if len(chosen) != 1 else f"**{wording.plain(chosen[0].title)}**", width="content"
        )
        if len(chosen) == 1:
            if st.button("Open", icon=":material/open_in_new:", key="runs_open"):
                run_session.show_run(ids[0])
                st.switch_page("train/page.py")
            _notes(chosen[0])
        else:
            with st.popover("Add tags", icon=":material/sell:"):
                st.text_input("Tags", key="runs_new_tags", placeholder="class 7b, homework")
                st.button(
                    "Add to all chosen", on_click=runs_session.add_tags, args=(chosen,), key="runs_add_tags", disabled=locked
                )
        archived = all(row.notes.archived for row in chosen)
        st.button(
            "Put back" if archived else "Archive",
            icon=":material/archive:",
            key="runs_archive",
            on_click=runs_session.archive,
            args=(ids, not archived),
            disabled=locked,
            help="Archived runs are kept and only left out of the table.",
        )
        _export(chosen)
        st.button(
            "Delete", icon=":material/delete:", key="runs_delete", on_click=runs_session.delete, args=(ids,), disabled=locked
        )
        st.button("Choose none", type="tertiary", key="runs_none", on_click=runs_session.select, args=((),))
    for row in chosen:
        if row.damage:
            st.warning(f"Run {row.run_id}: {wording.plain(row.damage)}")


def _notes(row: RunRow) -> None:
    revision = hash(row.notes) & 0xFFFF  # another tab's change begins new fields
    with st.popover("Name, tags, note", icon=":material/edit:"):
        st.text_input(
            "Name", row.notes.name, max_chars=MAX_NAME, key=f"notes_name_{row.run_id}_{revision}", placeholder=row.run_id
        )
        st.text_input(
            "Tags, with commas between them",
            ", ".join(row.notes.tags),
            key=f"notes_tags_{row.run_id}_{revision}",
            placeholder="class 7b, homework",
        )
        st.text_area("Note", row.notes.note, max_chars=MAX_NOTE, key=f"notes_note_{row.run_id}_{revision}")
        st.button(
            "Keep",
            type="primary",
            on_click=runs_session.save_notes,
            args=(row.run_id, revision),
            key="notes_keep",
            disabled=not may_control(),
        )


def _export(chosen: list[RunRow]) -> None:
    with st.popover("Export", icon=":material/download:"):
        if not may_control():
            st.caption("Taking runs along needs the password of this server.")
            return
        if len(chosen) == 1:
            run_id = chosen[0].run_id
            folder = RunFolder.of(run_id).path
            st.download_button(
                "Whole run (zip)",
                exported(lambda: pack_run(folder)),
                f"{run_id}.zip",
                "application/zip",
                on_click="ignore",
                help="For another machine: settings, metrics, weights and states, with "
                "digests. Take it in below the table there.",
            )
            for kind, mime in (("csv", "text/csv"), ("parquet", "application/vnd.apache.parquet")):
                st.download_button(
                    f"Metrics ({'CSV' if kind == 'csv' else 'Parquet'})",
                    _metrics(run_id, kind),
                    f"{run_id}-steps.{kind}",
                    mime,
                    on_click="ignore",
                )
            if (size := sum(RunFolder(folder).disk_bytes().values())) > MAX_UPLOAD_MB * 10**6:
                st.caption(
                    f":material/info: The run has {size / 10**6:,.0f} MB; the page takes in zips of up to "
                    f"{MAX_UPLOAD_MB} MB. Copy its folder into the other machine's runs folder instead."
                )
        many = len(chosen) > MAX_TENSORBOARD_RUNS
        st.download_button(
            "TensorBoard event files (zip)",
            _tensorboard([row.run_id for row in chosen]),
            "tensorboard.zip",
            "application/zip",
            on_click="ignore",
            disabled=many,
        )
        st.caption(
            f"At most {MAX_TENSORBOARD_RUNS} runs at a time." if many else "Unpack it, then: tensorboard --logdir FOLDER"
        )


def _metrics(run_id: str, kind: str):
    def content() -> bytes:
        from core.transfer.metrics_files import metrics_csv, metrics_parquet

        return (metrics_csv if kind == "csv" else metrics_parquet)(get_readers().read(runs_root(), run_id))

    return exported(content)


def _tensorboard(ids: list[str]):
    def content() -> bytes:
        from core.transfer.metrics_files import tensorboard_zip

        return tensorboard_zip([get_readers().read(runs_root(), run_id) for run_id in ids])

    return exported(content)


def below_table(rows: list[RunRow]) -> None:
    """What is there for all runs: the table as a file, runs from elsewhere, deleted runs."""
    with st.container(horizontal=True):
        st.download_button(
            "This table (CSV)",
            exported(lambda: table_csv(rows)),
            "runs.csv",
            "text/csv",
            on_click="ignore",
            disabled=not rows or not may_control(),
        )
        with st.popover("Take a run in", icon=":material/upload:"):
            key = runs_session.upload_key()
            st.file_uploader(
                "A run's zip, from another machine",
                type="zip",
                key=key,
                max_upload_size=MAX_UPLOAD_MB,
                disabled=not may_control(),
                on_change=runs_session.import_zip,
                args=(key,),
            )
            st.caption("Every file in it is checked against its digest and read once; nothing in it is executed.")
        deleted = deleted_runs(runs_root())
        with st.popover(
            f"Deleted runs ({len(deleted)})", icon=":material/delete:", disabled=not deleted, key="runs_bin", on_change="rerun"
        ) as opened:
            if opened.open:
                _deleted(deleted)
    _import_state()


def _deleted(deleted: list[str]) -> None:
    locked = not may_control()
    st.caption(f"They take {deleted_bytes(runs_root()) / 2**20:.1f} MiB and stay until you delete them for good.")
    wanted = st.multiselect("Bring back", deleted, key=f"runs_restore_{len(deleted)}")
    st.button(
        "Bring back", disabled=locked or not wanted, on_click=runs_session.restore, args=(wanted,), key="runs_restore_button"
    )
    sure = st.checkbox(
        f"Yes, delete {'it' if len(deleted) == 1 else f'all {len(deleted)}'} for good",
        disabled=locked,
        key=f"runs_sure_{len(deleted)}",
    )
    st.button(
        "Delete for good",
        icon=":material/delete_forever:",
        on_click=runs_session.delete_for_good,
        key="runs_empty",
        disabled=locked or not sure,
    )


def _import_state() -> None:
    job = get_jobs().get(runs_session.import_job())
    if job is None:
        return
    if job.status.is_active:
        st.progress(job.progress.share, text=f"{job.progress.message} …")
    elif job.reason:
        st.error(f"The file was not taken in: {wording.plain(job.reason)}")
    for came in job.results:
        if isinstance(came, Unpacked):
            st.success(f"Run {came.run_id} is here. {wording.plain(' '.join(came.notes))}")


def undo_row() -> None:
    """After a deletion: the way back."""
    ids = runs_session.just_deleted()
    if not ids:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"Deleted {ids[0] if len(ids) == 1 else f'{len(ids)} runs'}.", width="content")
        st.button(
            "Undo",
            icon=":material/undo:",
            key="runs_undo",
            on_click=runs_session.restore,
            args=(ids,),
            disabled=not may_control(),
        )
