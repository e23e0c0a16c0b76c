"""The code beside the curves: the exported script's lines, tied to what they caused."""

import dataclasses

import pytest

from core.config.models import MODELS
from core.runs.reader import RunView
from core.transfer.script.run_script import as_it_would_start, run_script, script_sections
from core.transfer.script.scripted import Does
from dashboard.charts.run_charts import View, run_charts
from dashboard.train.code_facts import facts, highlighted, loop_lines
from tests.helpers.recordings import recorded, snapshot_of, validated
from tests.helpers.trainings import CONFIGS, SAMPLE


@pytest.fixture(params=CONFIGS)
def planned(request):
    config = CONFIGS[request.param]
    return config, as_it_would_start(config, beside_pages=False)


def test_the_lines_beside_the_curves_are_the_scripts_own(planned):
    config, started = planned
    script = run_script("a-run", config, started).splitlines()
    shown = [line.text for line, _ in loop_lines("a-run", config, started)]
    places = [script.index(text) for text in shown if text.strip()]
    assert shown[0] == "for epoch in range(EPOCHS):"
    assert all(text in script for text in shown)
    assert max(places) < len(script)
    assert "model.load_state_dict(best_weights)  # the weights that the validation digits chose" in shown


def test_each_line_that_does_something_says_what(planned):
    config, started = planned
    lines = script_sections("a-run", config, started)["training"]
    does = {line.does for line in lines}
    assert {
        Does.DATA,
        Does.ZERO_GRAD,
        Does.FORWARD,
        Does.BACKWARD,
        Does.OPTIMIZER,
        Does.LOSS,
        Does.VALIDATION,
        Does.TEST,
    } <= does
    assert (Does.CLIP in does) == (config.gradient_clip is not None)
    assert (Does.SCHEDULE in does) == (config.schedule != "constant" or config.warmup_steps > 0)
    assert (Does.DROPOUT in does) == bool((config.dropout and config.model != "mlp") or config.dropout)
    words = {
        Does.BACKWARD: "backward()",
        Does.OPTIMIZER: "optimizer",
        Does.FORWARD: "cross_entropy",
        Does.CLIP: "clip_grad_norm_",
    }
    for kind, word in words.items():
        assert kind not in does or any(word in line.text for line in lines if line.does == kind), kind


@pytest.mark.parametrize("name", list(MODELS))
def test_highlighting_loses_no_character(name):
    from html.parser import HTMLParser

    class Text(HTMLParser):
        def __init__(self):
            super().__init__()
            self.text = ""

        def handle_data(self, data):
            self.text += data

    config = dataclasses.replace(SAMPLE, model=name, dropout=0.2)
    for section in script_sections("a-run", config, started := as_it_would_start(config, beside_pages=False)):
        for line, html in highlighted("a-run", config, started, section):
            parser = Text()
            parser.feed(html)
            assert parser.text == line.text


def charts_of(view: RunView) -> set[str]:
    return {chart.id for chart in run_charts(view, View())[0]}


def test_facts_are_the_runs_own_figures():
    view = dataclasses.replace(recorded({"gradient_clip": 0.5}, data=0.25), validations=(validated(10, accuracy=0.97),))
    told = facts(view)
    assert set(told) == set(Does) - {Does.NOTHING}
    assert told[Does.DATA].share == pytest.approx(0.25)
    assert told[Does.FORWARD].share == pytest.approx(0.3 * 0.75)
    assert "loss 1.50" in told[Does.FORWARD].words
    assert "after step 10" in told[Does.VALIDATION].words
    assert "97.00 %" in told[Does.VALIDATION].words
    assert told[Does.TEST].words.endswith("after the last step.")
    assert {chart for fact in told.values() for chart in fact.charts} <= charts_of(view)
    assert sum(fact.share or 0 for fact in told.values()) <= 1


def test_before_the_first_step_each_line_says_what_it_is():
    told = facts(snapshot_of(0))
    assert all(fact.words and fact.share is None for fact in told.values())
