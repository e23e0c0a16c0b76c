import copy
import dataclasses
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from core.data.batches import make_batches
from core.data.sources import Digits, load_splits
from core.errors import TrainingError
from core.events import RunStarted, StepDone, StepsEnded, StoppedEarly, Validated
from core.events import Tested as WasTested
from core.training.evaluation import evaluate
from core.training.loop import make_update, train
from core.training.reporting import take_pending
from core.training.state import new_state
from core.training.world import World
from tests.helpers.trainings import SAMPLE

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    return load_splits(SAMPLE, tmp_path_factory.mktemp("none"))


def run(config, splits, on_event=None, **replaced):
    """Train to the end; returns the state and the events but StepDone."""
    torch.set_num_threads(config.threads or 1)
    state = new_state(config)
    events = []
    for event in train(state, make_batches(config, splits.train, CPU), splits.validation, splits.test, **replaced):
        if not isinstance(event, StepDone):
            events.append(event)
        if on_event:
            on_event(state, event)
    return state, events


def rows(events):
    return np.concatenate([event.steps for event in events if isinstance(event, StepsEnded)])


def same_weights(first, second):
    one, other = first.model.state_dict(), second.model.state_dict()
    return all(torch.equal(one[name], other[name]) for name in one)


def test_events_come_in_order_and_cover_every_step(splits):
    _, events = run(SAMPLE, splits)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], WasTested)
    assert [event.step for event in events if isinstance(event, Validated)] == [10, 20]
    steps = rows(events)
    assert steps["step"].tolist() == list(range(1, SAMPLE.total_steps() + 1))
    assert (np.diff(steps["seconds"]) > 0).all()
    assert steps["images"].sum() == 2 * 640
    assert steps["loss"][0] == pytest.approx(math.log(10), abs=0.3)
    assert steps["loss"][-1] < steps["loss"][0]


def test_adam_steps_are_those_of_a_plain_loop(splits):
    """The loop against PyTorch written down again, without anything of ours but the first weights and the order."""
    config = dataclasses.replace(SAMPLE, epochs=1)
    state, events = run(config, splits)
    model = new_state(config).model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for images, labels in make_batches(config, splits.train, CPU).epoch(0):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert rows(events)["loss"] == pytest.approx(losses, abs=1e-4)
    for name, value in model.state_dict().items():
        assert torch.allclose(value, state.model.state_dict()[name], atol=1e-5)


