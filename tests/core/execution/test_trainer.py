import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from core.data.sources import MNIST_FILES, load_sample, raw_folder
from core.errors import ConfigError, Failure, RunError
from core.events import STEP_DTYPE
from core.execution import recorder
from core.execution.jobs import Jobs
from core.execution.kept_states import newest_state
from core.execution.process import get_trainer
from core.execution.trainer import Trainer
from core.model.predictor import Predictor
from core.model.weights import load_weights
from core.modes.copies import answer_in_train_mode, some_digits
from core.modes.during_training import mode_gap
from core.modes.eval_or_no_grad import two_by_two
from core.modes.one_switch import one_switch
from core.modes.poisoning import poisoning
from core.modes.warming_up import warm_up_config, warming_up
from core.modes.with_and_without import twin_configs
from core.runs.folder import RunFolder
from core.runs.info import can_go_on, read_info
from core.runs.reader import RunReader
from core.runs.writer import RunWriter
from core.status import RunStatus
from core.training.saved_state import load_state, restored
from core.training.side_by_side import twin_trainings
from tests.helpers.bits import same_bits
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for, wait_for_status

NONE = Path("no-data-needed")
LONG = dataclasses.replace(SAMPLE, epochs=500)


def weights_of(runs, run_id, name="last.pt"):
    return load_weights(runs / run_id / name)["weights"]


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_goes_from_queued_to_finished_and_leaves_its_folder(trainer, runs):
    run_id = trainer.start(SAMPLE, NONE, runs)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    assert snapshot.step == SAMPLE.total_steps()
    assert snapshot.tested is not None
    assert snapshot.info.test_accuracy == snapshot.tested.evaluation.accuracy
    assert {path.name for path in (runs / run_id).iterdir()} >= {
        "config.json",
        "environment.json",
        "status.json",
        "steps.bin",
        "reports.bin",
        "events.jsonl",
        "best.pt",
        "last.pt",
    }
    wait_for(lambda: not trainer.active())


def test_pausing_looking_and_drawing_change_no_bit(trainer, runs):
    """Invariant 1, through the thread: pauses, viewers, answers of its weights in both modes, a second run in the queue."""
    config = dataclasses.replace(SAMPLE, model="cnn_batchnorm", dropout=0.5, augment_shift=1)
    quiet = trainer.start(config, NONE, runs)
    wait_for_status(trainer, runs, quiet, RunStatus.FINISHED)

    stop, asked = threading.Event(), set()
    image = np.zeros((1, 1, 28, 28), np.float32)

    def disturb():
        while not stop.is_set():
            torch.manual_seed(1)
            torch.nn.functional.dropout(torch.randn(64, 64), 0.5)
            trainer.readers.read(runs, busy)
            if live := trainer.weights(busy):
                asked.add(live.step)
                predictor = Predictor(live.weights, live.config, live.step)
                predictor.predict(image)
                answer_in_train_mode(predictor.model, image, np.repeat(image, 7, 0))

    busy = trainer.start(config, NONE, runs)
    viewer = threading.Thread(target=disturb)
    viewer.start()
    trainer.start(dataclasses.replace(config, seed=9), NONE, runs)
    for step in (3, 12):
        wait_for(lambda step=step: trainer.readers.read(runs, busy).step >= step or not trainer.active().get(busy))
        trainer.pause(busy)
        trainer.unpause(busy)
    wait_for_status(trainer, runs, busy, RunStatus.FINISHED)
    stop.set()
    viewer.join()
    assert len(asked) > 1
    assert same(weights_of(runs, quiet), weights_of(runs, busy))


