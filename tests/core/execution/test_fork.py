import dataclasses
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from core.data.sources import Digits, load_splits
from core.errors import ConfigError, RunError
from core.execution.fork import CHANGEABLE, FIXED, fork, forked, longer
from core.execution.kept_states import newest_state
from core.execution.lesson import Lesson, lesson_config
from core.execution.trainer import Trainer
from core.model.predictor import load_predictor
from core.modes.during_training import mode_gap, window
from core.runs.drawings import load_drawings
from core.runs.folder import RunFolder
from core.runs.info import read_info
from core.status import Progress, RunStatus
from core.training.saved_state import load_state, save_state
from core.training.schedule import schedule_factor
from core.training.state import new_state
from tests.helpers.bits import same_bits
from tests.helpers.trainings import CONFIGS, SAMPLE, SMALL, followed
from tests.helpers.waits import wait_for, wait_for_status

UNCHANGED = ("plain", "sgd with momentum", "one-cycle", "plateau", "augmented", "accumulated", "momentum none", "bfloat16")


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def saved_at(config, step, folder, splits=None):
    """A state saved after so many steps, read back."""
    state = new_state(config)
    followed(state, splits or load_splits(config, folder), (step, False))
    save_state(folder / "state.pt", state)
    return load_state(folder / "state.pt")


