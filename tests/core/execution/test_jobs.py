import threading
from time import sleep

import pytest

from core.errors import RunError
from core.execution.jobs import MAX_FROM_ONE_ADDRESS, MAX_HEAVY_JOBS, MAX_WAITING_JOBS, Asker, Jobs
from core.status import Progress, RunStatus
from tests.helpers.waits import wait_for


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.shutdown()


def test_jobs_report_progress_results_and_failures(jobs):
    go = threading.Event()

    def steps():
        yield Progress(1, 2, "half")
        go.wait(20)
        yield "a result"

    jobs.start("job", steps)
    wait_for(lambda: jobs.get("job").progress.message == "half")
    assert jobs.get("job").status == RunStatus.RUNNING
    jobs.start("job", steps)  # joins the one that runs
    go.set()
    wait_for(lambda: jobs.get("job").status == RunStatus.FINISHED)
    assert jobs.get("job").results == ("a result",)

    def failing():
        yield Progress(0, 0, "")
        raise RunError("no room")

    jobs.start("job", failing)
    wait_for(lambda: jobs.get("job").status == RunStatus.FAILED)
    assert jobs.get("job").reason == "no room"
    jobs.forget("job")
    assert jobs.get("job") is None


def test_a_job_can_be_cancelled(jobs):
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield Progress(0, 0, "still")
        finally:
            closed.set()

    jobs.start("endless", endless)
    wait_for(lambda: jobs.get("endless").progress.message == "still")
    jobs.cancel("endless")
    wait_for(lambda: jobs.get("endless").status == RunStatus.STOPPED)
    assert closed.wait(20)


def test_ended_jobs_are_forgotten_in_the_end_and_running_ones_are_not(jobs):
    goes_on = threading.Event()

    def waits():
        yield Progress(0, 1, "waits")
        goes_on.wait(30)

    jobs.start("long", waits)
    jobs.start("kept", lambda: iter(()), lasting=True)
    wait_for(lambda: not jobs.get("kept").status.is_active)
    for number in range(60):
        jobs.start(f"short-{number}", lambda: iter(()))
        wait_for(lambda number=number: not jobs.get(f"short-{number}").status.is_active)
    assert jobs.get("short-0") is None
    assert jobs.get("short-59").status == RunStatus.FINISHED
    assert jobs.get("kept").status == RunStatus.FINISHED
    assert jobs.get("long").status.is_active
    goes_on.set()


def test_heavy_jobs_take_turns_and_one_that_waits_can_be_cancelled(jobs):
    goes_on, began = threading.Event(), []

    def computes(number):
        began.append(number)
        yield Progress(0, 1, "computes")
        goes_on.wait(30)
        yield number

    for number in range(4):
        jobs.start(f"heavy-{number}", lambda number=number: computes(number), heavy=True)
        wait_for(lambda number=number: jobs.get(f"heavy-{number}").progress.message != "Starting")
    assert sorted(began) == [0, 1]
    assert "Waits until" in jobs.get("heavy-3").progress.message
    jobs.cancel("heavy-2")
    wait_for(lambda: jobs.get("heavy-2").status == RunStatus.STOPPED)
    for number in range(4, 3 + MAX_WAITING_JOBS + 1):
        jobs.start(f"heavy-{number}", lambda number=number: computes(number), heavy=True)
    jobs.start("too many", lambda: computes(99), heavy=True)
    assert jobs.get("too many").status == RunStatus.FAILED
    assert "22 experiments work and wait" in jobs.get("too many").reason
    for number in range(4, 3 + MAX_WAITING_JOBS + 1):
        jobs.cancel(f"heavy-{number}")
    goes_on.set()
    wait_for(lambda: jobs.get("heavy-3").status == RunStatus.FINISHED)
    wait_for(lambda: not any(jobs.get(f"heavy-{number}").status.is_active for number in range(24)))
    assert 99 not in began
    jobs.start("again", lambda: computes(100), heavy=True)
    wait_for(lambda: jobs.get("again").results == (100,))


def endless(started=None):
    def steps():
        if started is not None:
            started.set()
        while True:
            yield Progress(0, 0, "")
            sleep(0.01)

    return steps


def test_a_job_ends_once_nobody_looks_at_its_answer(jobs):
    here, started = [True], threading.Event()
    jobs.start("twins", endless(started), heavy=True, asker=Asker("1.2.3.4", False, lambda: here[0]))
    started.wait(20)
    here[0] = False
    wait_for(lambda: jobs.get("twins").status == RunStatus.STOPPED)
    done = threading.Event()

    def after():
        yield Progress(0, 0, "")
        done.set()

    jobs.start("after", after, heavy=True)
    assert done.wait(20)


def test_one_address_cannot_take_all_places_and_some_are_kept_for_who_controls(jobs):
    for number in range(MAX_FROM_ONE_ADDRESS):
        jobs.start(f"own {number}", endless(), heavy=True, asker=Asker("1.2.3.4", False))
    jobs.start("one more", endless(), heavy=True, asker=Asker("1.2.3.4", False))
    assert "from your address" in jobs.get("one more").reason
    for number in range(MAX_WAITING_JOBS + MAX_HEAVY_JOBS):
        jobs.start(f"class {number}", endless(), heavy=True, asker=Asker(f"10.0.0.{number}", False))
    refused = [jobs.get(f"class {number}").status == RunStatus.FAILED for number in range(MAX_WAITING_JOBS + MAX_HEAVY_JOBS)]
    assert any(refused)
    jobs.start("teacher", endless(), heavy=True)
    assert jobs.get("teacher").status == RunStatus.RUNNING


def test_a_cancelled_job_that_says_nothing_is_let_go(jobs):
    """It holds its place no longer, and its name can be used again; what it gives later is nobody's."""
    go, blocked = threading.Event(), threading.Event()

    def silent():
        yield Progress(0, 0, "begun")
        blocked.set()
        go.wait(30)
        yield "too late"

    jobs.start("download", silent)
    blocked.wait(20)
    jobs.cancel("download")
    wait_for(lambda: jobs.get("download").status == RunStatus.STOPPED)

    def quick():
        yield "new"

    jobs.start("download", quick)
    wait_for(lambda: jobs.get("download").results == ("new",))
    go.set()
    sleep(0.1)
    assert jobs.get("download").results == ("new",)
    assert jobs.get("download").status == RunStatus.FINISHED
