"""What limits a run's speed, from what was recorded; trainings with planted causes are in tests/benchmarks/speed_verdict.py."""

import dataclasses

import numpy as np
import pytest

from core.events import REPORT_DTYPE
from core.finding import Verdict
from core.runs.history import ReportHistory
from core.runs.speed import PARTS, speed_change, speed_finding, time_spent
from tests.helpers.recordings import RECORDED_SECONDS, SMALL_SCORE, recorded, snapshot_of, validated

LOADER = {"pipeline": "dataloader"}
PLANTED = {
    "loader": (recorded(LOADER, data=0.6), "Waits for data", {"pipeline": "memory", "workers": 0}),
    "workers": (
        recorded(LOADER | {"workers": 4}, delay=0.4, elsewhere=0.3),
        "Too many workers",
        {"pipeline": "memory", "workers": 0},
    ),
    "in memory": (recorded({"augment_shift": 2}, data=0.6), "Waits for data", {}),
    "threads": (recorded({"threads": 8}, {"threads": 8}, wanted=8.0, delay=5.0), "Too many threads", {"threads": None}),
    "neighbours": (recorded({}, {"threads": 2}, wanted=2.0, delay=0.8, elsewhere=1.0), "Busy neighbours", {"threads": 1}),
    "one thread": (recorded(delay=0.3, elsewhere=1.9), "Busy neighbours", {}),
    "pages in line": (recorded({}, {"threads": 2}, wanted=2.0, delay=0.8, pages=0.9), "Busy pages", {"threads": 1}),
    "pages": (recorded(blocked=0.3, pages=0.5), "The page itself", {}),
    "a leak": (recorded(resident=lambda seconds: 2**20 * (500 + 50 * seconds)), "Memory creeps", {}),
    "anomaly": (recorded({"detect_anomaly": True}), "Detects anomalies", {"detect_anomaly": False}),
    "batches of one": (recorded({"batch_size": 1}, forward=0.3, backward=0.3), "Small batches", {"batch_size": 64}),
    "validations": (
        recorded(
            {"validations_per_epoch": 20},
            validations=[
                dataclasses.replace(validated(step), evaluation=dataclasses.replace(SMALL_SCORE, seconds=3.0))
                for step in range(100, 600, 100)
            ],
        ),
        "Validates often",
        {"validations_per_epoch": 1},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_named_with_its_share_and_its_remedy(name):
    view, cause, remedy = PLANTED[name]
    found = speed_finding(view)
    assert found is not None
    assert (found.name, found.verdict, dict(found.remedy)) == (cause, Verdict.NOTE, remedy)
    assert any(character.isdigit() for character in found.evidence)
    assert not dataclasses.replace(view.config, **found.remedy).problems()


HEALTHY = {
    "plain": recorded(),
    "one worker": recorded(LOADER | {"workers": 1}, data=0.2),
    "a neighbour on another core": recorded(elsewhere=1.0),
    "pages that keep nobody waiting": recorded(pages=0.5),
    "memory of the first steps": recorded(resident=lambda seconds: 2**20 * (300 + 200 * np.minimum(1, seconds / 3))),
    "memory that jumps once": recorded(resident=lambda seconds: 2**20 * (300 + 200 * (seconds > 12))),
    "a small network": recorded({"model": "mlp"}, forward=0.25, backward=0.35, optimizer=0.2),
    "nothing known of the cores": recorded(delay=np.nan, blocked=np.nan, pages=np.nan, elsewhere=np.nan),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_where_nothing_is_in_the_way_it_computes(name):
    found = speed_finding(HEALTHY[name])
    assert found is not None
    assert (found.name, found.verdict) == ("Computes", Verdict.OK)


def test_a_device_that_computes_with_bfloat16_says_so_only_where_float32_was_chosen():
    chosen = speed_finding(recorded({"precision": "float32"}, {"fastest_precision": "bfloat16"}))
    assert chosen is not None
    assert chosen.remedy == {"precision": "auto"}
    other = speed_finding(recorded({"precision": "float32"}, {"fastest_precision": "float32"}))
    assert other is not None
    assert not other.remedy


def test_the_parts_are_the_whole_time():
    view = recorded({"batch_size": 64}, data=0.25, validations=[validated(100)])
    spent = time_spent(view)
    assert spent is not None
    assert tuple(spent.parts) == PARTS
    assert spent.share(*PARTS) == pytest.approx(1)
    assert spent.seconds == pytest.approx(0.1 * (len(view.reports) - 3))  # the first three hold what is done once
    assert spent.parts["data"] / spent.seconds == pytest.approx(0.25)
    assert spent.images == 64 * 10 * (len(view.reports) - 3)


def test_nothing_is_said_before_there_is_enough_or_of_runs_that_measured_nothing():
    assert speed_finding(snapshot_of(0)) is None
    assert speed_finding(snapshot_of(100)) is None  # one second, and of the kind that measured nothing
    assert speed_finding(snapshot_of(5000)) is None


def test_two_runs_say_what_changed():
    slow, fast = recorded(LOADER, data=0.6), recorded(step_seconds=0.005)
    words = speed_change(slow, fast)
    assert words.startswith("2.0 times as fast: 12,800 images/s after 6,400.")
    assert "aiting for data fell from 94 to 2 microseconds a digit" in words
    assert speed_change(fast, slow).startswith(
        "2.0 times slower: 6,400 images/s after 12,800. Waiting for data rose from 2 to 94"
    )
    assert speed_change(fast, fast) == "About as fast: 12,800 images/s after 12,800."
    assert speed_change(snapshot_of(0), fast) == ""


def test_few_digits_and_made_up_numbers_are_no_reason_for_a_remedy_or_a_crash():
    few = recorded({"batch_size": 16, "train_size": 10, "validation_size": 10}, forward=0.3, backward=0.3)
    assert not (found := speed_finding(few)) or not found.remedy
    view = recorded()
    for name, value in (("sampled_steps", 0), ("duration", 1e308)):
        rows = np.zeros(10 * RECORDED_SECONDS, REPORT_DTYPE)
        for column in REPORT_DTYPE.names:
            rows[column] = view.reports.column(column)
        rows[name] = value
        made_up = ReportHistory()
        made_up.append(rows)
        assert speed_finding(dataclasses.replace(view, reports=made_up)) is None
