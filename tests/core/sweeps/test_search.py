import dataclasses

import numpy as np
import pytest
import torch

from core.data.sources import load_sample
from core.errors import ConfigError
from core.execution.jobs import Jobs
from core.insight.disagreement import Disagreement, disagreement
from core.model.networks import build_model
from core.model.predictor import Predictor
from core.runs.index import RunIndex
from core.status import Progress, RunStatus
from core.sweeps.local import run_sweep, trained_already
from core.sweeps.search import sweep_of
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for

SHORT = dataclasses.replace(SAMPLE, train_size=128, validation_size=50, epochs=1, model="mlp")


def test_a_grid_is_every_combination_and_a_random_search_some():
    sweep = sweep_of(SHORT, {"learning_rate": "1e-3, 1e-2", "optimizer": "adam, sgd", "gradient_clip": "none, 1"})
    assert len(sweep.configs) == 8
    assert {(one.learning_rate, one.optimizer, one.gradient_clip) for one in sweep.configs} == {
        (rate, optimizer, clip) for rate in (1e-3, 1e-2) for optimizer in ("adam", "sgd") for clip in (None, 1.0)
    }
    assert all(type(one.learning_rate) is float and one.validate() for one in sweep.configs)
    drawn = sweep_of(
        SHORT, {"learning_rate": "1e-4 .. 1e-1", "batch_size": "16 .. 64", "model": "mlp, simple_cnn"}, random_runs=40, seed=3
    )
    rates = [one.learning_rate for one in drawn.configs]
    assert len(rates) == 40
    assert all(1e-4 <= rate <= 1e-1 for rate in rates)
    assert 8 <= sum(rate < 10**-2.5 for rate in rates) <= 32  # even on a logarithmic scale
    assert {type(one.batch_size) for one in drawn.configs} == {int}
    again = sweep_of(
        SHORT, {"learning_rate": "1e-4 .. 1e-1", "batch_size": "16 .. 64", "model": "mlp, simple_cnn"}, random_runs=40, seed=3
    )
    assert again.configs == drawn.configs
    few = sweep_of(SHORT, {"optimizer": "adam, sgd"}, random_runs=10)
    assert len(few.configs) == 2


@pytest.mark.parametrize(
    ("choices", "random_runs", "words"),
    [
        ({}, None, "at least one setting"),
        ({"learning_rate": "fast"}, None, "learning_rate: must be a number"),
        ({"learning_rate": "-1, 0.1"}, None, "greater than 0; got -1"),
        ({"learning_rate": "1e-4 .. 1e-1"}, None, "a grid needs single values"),
        ({"learning_rate": "0.1 .. 0.01"}, 5, "the smaller one first"),
        ({"optimizer": "adam .. sgd"}, 5, "two numbers"),
        ({"colour": "red"}, None, "there is no such setting"),
        ({"seed": ",".join(map(str, range(201)))}, None, "201 runs are too many"),
        ({"seed": "1, 2"}, 0, "1 to 200 runs; got 0"),
        ({"batch_size": "64, 999"}, None, "at most the number of training digits"),
    ],
)
def test_unusable_sweeps_are_refused_in_words(choices, random_runs, words):
    with pytest.raises(ConfigError, match=words):
        sweep_of(SHORT, choices, random_runs=random_runs)


def test_a_sweep_trains_its_runs_one_after_the_other_and_tags_them(trainer, runs, tmp_path):
    sweep = sweep_of(SHORT, {"learning_rate": "1e-3, 1e-2, 1e-1"})
    given = list(run_sweep(sweep, trainer, tmp_path, runs))
    ids = [one for one in given if isinstance(one, str)]
    assert len(ids) == 3
    assert given[-1] == Progress(3, 3, "All 3 runs are done", "runs")
    rows = {row.run_id: row for row in RunIndex(runs).rows()}
    for run_id, rate in zip(ids, ("0.001", "0.01", "0.1"), strict=True):
        assert rows[run_id].notes.tags == (sweep.tag,)
        assert rows[run_id].title == f"learning_rate {rate}"
        assert rows[run_id].info.status == RunStatus.FINISHED