def test_experiments_beside_a_run_change_no_bit(trainer, runs):
    """Invariant 1: the train/eval experiments, as jobs on the run's live weights, with trainings of their own."""
    config = dataclasses.replace(SAMPLE, model="lab_cnn", dropout=0.5, augment_shift=1, epochs=12)
    quiet = trainer.start(config, NONE, runs)
    wait_for_status(trainer, runs, quiet, RunStatus.FINISHED)

    busy = trainer.start(config, NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, busy).step >= 2 and len(RunFolder(runs / busy).snapshots()) > 1)
    live = wait_for(lambda: trainer.weights(busy))
    model, (pool, test) = Predictor(live.weights, live.config, live.step).model, load_sample()
    few = some_digits(test, 100)
    experiments = {
        "switch": lambda: one_switch(model, few, size=4, order="shuffled"),
        "poison": lambda: poisoning(model, few, some_digits(pool, 500), "noise"),
        "costs": lambda: two_by_two(model, few),
        "warm up": lambda: warming_up(warm_up_config("lab_cnn", "mnist_sample", 0.1, 10), NONE),
        "twins": lambda: twin_trainings(twin_configs("mnist_sample", "adam", 1e-3, 0.5, 5), NONE),
        "gap": lambda: mode_gap(runs / busy, NONE),
    }
    jobs = Jobs()
    for name, steps in experiments.items():
        jobs.start(name, steps)
    wait_for_status(trainer, runs, busy, RunStatus.FINISHED)
    for name in experiments:
        wait_for(lambda name=name: not jobs.get(name).status.is_active)
        assert jobs.get(name).status == RunStatus.FINISHED, jobs.get(name).details
    assert same(weights_of(runs, quiet), weights_of(runs, busy))


def test_pause_stands_still_and_resume_goes_on(trainer, runs):
    run_id = trainer.start(LONG, NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 5)
    trainer.pause(run_id)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.PAUSED)
    step = snapshot.step
    assert step > 0
    assert trainer.readers.read(runs, run_id).step == step
    seconds = float(snapshot.steps.column("seconds")[-1])
    trainer.unpause(run_id)
    after = wait_for(lambda: (now := trainer.readers.read(runs, run_id)).step > step and now)
    gained = float(after.steps.column("seconds")[-1]) - seconds
    assert gained < 30  # the pause itself is no training time
    assert after.steps.column("step").tolist() == list(range(1, after.step + 1))
    trainer.stop(run_id)
    wait_for_status(trainer, runs, run_id, RunStatus.STOPPED)


@pytest.mark.parametrize("moment", ["at once", "running", "paused"])
def test_stop_works_at_any_moment(trainer, runs, moment):
    run_id = trainer.start(LONG, NONE, runs)
    if moment != "at once":
        wait_for(lambda: trainer.readers.read(runs, run_id).step > 3)
    if moment == "paused":
        trainer.pause(run_id)
        wait_for_status(trainer, runs, run_id, RunStatus.PAUSED)
    trainer.stop(run_id)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.STOPPED)
    if moment != "at once":
        # every step that was made is recorded, and the last weights are those after it
        assert load_weights(runs / run_id / "last.pt")["step"] == snapshot.step
    wait_for(lambda: not trainer.active())
    again = trainer.start(SAMPLE, NONE, runs)
    wait_for_status(trainer, runs, again, RunStatus.FINISHED)


def test_one_run_at_a_time_the_others_wait_in_line(trainer, runs):
    first = trainer.start(LONG, NONE, runs)
    second = trainer.start(SAMPLE, NONE, runs)
    third = trainer.start(dataclasses.replace(SAMPLE, seed=1), NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, first).step > 0)
    assert list(trainer.active()) == [first, second, third]
    assert trainer.readers.read(runs, second).info.status == RunStatus.QUEUED
    trainer.stop(second)  # out of the middle of the line
    trainer.stop(first)
    wait_for_status(trainer, runs, third, RunStatus.FINISHED)
    assert trainer.readers.read(runs, second).info.status == RunStatus.STOPPED
    assert trainer.readers.read(runs, second).step == 0


def test_the_queue_has_an_end(trainer, runs, monkeypatch):
    monkeypatch.setattr("core.execution.trainer.MAX_QUEUE", 2)
    for seed in range(3):
        trainer.start(dataclasses.replace(LONG, seed=seed), NONE, runs)
    with pytest.raises(RunError, match="wait already"):
        trainer.start(LONG, NONE, runs)
    for run_id in trainer.active():
        trainer.stop(run_id)


def test_unusable_settings_start_nothing(trainer, runs):
    with pytest.raises(ConfigError):
        trainer.start(dataclasses.replace(SAMPLE, epochs=0), NONE, runs)
    assert not trainer.active()
    assert not runs.exists()


