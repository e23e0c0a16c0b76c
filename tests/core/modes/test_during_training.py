import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.sources import load_splits
from core.errors import RunError
from core.model.networks import build_model
from core.modes.during_training import mode_gap, window
from core.runs.folder import RunFolder
from core.status import Progress, RunStatus
from tests.helpers.waits import wait_for_status

CONFIG = TrainConfig(
    dataset="mnist_sample",
    model="fast_cnn",
    dropout=0.4,
    train_size=640,
    validation_size=200,
    epochs=2,
    batch_size=32,
    threads=1,
    device="cpu",
)
VARIANTS = {
    "plain": CONFIG,
    "accumulated": dataclasses.replace(CONFIG, batch_size=48, accumulation_steps=3),
    "augmented": dataclasses.replace(CONFIG, augment_rotation=20.0, label_smoothing=0.1, order="by_class"),
    "dataloader": dataclasses.replace(CONFIG, pipeline="dataloader", augment_shift=2, workers=1),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_images_again_in_eval_mode(name, trainer, runs, tmp_path):
    config = VARIANTS[name]
    run_id = trainer.start(config, tmp_path, runs)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.FINISHED, 120)
    points = [given for given in mode_gap(runs / run_id, tmp_path) if not isinstance(given, Progress)][-1]
    kept = [step for step in RunFolder(runs / run_id).snapshots() if step]
    assert [point.step for point in points] == kept

    # Every update's batches from the start of the run, in order.
    plain = dataclasses.replace(config, workers=0)
    splits, updates = load_splits(plain, tmp_path), []
    batches = make_batches(plain, splits.train, torch.device("cpu"))
    for epoch in range(config.epochs):
        all_of_epoch = list(batches.epoch(epoch))
        for start in range(0, len(all_of_epoch), config.accumulation_steps):
            updates.append(all_of_epoch[start : start + config.accumulation_steps])
    losses, images = snapshot.steps.column("loss"), snapshot.steps.column("images")
    for point in points:
        step, first = point.step, point.step - window(point.step)
        weights = torch.load(runs / run_id / "snapshots" / f"step-{step:08d}.pt", weights_only=True)["weights"]
        model = build_model(config)
        model.load_state_dict(weights)
        model.eval()
        seen = [batch for update in updates[first:step] for batch in update]
        labels = torch.cat([labels for _, labels in seen])
        with torch.no_grad():
            logits = torch.cat([model(images) for images, _ in seen])
        expected = float(F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing))
        assert point.digits == len(labels)
        assert point.train_loss == pytest.approx(expected, rel=1e-3)
        assert point.train_accuracy == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
        assert point.optimizer_loss == pytest.approx(np.average(losses[first:step], weights=images[first:step]), rel=1e-4)
    assert points[-1].validation_accuracy == pytest.approx(snapshot.validations[-1].evaluation.accuracy, abs=1e-6)


def test_a_run_without_snapshots_says_so(trainer, runs, tmp_path):
    run_id = trainer.start(CONFIG, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    for path in (runs / run_id / "snapshots").iterdir():
        path.unlink()
    with pytest.raises(RunError, match="keeps no snapshot"):
        list(mode_gap(runs / run_id, tmp_path))


def test_the_window_is_short_while_weights_change_quickly():
    assert [window(step) for step in (1, 8, 64, 200, 10_000)] == [1, 1, 8, 25, 25]


@pytest.mark.parametrize("name", ["plain", "augmented"])
@pytest.mark.parametrize("model", ["mlp", "lab_cnn"])
def test_the_parts_are_measured_apart_and_add_up_to_the_gap(name, model, trainer, runs, tmp_path):
    config = dataclasses.replace(VARIANTS[name], model=model, dropout=0.4 if model == "lab_cnn" else 0.0, epochs=1)
    run_id = trainer.start(config, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED, 120)
    points = [given for given in mode_gap(runs / run_id, tmp_path) if not isinstance(given, Progress)][-1]
    assert points
    for one in points:
        parts = [
            one.optimizer_loss - one.again_loss,
            one.again_loss - one.train_loss,
            one.train_loss - one.clean_loss,
            one.clean_loss - one.validation_loss,
        ]
        assert sum(parts) == pytest.approx(one.optimizer_loss - one.validation_loss, abs=1e-6)
        if model == "mlp":  # it has no layer that knows a mode
            assert one.again_loss == pytest.approx(one.train_loss, abs=1e-6)
            assert one.again_accuracy == one.train_accuracy
        if name == "plain":
            assert one.clean_loss == one.train_loss
    if model == "lab_cnn":
        assert any(abs(one.again_loss - one.train_loss) > 1e-3 for one in points)
