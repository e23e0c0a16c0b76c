"""How long a run still takes: training, validations and the scoring of the test digits, by what they took so far."""

from core.config.train_config import TrainConfig
from core.runs.reader import RunView

_WINDOW = 30.0  # seconds of training that the speed is taken from
# Before the first validation: a forward takes about a third of a forward with its backward.
_FORWARD_SHARE = 1 / 3

VALIDATING, TESTING, SAVING = "validating", "scoring the test", "saving"


def steps_per_second(snapshot: RunView, window: float = _WINDOW) -> float | None:
    """Updates per second of training time over the last `window` seconds; None before there is a figure."""
    seconds = snapshot.steps.column("seconds")
    if len(seconds) < 2:
        return None
    first = min(int(seconds.searchsorted(seconds[-1] - window)), len(seconds) - 2)
    elapsed = float(seconds[-1] - seconds[first])
    return (len(seconds) - 1 - first) / elapsed if elapsed > 0 else None


def seconds_left(snapshot: RunView) -> float | None:
    """Seconds until a run is done as its settings say, early stopping and pauses aside; None before there is a figure."""
    config, rate = snapshot.config, steps_per_second(snapshot)
    if rate is None:
        return None
    _, validation, test = config.split_sizes()
    scored = [one.evaluation.seconds for one in snapshot.validations[-5:]]
    if scored:
        each = sum(scored) / len(scored)
    else:
        images = snapshot.images_per_second(_WINDOW) or 0.0
        each = validation * _FORWARD_SHARE / images if images else 0.0
    last = snapshot.validations[-1].step if snapshot.validations else snapshot.info.first_step
    steps, waiting = snapshot.total_steps - snapshot.step, config.validations(last, snapshot.total_steps)
    if snapshot.stopped_early:
        steps, waiting = 0, 0
    training, scoring = steps / rate, each * waiting
    testing = 0.0 if snapshot.tested else each * test / validation
    # What is being scored reports nothing before its end: its time is what the run has been silent for.
    if doing := phase(snapshot):
        now = each if doing == VALIDATING else testing
        return training + scoring + testing - min(now, snapshot.quiet)
    return training + scoring + testing


def seconds_for(config: TrainConfig, images_per_second: float) -> float:
    """Seconds that a run takes which has not begun, its validations and the test included, at a training speed."""
    train, validation, test = config.split_sizes()
    scored = config.validations(0, config.total_steps()) * validation + test
    return (config.epochs * train + _FORWARD_SHARE * scored) / images_per_second


def phase(snapshot: RunView) -> str:
    """What a run that trains does besides training, in words; "" while it trains."""
    if snapshot.tested:
        return SAVING
    last = snapshot.validations[-1].step if snapshot.validations else snapshot.info.first_step
    if snapshot.step and snapshot.step != last and snapshot.config.validates_after(snapshot.step):
        return VALIDATING
    if snapshot.step >= snapshot.total_steps or snapshot.stopped_early:
        return TESTING
    return ""


def duration_words(seconds: float) -> str:
    """A duration that a person reads at a glance: 42 s, 3 min 20 s, 2 h 05 min."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