def test_a_sweep_that_was_cut_short_trains_what_is_missing(trainer, runs, tmp_path):
    choices = {"learning_rate": "1e-3, 1e-2, 1e-1"}
    first = sweep_of(SHORT, choices)
    steps = run_sweep(first, trainer, tmp_path, runs)
    done = [next(one for one in steps if isinstance(one, str))]
    done.append(next(one for one in steps if isinstance(one, str)))  # the first has ended by now
    steps.close()
    assert trainer.wait_until_idle(20)
    finished = {row.run_id for row in RunIndex(runs).rows() if row.info.status == RunStatus.FINISHED}
    assert done[0] in finished
    again = sweep_of(SHORT, choices)
    ids = [one for one in run_sweep(again, trainer, tmp_path, runs) if isinstance(one, str)]
    assert {run_id for run_id in ids if run_id in done} == finished
    rows = {row.run_id: row for row in RunIndex(runs).rows()}
    assert [rows[run_id].config for run_id in ids] == list(again.configs)
    assert all(again.tag in rows[run_id].notes.tags for run_id in ids)
    assert first.tag in rows[done[0]].notes.tags
    assert trained_already(again.configs, runs) == dict(zip(again.configs, ids, strict=True))


def test_a_spent_budget_stops_the_run_in_progress(trainer, runs, tmp_path):
    sweep = sweep_of(dataclasses.replace(SHORT, epochs=1000), {"seed": "1, 2, 3"})
    given = list(run_sweep(sweep, trainer, tmp_path, runs, minutes=2 / 60))
    assert len([one for one in given if isinstance(one, str)]) == 1
    assert given[-1].message.startswith("The time is spent")
    assert trainer.wait_until_idle(20)
    assert [row.info.status for row in RunIndex(runs).rows()] == [RunStatus.STOPPED]


def test_a_cancelled_sweep_stops_its_run_and_starts_no_other(trainer, runs, tmp_path):
    sweep = sweep_of(dataclasses.replace(SHORT, epochs=1000), {"seed": "1, 2, 3"})
    jobs = Jobs()
    jobs.start("sweep", lambda: run_sweep(sweep, trainer, tmp_path, runs))
    wait_for(lambda: any(row.info.step for row in RunIndex(runs).rows()))
    jobs.cancel("sweep")
    wait_for(lambda: not jobs.get("sweep").status.is_active)
    assert trainer.wait_until_idle(20)
    assert [row.info.status for row in RunIndex(runs).rows()] == [RunStatus.STOPPED]


def test_two_models_are_compared_digit_by_digit():
    digits = load_sample()[1].take(np.arange(0, 500, 2))
    predictors = []
    for seed in (1, 2):
        config = dataclasses.replace(SHORT, seed=seed)
        predictors.append(Predictor(build_model(config).state_dict(), config, 0))
    result = list(disagreement(*predictors, digits))[-1]
    assert isinstance(result, Disagreement)
    images = (torch.from_numpy(digits.images).float() / 255 - 0.1307) / 0.3081
    answers = [one.model(images).softmax(1).max(1) for one in predictors]
    first, second = ((one.indices == torch.from_numpy(digits.labels)) for one in answers)
    alike = answers[0].indices == answers[1].indices
    assert result.counts == {
        "both right": int((first & second).sum()),
        "only first": int((first & ~second).sum()),
        "only second": int((second & ~first).sum()),
        "both wrong, alike": int((~first & ~second & alike).sum()),
        "both wrong, differently": int((~first & ~second & ~alike).sum()),
    }
    assert sum(result.counts.values()) == len(digits)
    assert result.disputed == int((~alike).sum())
    for place, one in enumerate(answers):
        for label, predicted in ((0, 1), (3, 3), (7, 2)):
            expected = int(((torch.from_numpy(digits.labels) == label) & (one.indices == predicted)).sum())
            assert result.confusions[place, label, predicted] == expected
    surest = result.disputes[0]
    assert surest.answers == (int(answers[0].indices[surest.index]), int(answers[1].indices[surest.index]))
    assert surest.image == digits.images[surest.index].tobytes()
    floors = [min(one.confidences) for one in result.disputes]
    assert floors == sorted(floors, reverse=True)


def test_the_chance_that_a_difference_is_luck():
    empty = np.zeros((2, 10, 10), np.int64)

    def p_of(first, second):
        counts = {"both right": 900, "only first": first, "only second": second}
        return Disagreement(counts, empty, (), 0, (1, 1)).p_value

    assert p_of(0, 0) == 1.0
    assert p_of(10, 10) == pytest.approx(1.0)
    assert p_of(1, 0) == 1.0
    assert p_of(10, 0) == pytest.approx(2 * 0.5**10)
