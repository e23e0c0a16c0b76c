"""Words that others typed, on a page and in a table."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.runs.index import RunRow
from core.runs.info import RunInfo
from core.runs.notes import RunNotes
from core.status import RunStatus
from dashboard import wording
from dashboard.runs.table import table_csv
from tests.helpers.trainings import SAMPLE


@given(st.text(max_size=80))
def test_any_words_stay_on_one_line_and_make_no_markup(text):
    shown = wording.plain(text)
    assert len(shown.splitlines()) <= 1
    assert "".join(shown.replace("\u2060", "").replace("\\", "").split()) == "".join(
        text.replace("\u2060", "").replace("\\", "").split()
    )
    for character in "*_[]<>`":
        place = shown.find(character)
        assert place <= 0 or shown[place - 1] == "\\"


ADDRESSES = ["www.example.org", "https://a.b/c", "mailto:me@a.org", "a@b.cd", "ftp://a.b"]
BLOCKS = ["- item", "+ x", "1. item", "2) item", "=== "]


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_broken_by_a_sign_that_nobody_sees(text):
    """A browser's Markdown makes links of them without any brackets."""
    assert "\u2060" in wording.plain(text)


@pytest.mark.parametrize("text", BLOCKS)
def test_no_words_begin_a_list_or_a_heading(text):
    assert wording.plain(text).startswith("\u2060")


FORMULAS = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_name_becomes_a_formula_in_a_spreadsheet(text):
    row = RunRow(RunInfo("20260101-000000-aaaa", RunStatus.FINISHED), RunNotes(text, (text,)), SAMPLE)
    table = list(csv.reader(io.StringIO(table_csv([row]).decode())))
    assert table[0][0] == "id"
    assert table[1][0] == row.run_id
    assert sum(cell.startswith("'") for cell in table[1]) == 2
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r", "-")) for cell in table[1])
