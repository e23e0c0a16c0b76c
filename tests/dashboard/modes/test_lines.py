"""The PyTorch lines that the page shows, run as they stand in a fresh process, give the figures of their experiment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from core.model.predictor import load_predictor
from core.modes.copies import some_digits
from core.modes.distribution_shift import Shift
from core.runs.folder import RunFolder
from core.status import Progress
from dashboard.modes.content import EXPERIMENTS
from tests.helpers.laboratory import NAMES, lab_of

ROOT = Path(__file__).resolve().parents[3]
PARAMS = {
    "switch": {"size": 4, "order": "shuffled"},
    "size": {"order": "by_class"},
    "company": {"place": 3, "size": 16, "other": 1, "_drawings": np.empty((0, 28, 28), np.uint8)},
    "inside": {"layer": "norm2", "channel": 5, "size": 32, "order": "shuffled"},
    "warm_up": {"momentum": "None", "seed": 0},
    "poison": {"poison": "noise", "forwards": 20, "label": 1},
    "shift": {"shift": Shift(brightness=0.3), "kind": "noise"},
    "dropout": {"place": 3, "p": 0.4, "passes": 150},
    "twins": {"rate": "Adam, 0.001", "dropout": 0.5, "steps": 20, "seed": 0},
    "gap": {"_known": {}},
    "no_grad": {},
}
NUMBER = r"(-?(?:\d+\.\d+(?:e-?\d+)?|\d+(?:e-?\d+)?|nan|inf))"


@pytest.fixture(scope="module")
def laboratory(trained, tmp_path_factory):
    """The lab, and what each experiment's lines print. One process for all of them: each has names of its own."""
    runs, run_id, _ = trained
    folder, data = tmp_path_factory.mktemp("lines"), tmp_path_factory.mktemp("no-data")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DIGIT_LAB_RUNS", str(runs))
        environment.setenv("DIGIT_LAB_DATA", str(data))
        lab = lab_of(runs, run_id)
        for name in PARAMS:
            (folder / f"{name}.py").write_text(
                EXPERIMENTS[name].code(lab, {**PARAMS[name], "_drawings": np.empty((0, 28, 28))})
            )
        script = "import runpy\nfor name in {!r}:\n    print('=' * 9, name)\n    runpy.run_path(f'{}/{{name}}.py')\n"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script.format(tuple(PARAMS), folder)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        parts = re.split(r"^========= (\w+)$", done.stdout, flags=re.MULTILINE)
        yield lab, dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def measured(laboratory, monkeypatch, trained, tmp_path):
    """Of an experiment: what it gives in the end, and what its lines print."""
    monkeypatch.setenv("DIGIT_LAB_RUNS", str(trained[0]))
    monkeypatch.setenv("DIGIT_LAB_DATA", str(tmp_path))
    lab, told = laboratory
    # Twenty steps of a training make visible what another order of additions does: one thread on both sides.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def of(name):
        given = EXPERIMENTS[name].steps(lab, PARAMS[name])
        return [result for result in given if not isinstance(result, Progress)][-1], told[name]

    yield of
    torch.set_num_threads(threads)


def printed(words, told):
    """The number behind some words."""
    found = re.search(re.escape(words) + r" ?" + NUMBER, told)
    assert found, f"{words} in {told}"
    return float(found[1])


def ten(words, told):
    """The ten numbers behind some words."""
    return np.array([float(one) for one in re.search(rf"^{re.escape(words)} \[(.*)\]$", told, re.MULTILINE)[1].split(", ")])


def same_share(count):
    """An accuracy over `count` digits: another order of additions may turn over one of them."""
    return lambda share: pytest.approx(share, abs=1.01 / count)


def test_switch(measured):
    found, told = measured("switch")
    of_500 = same_share(500)
    assert printed("eval mode:", told) == of_500(found.eval.accuracy)
    assert printed("train mode:", told) == of_500(found.train.accuracy)
    assert printed("only _BatchNorm in train mode:", told) == of_500(found.batchnorm.accuracy)
    assert printed("only Dropout in train mode:", told) == of_500(found.dropout.accuracy)
    assert found.train.accuracy < found.eval.accuracy


def test_size(measured):
    found, told = measured("size")
    assert printed("eval mode:", told) == same_share(500)(found.eval)
    for score in found.scores:
        if score.train is None:
            assert score.size == 1
            assert "a batch of one: Expected more than 1 value per channel" in told
        else:
            assert printed(f"batches of {score.size} have", told) == same_share(500)(score.train)
    assert len(found.scores) == 10


def test_company(measured):
    rows, told = measured("company")
    assert [row.mates for row in rows] == ["eval", "mixed", "own_class", "one_class", "outlier", "blank"]
    for row in rows:
        assert ten(f"{row.mates}:", told) == pytest.approx(row.probabilities, abs=1e-3)