@pytest.mark.parametrize("name", UNCHANGED)
@pytest.mark.parametrize("place", ["inside an epoch", "at its end"])
def test_a_fork_that_changes_nothing_is_its_parents_own_way_on(name, place, tmp_path):
    config = CONFIGS[name]
    splits = load_splits(config, tmp_path)
    whole = new_state(config)
    followed(whole, splits)
    per_epoch = config.steps_per_epoch()
    saved = saved_at(config, per_epoch // 2 if place == "inside an epoch" else per_epoch, tmp_path, splits)
    state = forked(fork("parent", saved, config), beside_pages=False)
    assert state.step == saved.step
    followed(state, splits)
    assert same_bits(whole, state) == ""


def test_a_changed_learning_rate_changes_nothing_before_and_everything_after(tmp_path):
    splits = load_splits(SMALL, tmp_path)
    saved = saved_at(SMALL, 5, tmp_path, splits)
    made = fork("parent", saved, dataclasses.replace(SMALL, learning_rate=1e-5))
    state = forked(made, beside_pages=False)
    for name, value in saved.content["model"].items():
        assert torch.equal(value, state.model.state_dict()[name])
    for place, moments in saved.content["optimizer"]["state"].items():
        assert torch.equal(moments["exp_avg_sq"], state.optimizer.state_dict()["state"][place]["exp_avg_sq"])
    events, _ = followed(state, splits)
    rates = [row["learning_rate"] for event in events if hasattr(event, "steps") for row in event.steps]
    assert set(rates) == {1e-5}
    assert next(event.steps["step"][0] for event in events if hasattr(event, "steps")) == 6
    assert state.step == SMALL.total_steps()


def test_another_optimizer_begins_without_memory(tmp_path):
    saved = saved_at(SMALL, 5, tmp_path)
    state = forked(fork("parent", saved, dataclasses.replace(SMALL, optimizer="sgd_momentum")), beside_pages=False)
    assert isinstance(state.optimizer, torch.optim.SGD)
    assert state.optimizer.state_dict()["state"] == {}


@pytest.mark.parametrize(
    ("step", "changes", "epoch", "batch", "first_step"),
    [
        (5, {"batch_size": 64}, 0, 2, 2),  # 160 of 320 digits seen: two whole batches of 64
        (5, {"batch_size": 16}, 0, 10, 10),
        (5, {"accumulation_steps": 2}, 0, 4, 2),  # whole updates only
        (10, {"batch_size": 64}, 1, 0, 5),  # the end of an epoch stays one
        (15, {"batch_size": 64}, 1, 2, 7),
        (5, {"batchnorm_frozen": True}, 0, 5, 5),
    ],
)
def test_a_changed_batch_size_counts_on_from_the_same_place_of_the_epoch(step, changes, epoch, batch, first_step, tmp_path):
    saved = saved_at(SMALL, step, tmp_path)
    made = fork("parent", saved, dataclasses.replace(SMALL, **changes))
    state = forked(made, beside_pages=False)
    assert (made.parent_step, made.first_step) == (step, first_step)
    assert (state.epoch, state.batch, state.step) == (epoch, batch, first_step)
    followed(state, load_splits(SMALL, tmp_path))
    assert state.step == made.config.total_steps()


def test_frozen_batchnorm_keeps_its_running_statistics(tmp_path):
    saved = saved_at(SMALL, 5, tmp_path)
    state = forked(fork("parent", saved, dataclasses.replace(SMALL, batchnorm_frozen=True)), beside_pages=False)
    followed(state, load_splits(SMALL, tmp_path))
    norms = [name for name, module in state.model.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    assert len(norms) == 3
    for name, value in state.model.state_dict().items():
        statistics = "running" in name or "num_batches" in name
        assert torch.equal(value, saved.content["model"][name]) == statistics, name


def test_a_finished_run_goes_on_with_the_rate_that_was_asked_for(tmp_path):
    config = dataclasses.replace(SMALL, schedule="cosine", learning_rate=0.01)
    saved = saved_at(config, config.total_steps(), tmp_path)
    with pytest.raises(RunError, match="nothing is left"):
        fork("parent", saved, config)
    more = dataclasses.replace(config, epochs=4)
    last = saved.content["optimizer"]["param_groups"][0]["lr"]

    def rates(choice):
        state = forked(fork("parent", saved, longer(saved, more, choice)), beside_pages=False)
        events, _ = followed(state, load_splits(config, tmp_path))
        return [row["learning_rate"] for event in events if hasattr(event, "steps") for row in event.steps]

    assert set(rates("hold")) == {last}
    stretched = rates("stretch")
    assert stretched == pytest.approx([0.01 * schedule_factor(more, step) for step in range(20, 40)])
    restarted = rates("restart")
    assert len(restarted) == len(stretched) == 20
    assert restarted[0] == pytest.approx(0.01)
    assert restarted == pytest.approx([0.01 * schedule_factor(config, step) for step in range(20)])


def test_what_a_state_is_made_for_cannot_be_changed(tmp_path):
    saved = saved_at(SMALL, 5, tmp_path)
    assert set(FIXED) | set(CHANGEABLE) == set(SMALL.to_dict())
    for name, value in (("model", "mlp"), ("train_size", 640), ("validation_size", 50)):
        with pytest.raises(ConfigError, match=f"{name}: a fork keeps its parent's"):
            fork("parent", saved, dataclasses.replace(SMALL, **{name: value}))
    with pytest.raises(ConfigError, match="greater than 0"):
        fork("parent", saved, dataclasses.replace(SMALL, learning_rate=-1.0))


def test_a_forked_run_names_its_parent_counts_on_and_can_be_taken_up(runs, tmp_path):
    config = dataclasses.replace(SAMPLE, epochs=3)
    trainer = Trainer()
    parent = trainer.start(config, tmp_path, runs)
    wait_for_status(trainer, runs, parent, RunStatus.FINISHED)
    saved = newest_state(runs / parent)
    made = fork(parent, saved, longer(saved, dataclasses.replace(config, epochs=200), "hold"))
    child = trainer.start(made.config, tmp_path, runs, origin=made)
    wait_for(lambda: trainer.readers.read(runs, child).step > 60, what="the fork trains")
    trainer.stop(child)
    stopped = wait_for_status(trainer, runs, child, RunStatus.STOPPED)
    assert (stopped.info.parent, stopped.info.parent_step, stopped.info.first_step) == (parent, 30, 30)
    assert stopped.steps.column("step")[0] == 31
    assert not stopped.damage
    trainer.shutdown()

    (runs / parent).rename(tmp_path / "gone")  # a fork needs its parent no more
    again = Trainer()
    again.resume(child, tmp_path, runs)
    wait_for(lambda: again.readers.read(runs, child).step > stopped.step, what="it goes on")
    again.stop(child)
    ended = wait_for_status(again, runs, child, RunStatus.STOPPED)
    again.shutdown()
    steps = ended.steps.column("step")
    assert steps.tolist() == list(range(31, 31 + len(steps)))
    assert not ended.damage
    assert max(RunFolder(runs / child).states()) == ended.step


def test_a_fork_that_waits_shows_where_it_will_begin(trainer, runs, tmp_path):
    first = trainer.start(dataclasses.replace(SAMPLE, epochs=1), tmp_path, runs)
    wait_for_status(trainer, runs, first, RunStatus.FINISHED)
    saved = newest_state(runs / first)
    busy = trainer.start(dataclasses.replace(SAMPLE, epochs=1000), tmp_path, runs)
    made = fork(first, saved, longer(saved, dataclasses.replace(SAMPLE, epochs=4), "stretch"))
    child = trainer.start(made.config, tmp_path, runs, origin=made)
    assert trainer.readers.read(runs, child).step == read_info(runs / child).step == 10
    trainer.stop(child)
    trainer.stop(busy)


def test_the_gap_of_a_fork_is_that_of_its_own_steps(trainer, runs, tmp_path):
    config = dataclasses.replace(SAMPLE, epochs=2)
    parent = trainer.start(config, tmp_path, runs)
    wait_for_status(trainer, runs, parent, RunStatus.FINISHED)
    saved = newest_state(runs / parent)
    made = fork(parent, saved, longer(saved, dataclasses.replace(config, epochs=5), "hold"))
    child = trainer.start(made.config, tmp_path, runs, origin=made)
    snapshot = wait_for_status(trainer, runs, child, RunStatus.FINISHED)
    points = [given for given in mode_gap(runs / child, tmp_path) if not isinstance(given, Progress)][-1]
    assert points
    steps, losses = snapshot.steps.column("step"), snapshot.steps.column("loss")
    for point in points:
        mine = (steps > point.step - window(point.step)) & (steps <= point.step)
        assert mine.sum() == window(point.step)
        assert point.optimizer_loss == pytest.approx(float(losses[mine].mean()), rel=1e-4)


def test_a_fork_of_a_lesson_goes_on_with_its_drawings(trainer, runs, tmp_path):
    first = trainer.start(SAMPLE, tmp_path, runs)
    wait_for_status(trainer, runs, first, RunStatus.FINISHED)
    model = load_predictor(runs / first / "best.pt")
    drawings = Digits(np.full((2, 1, 28, 28), 90, np.uint8), np.array([3, 8]))
    config = lesson_config(model.config, 20, 1e-4)
    lesson = trainer.start(config, tmp_path, runs, origin=Lesson(first, model.step, model.model.state_dict(), drawings))
    wait_for_status(trainer, runs, lesson, RunStatus.FINISHED)
    saved = newest_state(runs / lesson)
    made = fork(lesson, saved, dataclasses.replace(config, epochs=config.epochs + 1))
    child = trainer.start(made.config, tmp_path, runs, origin=made)
    snapshot = wait_for_status(trainer, runs, child, RunStatus.FINISHED)
    assert np.array_equal(load_drawings(runs / child).images, drawings.images)
    assert (snapshot.steps.column("images") > config.batch_size).all()


def test_two_forks_of_one_state_that_was_read_once_do_not_share_anything(tmp_path):
    splits = load_splits(SMALL, tmp_path)
    saved = saved_at(SMALL, 5, tmp_path, splits)
    first = forked(fork("parent", saved, SMALL), beside_pages=False)
    followed(first, splits)
    second = forked(fork("parent", saved, SMALL), beside_pages=False)
    followed(second, splits)
    assert same_bits(first, second) == ""


def test_a_fork_and_a_lesson_that_wait_survive_the_end_of_their_server_and_of_their_parent(runs, tmp_path, drawings_of_ones):
    first = Trainer()
    parent = first.start(dataclasses.replace(SAMPLE, model="fast_cnn"), tmp_path, runs)
    wait_for_status(first, runs, parent, RunStatus.FINISHED)
    saved, predictor = newest_state(runs / parent), load_predictor(runs / parent / "best.pt")
    busy = first.start(dataclasses.replace(SAMPLE, epochs=500), tmp_path, runs)
    waiting = first.start(
        dataclasses.replace(saved.config, epochs=4),
        tmp_path,
        runs,
        origin=fork(parent, saved, dataclasses.replace(saved.config, epochs=4)),
    )
    taught = lesson_config(predictor.config, 20, 1e-4)
    lesson = first.start(
        taught, tmp_path, runs, origin=Lesson(parent, predictor.step, predictor.model.state_dict(), drawings_of_ones)
    )
    assert first.active()[waiting] == first.active()[lesson] == RunStatus.QUEUED
    first.shutdown()
    shutil.rmtree(runs / parent)
    second = Trainer()
    try:
        for run_id in (waiting, lesson):
            second.resume(run_id, tmp_path, runs)
            snapshot = wait_for_status(second, runs, run_id, RunStatus.FINISHED, 120)
            assert snapshot.info.parent == parent
        assert read_info(runs / waiting).first_step == saved.step
        assert load_drawings(runs / lesson) is not None
    finally:
        second.shutdown()
    assert busy


@pytest.fixture
def drawings_of_ones():
    images = np.zeros((3, 1, 28, 28), np.uint8)
    images[:, :, 4:24, 13:15] = 255
    return Digits(images, np.ones(3, np.int64))