def test_missing_data_fail_with_words_and_the_next_run_works(trainer, runs, tmp_path):
    run_id = trainer.start(dataclasses.replace(SAMPLE, dataset="mnist"), tmp_path, runs)
    info = wait_for_status(trainer, runs, run_id, RunStatus.FAILED).info
    assert "MNIST is not in" in info.reason
    assert info.failure == "DataError"
    assert "Traceback" in info.details
    again = trainer.start(SAMPLE, NONE, runs)
    wait_for_status(trainer, runs, again, RunStatus.FINISHED)


def test_damaged_data_are_named(trainer, runs, tmp_path):
    raw_folder(tmp_path).mkdir(parents=True)
    for file in MNIST_FILES:
        (raw_folder(tmp_path) / file.name).write_bytes(b"")
    run_id = trainer.start(dataclasses.replace(SAMPLE, dataset="mnist"), tmp_path, runs)
    reason = wait_for_status(trainer, runs, run_id, RunStatus.FAILED).info.reason
    assert all(file.name in reason for file in MNIST_FILES)


def test_a_diverging_run_fails_with_its_last_steps_on_record(trainer, runs):
    run_id = trainer.start(dataclasses.replace(SAMPLE, learning_rate=1e5, optimizer="sgd"), NONE, runs)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.FAILED)
    assert "learning rate" in snapshot.info.reason
    assert snapshot.steps.nonfinite_rows("loss") or snapshot.steps.nonfinite_rows("gradient_norm")
    assert load_weights(runs / run_id / "last.pt")["step"] == snapshot.step - 1


def test_after_running_out_of_memory_the_next_start_works(trainer, runs, monkeypatch):
    real = recorder.train

    def hungry(state, *rest):
        for event in real(state, *rest):
            yield event
            if state.step == 3:
                torch.empty(2**50)

    monkeypatch.setattr(recorder, "train", hungry)
    run_id = trainer.start(SAMPLE, NONE, runs)
    info = wait_for_status(trainer, runs, run_id, RunStatus.FAILED).info
    assert "Memory ran out" in info.reason
    assert "half the batch size" in info.reason
    monkeypatch.setattr(recorder, "train", real)
    again = trainer.start(SAMPLE, NONE, runs)
    wait_for_status(trainer, runs, again, RunStatus.FINISHED)