CONFIGS = {
    "plain": {},
    "everything": {
        "model": "cnn_batchnorm",
        "dropout": 0.5,
        "augment_shift": 2,
        "augment_rotation": 5.0,
        "accumulation_steps": 2,
        "schedule": "one_cycle",
        "label_smoothing": 0.1,
        "gradient_clip": 1.0,
        "optimizer": "adamw",
    },
    "loader": {"pipeline": "dataloader", "augment_scale": 0.1},
    "bfloat16": {"precision": "bfloat16", "model": "mlp", "dropout": 0.2},
    "two threads": {"threads": 2},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_seed_gives_the_same_bits_whatever_else_happens(splits, name):
    """Invariants 1 and 2: global random numbers, other models, evaluations and pauses change nothing."""
    config = dataclasses.replace(SAMPLE, **CONFIGS[name])

    def disturb(state, event):
        torch.manual_seed(len(str(event)))
        np.random.seed(0)
        torch.rand(17)
        if state.step % 5 == 0 and state.step:
            twin = copy.deepcopy(state.model).train()
            twin(torch.randn(4, 1, 28, 28))
            evaluate(state.model, splits.test, CPU)
            state.model.train()

    quiet, _ = run(config, splits)
    disturbed, _ = run(config, splits, disturb)
    assert same_weights(quiet, disturbed)
    other, _ = run(dataclasses.replace(config, seed=1), splits)
    assert not same_weights(quiet, other)


@pytest.mark.parametrize("times", [0, 1, 3, 20])
def test_evaluating_more_often_changes_nothing_in_training(splits, times):
    """Invariant 4."""
    config = dataclasses.replace(SAMPLE, model="cnn_batchnorm", dropout=0.3)
    usual, _ = run(config, splits)
    other, events = run(dataclasses.replace(config, validations_per_epoch=times), splits)
    assert same_weights(usual, other)
    assert len([event for event in events if isinstance(event, Validated)]) == max(1, 2 * min(times, 10))


@pytest.mark.parametrize(("train_size", "batch", "groups"), [(640, 64, 5), (640, 64, 4), (330, 40, 4), (200, 64, 100)])
def test_accumulated_batches_equal_one_large_batch(splits, train_size, batch, groups):
    """Also in a last group that holds fewer batches, and a last batch that holds fewer digits."""
    digits = splits.train.take(np.arange(train_size))
    parts = dataclasses.replace(SAMPLE, train_size=train_size, batch_size=batch, accumulation_steps=groups, epochs=1)
    whole = dataclasses.replace(parts, batch_size=min(train_size, batch * groups), accumulation_steps=1)
    for optimizer in ("sgd", "sgd_momentum"):
        pair = []
        for config in (parts, whole):
            changed = dataclasses.replace(config, optimizer=optimizer, learning_rate=0.05)
            state, events = run(changed, dataclasses.replace(splits, train=digits))
            pair.append((state, rows(events)))
        (one, one_rows), (other, other_rows) = pair
        assert one_rows["images"].tolist() == other_rows["images"].tolist()
        assert one_rows["loss"] == pytest.approx(other_rows["loss"], abs=1e-5)
        for name, value in one.model.state_dict().items():
            assert torch.allclose(value, other.model.state_dict()[name], atol=1e-6), name


@pytest.mark.parametrize("model", ["cnn_batchnorm", "fast_cnn"])
def test_a_last_batch_of_one_joins_the_one_before(splits, model):
    digits = splits.train.take(np.arange(129))
    config = dataclasses.replace(SAMPLE, model=model, train_size=129, epochs=1)
    _, events = run(config, dataclasses.replace(splits, train=digits))
    assert rows(events)["images"].tolist() == [64, 65]
    assert "single digit" in events[0].notes[0]


def test_a_nonfinite_loss_stops_before_the_update_and_says_where(splits):
    state = new_state(dataclasses.replace(SAMPLE, learning_rate=1e5, optimizer="sgd"))
    source = make_batches(state.config, splits.train, CPU)
    weights = []

    def follow():
        for event in train(state, source, splits.validation, splits.test):
            if isinstance(event, StepDone):
                weights.append(copy.deepcopy(state.model.state_dict()))

    with pytest.raises(TrainingError) as caught:
        follow()
    assert f"step {state.step + 1:,}" in str(caught.value)
    assert "100000" in str(caught.value)
    assert "10000)" in str(caught.value)
    assert all(torch.equal(value, weights[-1][name]) for name, value in state.model.state_dict().items())
    report = take_pending(state)
    assert report is not None
    assert not np.isfinite([report.steps["loss"][-1], report.steps["gradient_norm"][-1]]).all()


def test_the_shown_learning_rates_are_those_of_the_schedule(splits):
    from core.training.schedule import schedule_factor

    for schedule in ("constant", "cosine", "step", "one_cycle"):
        config = dataclasses.replace(SAMPLE, schedule=schedule, warmup_steps=3, schedule_epochs=1)
        _, events = run(config, splits)
        expected = [config.learning_rate * schedule_factor(config, step) for step in range(config.total_steps())]
        assert rows(events)["learning_rate"] == pytest.approx(expected)


def test_plateau_drops_the_rate_when_the_validation_loss_stands_still(splits):

    frozen = evaluate(new_state(SAMPLE).model, splits.validation, CPU)

    def standing_still(*_):
        yield StepDone()
        return frozen

    config = dataclasses.replace(SAMPLE, schedule="plateau", schedule_epochs=2, schedule_factor=0.5, epochs=6, warmup_steps=4)
    _, events = run(config, splits, evaluate=standing_still)
    rates = rows(events)["learning_rate"]
    per_epoch = rates.reshape(6, 10)
    assert per_epoch[0, :4] == pytest.approx(config.learning_rate * np.array([0.25, 0.5, 0.75, 1]))
    assert per_epoch[:, -1] == pytest.approx(config.learning_rate * np.array([1, 1, 1, 0.5, 0.5, 0.25]))


def test_early_stopping_counts_nan_as_worst_and_keeps_the_best_weights(splits):

    good = evaluate(new_state(SAMPLE).model, splits.validation, CPU)
    losses = iter([1.0, 0.5, float("nan"), float("nan"), 0.1])

    def scripted(*_):
        yield StepDone()
        return dataclasses.replace(good, loss=next(losses), accuracy=0.9)

    weights = {}

    def keep(state, event):
        if isinstance(event, Validated):
            weights[event.step] = copy.deepcopy(state.model.state_dict())

    config = dataclasses.replace(SAMPLE, early_stopping_patience=2, epochs=10, model="cnn_batchnorm")
    state, events = run(config, splits, keep, evaluate=scripted)
    stop = next(event for event in events if isinstance(event, StoppedEarly))
    assert stop.step == 40
    assert "2 validations" in stop.reason
    assert state.best_step == 20
    assert isinstance(events[-1], WasTested)
    assert events[-1].step == 20
    for name, value in state.best_weights.items():
        assert torch.equal(value, weights[20][name]), name
    assert any("running_mean" in name for name in state.best_weights)


def test_the_test_split_is_scored_once_and_chooses_nothing(splits):
    one, events = run(SAMPLE, splits)
    other = Digits(splits.test.images[::-1].copy(), (splits.test.labels[::-1].copy() + 1) % 10)
    two, other_events = run(SAMPLE, dataclasses.replace(splits, test=other))
    assert same_weights(one, two)
    assert one.best_step == two.best_step
    assert len([event for event in events if isinstance(event, WasTested)]) == 1
    assert events[-1].evaluation.accuracy != other_events[-1].evaluation.accuracy


def test_stopping_between_any_two_steps_leaves_a_usable_state(splits):
    for stop_at in (1, 10, 13):
        state = new_state(SAMPLE)
        events = train(state, make_batches(SAMPLE, splits.train, CPU), splits.validation, splits.test)
        for event in events:
            if isinstance(event, StepDone) and state.step == stop_at:
                break
        events.close()
        report = take_pending(state)
        assert report is None or report.steps["step"][-1] == stop_at
        assert state.model.training
        assert torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")


def test_a_run_torn_off_after_every_step_does_all_that_the_straight_one_does(splits):
    config = dataclasses.replace(SAMPLE, early_stopping_patience=5, schedule="plateau", schedule_epochs=1)
    straight, straight_events = run(config, splits)
    state = new_state(config)
    pipeline = make_batches(config, splits.train, CPU)
    events = []
    for _ in range(2 * config.total_steps()):  # torn off after each single update
        before = state.step
        for event in train(state, pipeline, splits.validation, splits.test):
            events.append(event)
            if state.step != before:
                break
        else:
            break
    else:
        raise AssertionError("never came to its end")

    def scores(given):
        return [(one.step, one.evaluation.loss) for one in given if isinstance(one, Validated)]

    assert scores(events) == scores(straight_events)
    assert same_weights(state, straight)


def poisoned(state, group):
    """The same batches with one NaN in the last one, so that a forward is done before the failure."""
    images = group[-1][0].clone()
    images[0, 0, 3, 3] = math.nan
    return [*group[:-1], (images, group[-1][1])]


CHANGES = [{}, {"accumulation_steps": 2}, {"detect_anomaly": True}, {"optimizer": "sgd"}, {"dropout": 0.5}]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_step_that_fails_leaves_weights_buffers_and_optimizer_as_they_were(splits, changes):
    config = dataclasses.replace(SAMPLE, model="lab_cnn", **changes)
    state, source = new_state(config), iter(make_batches(config, splits.train, CPU).epoch(0))
    torch.set_num_threads(1)
    count = config.accumulation_steps
    for _ in range(3):
        make_update(state, [next(source) for _ in range(count)])
    before = copy.deepcopy((state.model.state_dict(), state.optimizer.state_dict()["state"], state.step))
    with pytest.raises(TrainingError):
        make_update(state, poisoned(state, [next(source) for _ in range(count)]))
    assert state.step == before[2]
    assert state.whole
    for name, value in state.model.state_dict().items():
        assert torch.equal(value, before[0][name]), name
    for number, values in state.optimizer.state_dict()["state"].items():
        assert all(torch.equal(one, before[1][number][key]) for key, one in values.items() if isinstance(one, torch.Tensor))


def test_anomaly_mode_names_the_forward_operation_its_layer_step_and_rate(splits):
    """The square root of nothing has no gradient: 0 times infinity in the backward pass, while the loss is a number."""
    config = dataclasses.replace(SAMPLE, model="simple_cnn", detect_anomaly=True)
    state = new_state(config)

    class Root(torch.nn.Module):
        def forward(self, x):
            return x + (x - x).sqrt() * 0

    state.model.relu2 = Root()
    group = [next(iter(make_batches(config, splits.train, CPU).epoch(0)))]
    with pytest.raises(TrainingError) as caught:
        make_update(state, group)
    words = str(caught.value)
    assert "backward pass of sqrt" in words
    assert "conv2" in words
    assert "step 1," in words
    assert f"{config.learning_rate:g}" in words
    assert any("forward pass that this operation belongs to" in note for note in caught.value.__cause__.__notes__)
    assert len(state.pending) == 1  # the failed step is on the chart


class Together(World):
    """Processes as threads: each waits until all have brought their part."""

    def __init__(self, rank, size, barrier, parts):
        self.rank, self.size, self._barrier, self._parts = rank, size, barrier, parts

    def total(self, values):
        self._parts[self.rank] = values.clone()
        self._barrier.wait(30)
        total = sum(self._parts)
        self._barrier.wait(30)
        return total


def in_two_processes(states, groups):
    """One update in each of two threads, and what came of it: None, or the error."""
    barrier, parts = threading.Barrier(2), [None, None]
    for rank, state in enumerate(states):
        state.world = Together(rank, 2, barrier, parts)

    def update(state, group):
        try:
            make_update(state, group)
        except TrainingError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(update, states, groups))


