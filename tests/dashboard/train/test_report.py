"""The report of a run: one file, all its words as text, nothing from elsewhere."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from core.events import Tested as WasTested
from core.status import RunStatus
from dashboard.charts.run_charts import View
from dashboard.train.report import report_html
from tests.helpers.recordings import SCORE, recorded, snapshot_of, validated


class Page(HTMLParser):
    """Its elements, and its text outside scripts and styles."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.sources, self.text, self._skip = [], [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._skip = tag in ("script", "style")
        self.sources += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_endtag(self, tag):
        self._skip = False

    def handle_data(self, data):
        self.text += "" if self._skip else data


def test_settings_verdict_curves_and_mistakes_stand_in_one_file():
    view = dataclasses.replace(recorded({"learning_rate": 0.05}, data=0.6), tested=WasTested(10, SCORE))
    page = Page(report_html(view, View()))
    assert page.tags.count("img") == len(SCORE.mistakes)
    assert all(source.startswith("data:") for source in page.sources)  # it opens without a network
    for words in (
        "Learning rate",
        "0.05",
        "0.001",
        "Test accuracy",
        "A processor",
        "What it gets wrong",
        "Where the time went",
    ):
        assert words in page.text, words
    assert report_html(view, View()).count("plotly-graph-div") >= 8


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("count", [0, 1, 500])
def test_every_state_has_a_report(status, count):
    view = snapshot_of(count)
    view = dataclasses.replace(view, tested=None, info=dataclasses.replace(view.info, status=status))
    assert "Settings" in Page(report_html(view, View())).text


def test_words_from_elsewhere_are_shown_and_not_read():
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    view = snapshot_of(30, [float("nan")] * 30)
    started = dataclasses.replace(recorded().started, device_name=evil, notes=(evil,))
    info = dataclasses.replace(view.info, status=RunStatus.FAILED, reason=evil, imported=evil)
    view = dataclasses.replace(view, info=info, started=started, tested=None, damage=(evil,), validations=(validated(10),))
    text = report_html(view, View())
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "alert(1)" in Page(text).text
    assert re.search(r'Content-Security-Policy" content="default-src', text)