def test_an_unexpected_error_reaches_the_folder(trainer, runs, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a bug")
        yield

    monkeypatch.setattr(recorder, "train", broken)
    run_id = trainer.start(SAMPLE, NONE, runs)
    info = wait_for_status(trainer, runs, run_id, RunStatus.FAILED).info
    assert "ZeroDivisionError: a bug" in info.reason
    assert "Traceback" in info.details


def test_a_folder_that_takes_nothing_fails_the_run_and_not_the_thread(trainer, runs, monkeypatch):
    real = RunWriter._write_info
    full = {"now": True}

    def write(self):
        if full["now"] and self.info.status == RunStatus.PREPARING:
            raise RunError("status.json cannot be written: No space left on device.")
        real(self)

    monkeypatch.setattr(RunWriter, "_write_info", write)
    first = trainer.start(SAMPLE, NONE, runs)
    second = trainer.start(dataclasses.replace(SAMPLE, seed=1), NONE, runs)
    info = wait_for_status(trainer, runs, first, RunStatus.FAILED).info
    assert "No space left" in info.reason
    full["now"] = False
    wait_for(lambda: not trainer.active())
    assert trainer.readers.read(runs, second).info.status in (RunStatus.FINISHED, RunStatus.FAILED)
    third = trainer.start(SAMPLE, NONE, runs)
    wait_for_status(trainer, runs, third, RunStatus.FINISHED)


def test_shutting_down_saves_and_refuses_more(runs):
    trainer = Trainer()
    run_id = trainer.start(LONG, NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 3)
    trainer.shutdown()
    snapshot = trainer.readers.read(runs, run_id)
    assert snapshot.info.status == RunStatus.STOPPED
    assert load_weights(runs / run_id / "last.pt")["step"] == snapshot.step
    with pytest.raises(RunError, match="shutting down"):
        trainer.start(SAMPLE, NONE, runs)


def test_there_is_one_trainer_a_process():
    found = []
    threads = [threading.Thread(target=lambda: found.append(get_trainer())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1


def test_live_weights_are_those_of_a_step_and_follow_the_run(trainer, runs):
    config = dataclasses.replace(SAMPLE, epochs=30, validations_per_epoch=0)
    assert trainer.weights("no-such-run") is None
    run_id = trainer.start(config, NONE, runs)
    first = wait_for(lambda: trainer.weights(run_id))
    later = wait_for(lambda: (now := trainer.weights(run_id)) and now.step > first.step and now)
    assert not same(first.weights, later.weights)
    trainer.pause(run_id)
    snapshot = wait_for_status(trainer, runs, run_id, RunStatus.PAUSED)
    paused = trainer.weights(run_id)
    assert paused.step == snapshot.step
    trainer.stop(run_id)
    wait_for_status(trainer, runs, run_id, RunStatus.STOPPED)
    assert same(paused.weights, weights_of(runs, run_id))
    assert trainer.weights(run_id) is None


def columns(runs, run_id):
    """Everything recorded about the steps of a run but the time."""
    steps = RunReader(runs / run_id).read().steps
    return {name: steps.column(name).tolist() for name in STEP_DTYPE.names if name != "seconds"}


def validations(runs, run_id):
    return [(one.step, one.evaluation.loss, one.best) for one in RunReader(runs / run_id).read().validations]


def test_a_stopped_run_is_taken_up_and_ends_as_if_it_had_never_stopped(runs):
    """Invariant 3 through the thread, by trainers that know nothing of each other, stopped three times."""
    config = dataclasses.replace(SAMPLE, model="lab_cnn", dropout=0.4, augment_shift=1, schedule="one_cycle", epochs=3)
    first = Trainer()
    whole = first.start(config, NONE, runs)
    wait_for_status(first, runs, whole, RunStatus.FINISHED)
    parts = first.start(config, NONE, runs)
    viewer = RunReader(runs / parts)

    def has_gone_on(resumes, step):
        # Both: on a busy machine a run may be far past a step when it is stopped, and at that step again before it goes on.
        seen = viewer.read()
        return seen.info.resumes == resumes and seen.step >= step

    for resumes, step in enumerate((2, 9, 17)):
        wait_for(lambda resumes=resumes, step=step, first=first: has_gone_on(resumes, step) or parts not in first.active())
        first.stop(parts)
        assert first.wait_until_idle(30)
        first.shutdown()
        stopped = viewer.read()
        assert stopped.info.status == RunStatus.STOPPED, stopped.info.details
        first = Trainer(beside_pages=False)
        first.resume(parts, NONE, runs)
        first.resume(parts, NONE, runs)  # a double click
    wait_for_status(first, runs, parts, RunStatus.FINISHED)
    assert first.wait_until_idle(30)
    assert columns(runs, parts) == columns(runs, whole)
    assert validations(runs, parts) == validations(runs, whole)
    assert same(weights_of(runs, whole), weights_of(runs, parts))
    assert same(weights_of(runs, whole, "best.pt"), weights_of(runs, parts, "best.pt"))
    assert same_bits(restored(newest_state(runs / whole)), restored(newest_state(runs / parts))) == ""
    seen = viewer.read()  # a viewer that was there all the time
    assert (seen.info.resumes, seen.damage) == (3, ())
    assert seen.steps.column("loss").tolist() == columns(runs, whole)["loss"]
    info, other = first.readers.read(runs, parts).info, first.readers.read(runs, whole).info
    assert (info.test_accuracy, info.best_accuracy) == (other.test_accuracy, other.best_accuracy)
    with pytest.raises(RunError, match="has reached its end"):
        first.resume(parts, NONE, runs)
    first.shutdown()


def test_a_run_saved_by_hand_keeps_that_state_and_others_are_thinned_out(trainer, runs):
    config = dataclasses.replace(LONG, checkpoint_seconds=1, checkpoints_kept=1)
    run_id = trainer.start(config, NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 3)
    trainer.save_now(run_id)
    (kept,) = wait_for(lambda: list((runs / run_id / "states").glob("*-kept.pt")))
    wait_for(lambda: max(RunFolder(runs / run_id).states()) > load_state(kept).step)
    trainer.stop(run_id)
    assert trainer.wait_until_idle(30)
    found, snapshot = RunFolder(runs / run_id).states(), trainer.readers.read(runs, run_id)
    best = [one.step for one in snapshot.validations if one.best][-1]
    assert set(found) == {load_state(kept).step, best, snapshot.step}
    assert kept in found.values()
    assert load_state(found[best]).content["best_step"] == best


def test_what_cannot_be_taken_up_is_refused_in_words(trainer, runs):
    run_id = trainer.start(LONG, NONE, runs)
    with pytest.raises(RunError, match="There is no run"):
        trainer.resume("nobody", NONE, runs)
    other = Trainer()
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 3)
    trainer.save_now(run_id)
    wait_for(lambda: RunFolder(runs / run_id).states())
    with pytest.raises(RunError, match="is being trained already"):
        other.resume(run_id, NONE, runs)
    trainer.stop(run_id)
    assert trainer.wait_until_idle(30)
    for path in RunFolder(runs / run_id).states().values():
        path.write_bytes(b"noise")
    before = columns(runs, run_id)
    other.resume(run_id, NONE, runs)
    assert other.wait_until_idle(30)
    ended = other.readers.read(runs, run_id)
    assert ended.info.status == RunStatus.FAILED
    assert "keeps no state to go on from" in ended.info.reason
    assert columns(runs, run_id) == before  # nothing was lost by trying
    for path in (runs / run_id / "states").iterdir():
        path.unlink()
    with pytest.raises(RunError, match="keeps no saved state"):
        other.resume(run_id, NONE, runs)
    other.shutdown()


def test_a_paused_run_is_saved_when_asked(trainer, runs):
    run_id = trainer.start(LONG, NONE, runs)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > 3)
    trainer.pause(run_id)
    step = wait_for_status(trainer, runs, run_id, RunStatus.PAUSED).step
    trainer.save_now(run_id)
    (kept,) = wait_for(lambda: list((runs / run_id / "states").glob("*-kept.pt")))
    assert load_state(kept).step == step
    assert trainer.readers.read(runs, run_id).info.status == RunStatus.PAUSED
    trainer.unpause(run_id)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > step)


