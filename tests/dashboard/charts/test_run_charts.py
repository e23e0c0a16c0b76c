import dataclasses

import numpy as np
import pytest

from core.events import STEP_DTYPE, Validated
from core.runs.history import StepHistory
from core.runs.reader import RunView
from core.transfer.metrics_files import metrics_csv
from dashboard import theme
from dashboard.charts import evaluation_charts
from dashboard.charts.live_chart import message
from dashboard.charts.run_charts import View, first_loss_words, run_charts
from dashboard.charts.run_figures import AT_THE_EDGE, figure, on_log_axis, schedule_figure
from tests.helpers.recordings import SMALL_SCORE, snapshot_of, steps
from tests.helpers.trainings import SAMPLE


class Browser:
    """What live_chart.js does with messages, written down again."""

    def __init__(self):
        self.token, self.points = None, {}

    def receive(self, message) -> bool:
        if message["complete"]:
            self.points = {}
        elif self.token != message["token"]:
            return False
        for chart in message["charts"]:
            for line in chart["lines"]:
                key = f"{chart['id']}/{line['name']}"
                x, y = self.points.get(key, ([], []))
                if line["first"] > len(x):
                    return False
                self.points[key] = (x[: line["first"]] + line["x"], y[: line["first"]] + line["y"])
        self.token = message["token"]
        return True


@pytest.mark.parametrize("view", [View(), View("epoch", 5), View("time", 100, True)])
def test_new_points_alone_give_the_same_charts_as_everything(view):
    rng = np.random.default_rng(0)
    losses = rng.standard_normal(5000).astype(np.float32)
    browser, sent, sizes = Browser(), None, []
    for count in [0, 1, 7, 100, 319, 320, 321, 330, 640, 641, 700, 1500, 4000, 4001, 4010, 5000]:
        snapshot = snapshot_of(count, losses[:count])
        drawn, sent, complete = run_charts(snapshot, view, sent)
        one = message(drawn, sent, complete, "/x", "r")
        assert browser.receive(one)
        sizes.append(sum(len(line["x"]) for chart in one["charts"] for line in chart["lines"]))
        whole = Browser()
        assert whole.receive(message(*run_charts(snapshot, view), "/x", "r"))
        assert browser.points == whole.points
    assert sizes[-2] < 100  # from 4,001 to 4,010 steps: the last buckets and 2 x 30 validations, of about 2,000 points


def test_a_browser_that_missed_a_message_notices():
    browser = Browser()
    drawn, sent, complete = run_charts(snapshot_of(100), View())
    assert browser.receive(message(drawn, sent, complete, "/x", "r"))
    _, sent, _ = run_charts(snapshot_of(200), View(), sent)
    drawn, sent, complete = run_charts(snapshot_of(300), View(), sent)
    assert not complete
    assert not browser.receive(message(drawn, sent, complete, "/x", "r"))


def chart(name, view, how=None):
    """One chart of a run, whole."""
    return next(one for one in run_charts(view, how or View())[0] if one.id == name)


def test_on_logarithmic_axes_wrong_answers_take_the_place_of_right_ones_and_zeros_are_marked():
    view = snapshot_of(40, losses=np.r_[np.linspace(2.3, 0.1, 38), 0, 0].astype(np.float32))
    right, wrong = chart("accuracy", view), chart("accuracy", view, View(log=True))
    assert (right.log, wrong.log, wrong.title, wrong.y_title) == (False, True, "Wrong answers", "wrong (%)")
    for one, other in zip(right.lines, wrong.lines, strict=True):
        assert one.name == other.name
        assert other.y == pytest.approx(100 - one.y)
    loss = chart("loss", view, View(log=True))
    lines = on_log_axis(loss.lines)
    assert all((line.y > 0).all() for line in lines)
    (mark,) = (line for line in lines if line.name == AT_THE_EDGE)
    assert mark.x.tolist() == [39, 40]
    assert mark.y[0] < min(line.y[line.y > 0].min() for line in loss.lines)
    assert AT_THE_EDGE in [trace.name for trace in figure(loss).data]
    assert AT_THE_EDGE not in [trace.name for trace in figure(chart("loss", view)).data]


def test_a_loss_that_ran_away_is_drawn_on_a_logarithmic_axis_and_says_so():
    losses = np.full(50, 2.0, np.float32)
    assert not chart("loss", snapshot_of(50, losses)).log
    losses[30] = 1e20
    away = chart("loss", snapshot_of(50, losses))
    assert away.log
    assert "since the loss ran away" in away.note
    losses[30] = np.inf  # no height: a cross says it
    assert not chart("loss", snapshot_of(50, losses)).log


def test_guessing_is_a_line_across_the_loss():
    height, words = chart("loss", snapshot_of(5)).mark
    assert height == pytest.approx(np.log(10))
    assert "ln 10 = 2.303" in words
    assert figure(chart("loss", snapshot_of(5))).layout.shapes[0].y0 == height
    assert "First loss 2.30: guessing, as it should be" in chart("loss", snapshot_of(5)).note


def test_spikes_nan_and_counts_are_shown():
    losses = np.full(100_000, 0.5, np.float32)
    losses[5_000], losses[70_000] = 50, np.nan
    drawn, _, _ = run_charts(snapshot_of(100_000, losses), View())
    loss = drawn[0]
    assert "of 100,000 steps" in loss.note
    assert loss.lines[0].y.max() == 50
    marker = loss.lines[-1]
    assert (marker.name, marker.x.tolist(), marker.y.tolist()) == ("NaN or infinite", [70_001], [0.5])
    stated = int(loss.note.split()[1].replace(",", ""))
    assert stated == len(loss.lines[0].x)


