import sys
import threading
import time

import pytest

from core.machine.contention import CpuWatch


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts how long threads stand in line")
def test_a_busy_page_is_told_from_the_training():
    ends = threading.Event()

    def page():
        while not ends.is_set():
            sum(range(1000))

    watch = CpuWatch()
    alone = watch.look()
    threading.Thread(target=page, daemon=True).start()
    try:
        began = time.perf_counter()
        while time.perf_counter() - began < 1:
            sum(range(1000))
        beside = watch.look()
    finally:
        ends.set()
    assert alone.pages <= alone.period
    assert beside.period >= 1
    # Python runs one of the two at a time: half the time each, and each waits for the other while it does.
    assert 0.1 * beside.period < beside.pages < 0.9 * beside.period
    assert beside.wanted >= beside.delay >= 0
    assert beside.wanted + beside.blocked >= 0.9 * beside.period


def test_a_pause_is_left_out(monkeypatch):
    clock = iter([0.0, 5.0, 5.1, 5.1])  # made, and 5 s later begun anew
    monkeypatch.setattr("core.machine.contention.perf_counter", lambda: next(clock))
    watch = CpuWatch()
    watch.restart()
    assert watch.since() < 0.15
    assert watch.look().period < 0.15


def test_where_the_system_does_not_tell_it_is_unknown_not_zero(monkeypatch, tmp_path):
    monkeypatch.setattr("core.machine.contention._TASKS", tmp_path / "nothing")
    use = CpuWatch().look()
    assert [name for name in ("wanted", "delay", "blocked", "pages") if getattr(use, name) == getattr(use, name)] == []
    assert use.elsewhere >= 0