def test_runs_that_a_shutdown_ended_say_so_and_go_on_afterwards(runs):
    before = Trainer()
    first, second = (before.start(dataclasses.replace(LONG, seed=seed), NONE, runs) for seed in (1, 2))
    wait_for(lambda: before.readers.read(runs, first).step > 3)
    before.shutdown()
    assert before.wait_until_idle(20)
    after = Trainer()
    for run_id in (first, second):
        info = after.readers.read(runs, run_id).info
        assert (info.status, info.failure) == (RunStatus.STOPPED, Failure.SHUT_DOWN)
        assert "shut down" in info.reason
        assert can_go_on(runs / run_id, info)
        after.resume(run_id, NONE, runs)
    step = before.readers.read(runs, first).step
    wait_for(lambda: after.readers.read(runs, first).step > step)
    after.stop(first)
    wait_for(lambda: after.readers.read(runs, second).step > 3)  # it had waited only, so it begins
    after.shutdown()
    assert after.wait_until_idle(20)


def test_a_run_that_goes_on_keeps_nothing_of_the_steps_after_it(trainer, runs):
    config = dataclasses.replace(LONG, validations_per_epoch=5)
    run_id = trainer.start(config, NONE, runs)
    folder = runs / run_id
    wait_for(lambda: len(trainer.readers.read(runs, run_id).validations) > 1)
    trainer.save_now(run_id)
    (kept,) = wait_for(lambda: list((folder / "states").glob("*-kept.pt")))
    state = load_state(kept)
    wait_for(lambda: trainer.readers.read(runs, run_id).step > state.step + 200)
    trainer.stop(run_id)
    assert trainer.wait_until_idle(30)
    later = trainer.readers.read(runs, run_id).info
    for path in RunFolder(folder).states().values():
        if path != kept:
            path.write_bytes(b"noise")  # the newest state is damaged, as after a crash of the disk
    writer = RunWriter.reopen(folder)
    with recorder.RecordedRun(config, NONE, writer, beside_pages=False, goes_on=True) as run:
        events = run.events()
        next(events)
        info = read_info(folder)
        assert (info.step, info.best_accuracy) == (state.step, state.content["best_score"][0])
        assert info.train_seconds == state.content["seconds"] < later.train_seconds
        assert load_weights(folder / "best.pt")["step"] == state.content["best_step"]
        assert not (folder / "last.pt").exists()
        assert max(RunFolder(folder).snapshots()) <= state.step
        assert list(RunFolder(folder).states().values())[-1] == kept
        events.close()
    writer.close()
