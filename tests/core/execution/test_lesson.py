import dataclasses

import numpy as np
import pytest
import torch

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.drawn_batches import LessonBatches
from core.data.sources import Digits, load_splits
from core.errors import RunError
from core.execution.lesson import Lesson, lesson_config
from core.model.predictor import fingerprint, load_predictor
from core.runs.drawings import load_drawings, save_drawings
from core.runs.info import read_info
from core.status import RunStatus
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for_status

CPU = torch.device("cpu")


@pytest.fixture
def drawings():
    """Upright bars that are meant as 8: no network trained on digits says so by itself."""
    images = np.zeros((4, 1, 28, 28), np.uint8)
    for number in range(4):
        images[number, 0, 4:24, 10 + 2 * number : 13 + 2 * number] = 255
    return Digits(images, np.full(4, 8, np.int64))


@pytest.mark.parametrize(("steps", "batch_size"), [(1, 64), (30, 64), (500, 64), (100, 4000)])
def test_a_lesson_has_about_as_many_steps_as_asked_for(steps, batch_size):
    parent = TrainConfig(dataset="mnist_sample", batch_size=batch_size, schedule="one_cycle", early_stopping_patience=3)
    config = lesson_config(parent, steps, 1e-4)
    assert steps <= config.total_steps() <= max(steps + 1, steps * 1.35)
    assert (config.learning_rate, config.schedule, config.early_stopping_patience) == (1e-4, "constant", None)
    assert config.model == parent.model


def test_each_batch_holds_the_digits_and_some_drawings(drawings, tmp_path):
    splits = load_splits(SAMPLE, tmp_path)
    plain, mixed = make_batches(SAMPLE, splits.train, CPU), make_batches(SAMPLE, splits.train, CPU)
    lesson = LessonBatches(mixed, SAMPLE, drawings, CPU)
    batches = list(lesson.epoch(0))
    for (images, labels), (more, more_labels) in zip(plain.epoch(0), batches, strict=True):
        assert torch.equal(more[:64], images)
        assert torch.equal(more_labels[:64], labels)
        assert more_labels[64:].tolist() == [8] * 21  # a quarter of the batch
        assert len(torch.unique(more[64:].flatten(1), dim=0)) > 4  # varied, not repeated
    (again, _) = next(iter(lesson.epoch(0, 3)))
    assert torch.equal(again, batches[3][0])


def test_a_lesson_teaches_the_drawings_and_names_its_parent(trainer, runs, tmp_path, drawings):
    parent = trainer.start(dataclasses.replace(SAMPLE, epochs=4), tmp_path, runs)
    wait_for_status(trainer, runs, parent, RunStatus.FINISHED)
    before = load_predictor(runs / parent / "best.pt")
    untouched = fingerprint(before.model)
    inputs = (drawings.images.astype(np.float32) / 255 - 0.1307) / 0.3081
    assert [one.digit for one in before.predict(inputs)].count(8) < 2

    config = lesson_config(before.config, 60, 1e-3)
    lesson = Lesson(parent, before.step, before.model.state_dict(), drawings)
    child = trainer.start(config, tmp_path, runs, origin=lesson)
    assert child != parent
    snapshot = wait_for_status(trainer, runs, child, RunStatus.FINISHED)
    assert (snapshot.info.parent, snapshot.info.parent_step) == (parent, before.step)
    after = load_predictor(runs / child / "best.pt")
    assert [one.digit for one in after.predict(inputs)] == [8, 8, 8, 8]
    assert snapshot.steps.column("loss")[0] < 2.0  # it did not begin anew
    assert snapshot.info.test_accuracy > read_info(runs / parent).test_accuracy - 0.1
    kept = load_drawings(runs / child)
    assert np.array_equal(kept.images, drawings.images)
    assert kept.labels.tolist() == [8] * 4
    assert load_drawings(runs / parent) is None
    # The parent's own files are as they were.
    assert fingerprint(load_predictor(runs / parent / "best.pt").model) == untouched


def test_damaged_drawings_are_told(tmp_path, drawings):
    save_drawings(tmp_path, drawings)
    path = tmp_path / "drawings.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(RunError, match="drawings"):
        load_drawings(tmp_path)
    with pytest.raises(RunError, match="cannot be saved"):
        save_drawings(tmp_path / "gone", drawings)
