"""Groups of seeds as figures."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.train_config import TrainConfig
from core.runs.groups import Group
from core.runs.index import RunRow
from core.runs.info import RunInfo
from core.runs.notes import RunNotes
from core.status import RunStatus
from dashboard.charts.group_charts import NamedGroup, curves_figure, mean_curve, scores_figure, spread_words
from tests.helpers.recordings import snapshot_of, validated


def group(*scores: float) -> Group:
    rows = [
        RunRow(RunInfo(f"run-{number}", RunStatus.FINISHED, test_accuracy=score), RunNotes(), TrainConfig(seed=number))
        for number, score in enumerate(scores)
    ]
    return Group(TrainConfig(), tuple(rows))


def view(*accuracies: float):
    return dataclasses.replace(
        snapshot_of(0), validations=tuple(validated(10 * n, accuracy=value) for n, value in enumerate(accuracies, 1))
    )


def test_the_mean_its_band_and_each_run_are_drawn():
    named = NamedGroup("these", group(0.98, 0.99), [view(0.9, 0.98), view(0.92, 0.99)])
    figure = curves_figure([named, NamedGroup("others", group(0.9), [view(0.5, 0.9)])])
    thin = [trace for trace in figure["data"] if trace.get("opacity") == 0.45]
    bold = [trace for trace in figure["data"] if "name" in trace]
    bands = [trace for trace in figure["data"] if trace.get("fill") == "toself"]
    assert len(thin) == 3
    assert [trace["name"] for trace in bold] == ["these: mean of 2", "others: one run"]
    assert bold[0]["y"] == pytest.approx([91, 98.5])
    assert len(bands) == 1  # one run has no spread
    assert len({trace["line"]["dash"] for trace in bold}) == 2  # colour is not the only sign


curves = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=4)


@given(curves)
def test_the_mean_is_of_runs_that_were_scored_there(given_):
    runs = [(np.arange(10.0, 10 * len(one) + 1, 10), np.array(one)) for one in given_]
    steps, mean, spread = mean_curve(runs)
    least = min(2, len(runs))
    for step, middle, deviation in zip(steps, mean, spread, strict=True):
        there = [values[int(step / 10) - 1] for _, values in runs if len(values) >= step / 10]
        assert len(there) >= least
        assert middle == pytest.approx(np.mean(there))
        assert deviation == pytest.approx(np.std(there, ddof=1) if len(there) > 1 else 0, abs=1e-9)


def test_results_are_dots_with_the_interval_of_their_mean():
    figure = scores_figure([NamedGroup("these", group(0.98, 0.99, 0.985), []), NamedGroup("others", group(0.97), [])])
    means, dots = figure["data"][0::2], figure["data"][1::2]
    assert [trace["x"] for trace in dots] == [[98.0, 99.0, 98.5], [97.0]]
    assert [trace["x"] for trace in means] == [pytest.approx([98.5]), pytest.approx([97.0])]
    assert all(trace["error_x"]["array"][0] > 0 for trace in means)
    # Before a second run the digits alone tell: Wilson's interval of 97 % of 10,000, 95 %.
    assert means[1]["error_x"]["arrayminus"][0] == pytest.approx(0.352, abs=0.01)


def test_what_is_said_of_a_group():
    assert spread_words(group()).startswith("No run")
    assert "One run: 99.00 % of 10,000 test digits" in spread_words(group(0.99))
    assert "3 seeds: 98.50 % on average (from 98.00 to 99.00 %" in spread_words(group(0.98, 0.985, 0.99))
