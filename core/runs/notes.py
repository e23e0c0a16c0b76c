"""What a person says about a run: its name, tags, a note, and whether it is archived. A file of its own in the run's folder."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import RunError
from core.runs.folder import NOTES
from core.storage.atomic import replace_text
from core.storage.records import json_object, record

MAX_NAME, MAX_TAG, MAX_TAGS, MAX_NOTE = 80, 30, 12, 2000


@dataclass(frozen=True)
class RunNotes:
    """A person's words about a run; all may be empty. The words are text: nothing in them is a path, HTML or Markdown."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    archived: bool = False


def read_notes(folder: Path) -> RunNotes:
    """The notes of a run; empty ones when there are none. Raises RunError when the file is damaged."""
    try:
        return _checked(RunNotes(**json_object((folder / NOTES).read_bytes())))
    except FileNotFoundError:
        return RunNotes()
    except (OSError, ValueError, KeyError, TypeError, RunError) as error:
        raise RunError(f"{NOTES} of run {folder.name} cannot be read ({error}).") from error


def change_notes(folder: Path, **changes: Any) -> RunNotes:
    """Change a run's name, tags, note or archived, and return all.

    Raises:
        RunError: too long, or the folder cannot be written; the notes are then as they were.
    """
    try:
        before = read_notes(folder)
    except RunError:  # a damaged file is replaced by the first change
        before = RunNotes()
    notes = _checked(replace(before, **changes))
    try:
        replace_text(folder / NOTES, json.dumps(asdict(notes), indent=1) + "\n")
    except FileNotFoundError:
        raise RunError(f"There is no run {folder.name}. It may have been deleted.") from None
    except OSError as error:
        raise RunError(f"The notes of run {folder.name} cannot be written: {error.strerror or error}.") from error
    return notes


def tags_of(text: str) -> tuple[str, ...]:
    """Tags from text with commas between them; doubles and empty ones are left out."""
    return tuple(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))


def _checked(notes: RunNotes) -> RunNotes:
    try:
        notes = record(RunNotes, asdict(notes))
    except (TypeError, ValueError) as error:
        raise RunError(f"Name, tags and note are text that can be shown; {error}.") from None
    problem = ""
    if len(notes.name) > MAX_NAME or not notes.name.isprintable():
        problem = f"A name has at most {MAX_NAME} characters on one line; got {len(notes.name)}."
    elif len(notes.tags) > MAX_TAGS:
        problem = f"A run has at most {MAX_TAGS} tags; got {len(notes.tags)}."
    elif wrong := [tag for tag in notes.tags if not 0 < len(tag) <= MAX_TAG or "," in tag or not tag.isprintable()]:
        problem = f"A tag has at most {MAX_TAG} characters and no comma; got {wrong[0]!r:.60}."
    elif len(notes.note) > MAX_NOTE:
        problem = f"A note has at most {MAX_NOTE:,} characters; got {len(notes.note):,}."
    if problem:
        raise RunError(problem)
    return notes