def test_two_processes_with_half_the_digits_each_make_the_update_of_one_with_all(splits):
    config = dataclasses.replace(SAMPLE, model="mlp", dropout=0.0, gradient_clip=0.5, batch_size=7)
    whole, *halves = (new_state(config) for _ in range(3))
    images, labels = next(make_batches(config, splits.train, CPU).epoch(0))
    make_update(whole, [(images, labels)])
    assert in_two_processes(halves, [[(images[:3], labels[:3])], [(images[3:], labels[3:])]]) == [None, None]
    expected = take_pending(whole).steps
    for half in halves:
        noted = take_pending(half).steps
        assert noted["images"] == expected["images"] == 7
        assert noted["correct"] == expected["correct"]
        np.testing.assert_allclose(noted["loss"], expected["loss"], rtol=1e-5)
        np.testing.assert_allclose(noted["gradient_norm"], expected["gradient_norm"], rtol=1e-4)
        for one, other in zip(half.model.parameters(), whole.model.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert same_weights(*halves)


def test_a_nonfinite_part_stops_every_process_at_the_same_step(splits):
    states = [new_state(dataclasses.replace(SAMPLE, model="mlp", dropout=0.0)) for _ in range(2)]
    images, labels = next(make_batches(SAMPLE, splits.train, CPU).epoch(0))
    broken = images.clone()
    broken[0] = math.nan
    before = copy.deepcopy(states[0])
    errors = in_two_processes(states, [[(images, labels)], [(broken, labels)]])
    assert all("at step 1" in str(error) for error in errors)
    assert all(same_weights(before, state) and state.step == 0 for state in states)
