"""The band of numbers: the same five places in every state, each with what is known."""

import dataclasses

import pytest

from core.runs.info import RunInfo
from core.status import RunStatus
from dashboard.train.band import NONE_YET, band_html, cells, share_done
from tests.helpers.recordings import snapshot_of, validated


def in_state(status, count=20, **info):
    view = snapshot_of(count)
    running = status.is_active
    return dataclasses.replace(
        view,
        info=dataclasses.replace(view.info, status=status, **info),
        tested=None if running else view.tested,
        config=dataclasses.replace(view.config, epochs=5),
    )


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("count", [0, 1, 20])
def test_every_state_has_the_same_five_places(status, count):
    shown = cells(in_state(status, count), 25)
    assert len(shown) == 5
    assert all(cell.label and cell.value for cell in shown)
    html = band_html(shown, share_done(in_state(status, count)))
    assert html.count("<small>") == 5
    assert "None" not in html
    assert "nan" not in html


def test_before_there_is_a_number_guessing_is_what_to_expect():
    accuracy, validation, train, *_ = cells(dataclasses.replace(in_state(RunStatus.RUNNING, 0)), 25)
    assert (accuracy.value, validation.value, train.value) == (NONE_YET,) * 3
    assert (accuracy.detail, validation.detail, train.detail) == ("guessing: 10 %", "guessing: 2.303", "guessing: 2.303")


def test_now_and_best_are_told_apart():
    view = in_state(RunStatus.RUNNING)
    best, last = validated(10, accuracy=0.97, loss=0.1), validated(20, accuracy=0.95, loss=0.2)
    view = dataclasses.replace(view, validations=(dataclasses.replace(best, best=True), last))
    accuracy, loss, *_ = cells(view, 25)
    assert (accuracy.label, accuracy.value, accuracy.detail) == ("Validation accuracy", "95.00 %", "best 97.00 %")
    assert (loss.value, loss.detail) == ("0.200", "min. 0.100")
    first = dataclasses.replace(view, validations=view.validations[:1])
    assert cells(first, 25)[0].detail == "the best"


def test_after_the_end_the_test_result_has_the_same_place():
    accuracy, *_, time, _ = cells(in_state(RunStatus.FINISHED, train_seconds=125.0, images=1000), 25)
    assert (accuracy.label, accuracy.value) == ("Test accuracy", "95.00 %")
    assert (time.label, time.value) == ("Trained for 20 steps", "2 min 05 s")


def test_a_queued_run_says_how_many_come_before_it():
    assert cells(in_state(RunStatus.QUEUED, 0), 25, 1)[3].value == "1 run"
    assert cells(in_state(RunStatus.QUEUED, 0), 25, 3)[3].value == "3 runs"


def test_what_a_person_or_a_file_wrote_is_text():
    shown = cells(dataclasses.replace(snapshot_of(0), info=RunInfo("<script>", RunStatus.QUEUED)), 25)
    hostile = dataclasses.replace(shown[0], detail='"><script>alert(1)</script>')
    assert "<script>" not in band_html([hostile], 0.5)