def test_without_a_gpu_the_chart_says_so_and_with_one_shows_its_total():
    memory = chart("memory", snapshot_of(10))
    assert memory.title == "Memory of this process"
    assert memory.lines[0].y.tolist() == [500]
    with_gpu = chart("memory", snapshot_of(10, total=8 * 2**30))
    assert "8.0 GiB" in with_gpu.title
    assert [line.name for line in with_gpu.lines] == ["allocated", "reserved", "peak"]


def test_axes_and_figures():
    snapshot = snapshot_of(20)
    by_epoch, _, _ = run_charts(snapshot, View("epoch"))
    assert by_epoch[0].lines[0].x[-1] == 20 / SAMPLE.steps_per_epoch()
    by_time, _, _ = run_charts(snapshot, View("time"))
    assert by_time[0].x_title == "training time (s)"
    for chart in by_time:
        assert figure(chart).to_dict()["layout"]["yaxis"]["title"]["text"] == chart.y_title


def test_confusion_and_digits():
    matrix = evaluation_charts.confusion_figure(SMALL_SCORE.confusion)
    assert matrix["data"][0]["z"][3][3] == 0
    assert matrix["data"][0]["z"][3][4] == 1
    assert matrix["data"][0]["text"][3][3] == 10
    bars = evaluation_charts.per_digit_figure(SMALL_SCORE.confusion, SMALL_SCORE.unanswered_by_label, theme.TEST)["data"][0][
        "y"
    ]
    assert bars[0] == pytest.approx(100 * 10 / 11)
    assert bars[9] == 100
    unanswered = (0,) * 9 + (int(sum(SMALL_SCORE.confusion[9])),)
    half = evaluation_charts.per_digit_figure(SMALL_SCORE.confusion, unanswered, theme.TEST)["data"][0]["y"]
    assert half[9] == 50  # what gets no answer is wrong


def test_the_schedule_preview_is_drawn():
    drawn = schedule_figure(dataclasses.replace(SAMPLE, schedule="one_cycle"))
    assert max(drawn.data[0].y) == SAMPLE.learning_rate


@pytest.mark.parametrize(
    ("loss", "word"),
    [(2.303, "as it should"), (2.5, "as it should"), (9.0, "higher"), (0.3, "lower"), (float("nan"), "not finite")],
)
def test_the_first_loss_is_explained(loss, word):
    assert word in first_loss_words(loss)


def test_the_csv_holds_every_step_and_score():
    import io

    import pandas as pd

    table = pd.read_csv(io.BytesIO(metrics_csv(snapshot_of(20))))
    assert table["step"].tolist() == list(range(1, 21))
    assert table["loss"].iloc[0] == pytest.approx(2.3)
    assert table["validation_accuracy"].dropna().tolist() == [0.95, 0.95]
    assert table["test_accuracy"].dropna().tolist() == [0.95]
    assert set(STEP_DTYPE.names or ()) <= set(table.columns)


def forked_of(count: int, parent_step: int, first_step: int) -> RunView:
    """A child that began at `parent_step` of its parent, which is `first_step` in its own counting."""
    whole = snapshot_of(count)
    info = dataclasses.replace(
        whole.info, run_id="child", parent=whole.info.run_id, parent_step=parent_step, first_step=first_step
    )
    history = StepHistory()
    rows = steps(first_step + 1, count).steps.copy()
    history.append(rows)
    validations = tuple(Validated(first_step + 10, (first_step + 10) / 10, SMALL_SCORE, True) for _ in "x")
    return dataclasses.replace(whole, info=info, steps=history, validations=validations, tested=None)


@pytest.mark.parametrize("axis", ["step", "epoch", "time"])
def test_parent_and_child_meet_where_the_child_begins(axis):
    parent, child = snapshot_of(60), forked_of(30, parent_step=40, first_step=20)
    drawn, sent, complete = run_charts(child, View(axis=axis, window=1), parent=parent)
    assert complete
    loss = {line.name: line for line in drawn[0].lines}
    own, of_parent = loss["train, mean of 1 steps"], loss["parent, train"]
    # The parent's step 41 lies where the child's first step lies: one step, or its time, after the fork.
    first = {"step": 21, "epoch": 2.1, "time": of_parent.x[40]}[axis]
    assert of_parent.x[40] == pytest.approx(first)
    assert own.x[0] == pytest.approx({"step": 21, "epoch": 2.1, "time": child.steps.column("seconds")[0]}[axis])
    assert len(of_parent.x) == 60
    assert of_parent.x[39] == pytest.approx({"step": 20, "epoch": 2.0, "time": 0.0}[axis])
    # The next message brings only what is new; the parent's points are there already.
    browser = Browser()
    assert browser.receive(message(drawn, sent, complete, "", ""))
    before = {key: points for key, points in browser.points.items() if "parent" in key}
    more, later, complete = run_charts(forked_of(32, 40, 20), View(axis=axis, window=1), sent, parent)
    assert not complete
    assert browser.receive(message(more, later, complete, "", ""))
    assert {key: points for key, points in browser.points.items() if "parent" in key} == before
    names = {chart.id: [line.name for line in chart.lines if "parent" in line.name] for chart in drawn}
    assert names == {
        "loss": ["parent, train", "parent, validation"],
        "accuracy": ["parent, train", "parent, validation"],
        "learning_rate": ["parent"],
        "gradient_norm": ["parent"],
        "memory": [],
    }