def test_inside(measured):
    found, told = measured("inside")
    assert printed("batch mean:", told) == pytest.approx(found.batch_mean[5], rel=1e-4, abs=1e-5)
    assert printed("batch variance:", told) == pytest.approx(found.batch_variance[5], rel=1e-4)
    assert printed("running mean:", told) == pytest.approx(found.running_mean[5], rel=1e-5)
    assert printed("running variance:", told) == pytest.approx(found.running_variance[5], rel=1e-5)
    assert "as written by hand: True" in told
    moved = re.search(rf"after this batch: {NUMBER} by hand: {NUMBER}", told)
    assert float(moved[1]) == pytest.approx(float(moved[2]), rel=1e-4)


def test_warm_up(measured):
    steps, told = measured("warm_up")
    scored = [step for step in steps if step.eval is not None]
    rows = re.findall(rf"^step (\d+) eval: {NUMBER} train: {NUMBER} mean: {NUMBER} variance: {NUMBER}$", told, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [step.step for step in scored]
    for row, step in zip(rows, scored, strict=True):
        assert float(row[1]) == pytest.approx(step.eval, abs=0.0081)
        assert float(row[2]) == pytest.approx(step.train, abs=0.0081)
        assert float(row[3]) == pytest.approx(step.running_mean[0], abs=1e-3)
        assert float(row[4]) == pytest.approx(step.running_variance[0], rel=1e-2)


def test_poison(measured):
    scores, told = measured("poison")
    bad = [score for score in scores if score.phase == "poison"]
    of_500 = same_share(500)
    assert printed("before:", told) == of_500(bad[0].accuracy)
    assert printed("after 20 forwards in train mode:", told) == of_500(bad[-1].accuracy)
    assert printed("recalibrated:", told) == of_500(scores[-1].accuracy)
    assert bad[-1].accuracy < bad[0].accuracy


def test_shift(measured):
    scores, told = measured("shift")
    rows = {
        float(row[0]): [float(share) for share in row[1:]]
        for row in re.findall(rf"^noise {NUMBER} eval: {NUMBER} train: {NUMBER} sorted: {NUMBER}$", told, re.MULTILINE)
    }
    assert sorted(rows) == sorted(score.shift.noise for score in scores)
    for score in scores:
        assert rows[score.shift.noise] == same_share(500)([score.eval, score.train, score.train_sorted])


def test_dropout(measured):
    found, told = measured("dropout")
    assert ten("eval mode:", told) == pytest.approx(found.in_eval, abs=1e-4)
    assert ten("mean of the passes:", told) == pytest.approx(found.logits.mean(0), abs=1e-3)
    assert ten("their spread:", told) == pytest.approx(found.logits.std(0), abs=1e-3)
    assert ten("mean without the scaling:", told) == pytest.approx(found.unscaled.mean(0), abs=1e-3)


def test_twins(measured):
    found, told = measured("twins")
    assert {ended.name for ended in found.ended} == {"plain", "BatchNorm", "Dropout", "BatchNorm and Dropout"}
    for ended in found.ended:
        losses = np.concatenate([part.losses for part in found.losses if part.name == ended.name])
        score = [score for score in found.scores if score.name == ended.name][-1]
        assert score.step == ended.step == len(losses)
        loss, accuracy = re.search(rf"^{ended.name}: loss {NUMBER} validation accuracy {NUMBER}$", told, re.MULTILINE).groups()
        assert float(loss) == pytest.approx(losses[-1], rel=1e-3)
        assert float(accuracy) == same_share(250)(score.accuracy)


def test_gap(measured):
    points, told = measured("gap")
    names = ("optimizer", "again", "eval", "clean", "validation")
    rows = re.findall(rf"^step (\d+) {' '.join(f'{name}: {NUMBER}' for name in names)}$", told, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [point.step for point in points]
    for row, point in zip(rows, points, strict=True):
        expected = point.optimizer_loss, point.again_loss, point.train_loss, point.clean_loss, point.validation_loss
        assert [float(loss) for loss in row[1:]] == pytest.approx(expected, abs=1e-4)


def test_no_grad(measured):
    found, told = measured("no_grad")
    rows = re.findall(
        rf"^(.*) correct: {NUMBER} logits off by: {NUMBER} statistics moved: {NUMBER} bytes kept for backward: (\d+)$",
        told,
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == [
        "eval() no_grad()",
        "eval() with gradients",
        "train() no_grad()",
        "train() with gradients",
    ]
    for row, quadrant in zip(rows, found, strict=True):
        assert float(row[1]) == same_share(256)(quadrant.accuracy)
        assert float(row[2]) == pytest.approx(quadrant.largest_difference, abs=1e-3)
        assert float(row[3]) == pytest.approx(quadrant.statistics_moved, rel=1e-3, abs=1e-6)
        assert int(row[4]) == quadrant.saved_bytes


def test_every_experiment_is_held_to_its_lines():
    assert tuple(PARAMS) == NAMES
    assert all(f"test_{name}" in globals() for name in NAMES)


def test_the_lines_load_what_the_page_looks_at(laboratory, trained):
    lab, _ = laboratory
    lines = EXPERIMENTS["switch"].code(lab, PARAMS["switch"])
    path = re.search(r"load_predictor\(Path\('(.*)'\)\)", lines)[1]
    assert load_predictor(Path(path)).step == load_predictor(RunFolder(trained[0] / trained[1]).best).step
    assert len(some_digits(lab.test, 2000)) == len(lab.test)
