"""What each line of the training loop caused in a run: share of the time, last values, charts it feeds. No Streamlit."""

import functools
from dataclasses import dataclass

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from core.config.train_config import TrainConfig
from core.events import RunStarted
from core.runs.reader import RunView
from core.runs.speed import time_spent
from core.transfer.script.run_script import Line, script_sections
from core.transfer.script.scripted import Does
from dashboard import wording


@dataclass(frozen=True)
class Fact:
    """What one kind of line caused.

    Attributes:
        share: of the time, in [0, 1]; None where it is not measured by itself. words: what it is, with its last values.
        charts: ids of the charts that show it.
    """

    share: float | None
    words: str
    charts: tuple[str, ...] = ()


@functools.lru_cache(maxsize=32)
def highlighted(run_id: str, config: TrainConfig, started: RunStarted, section: str) -> tuple[tuple[Line, str], ...]:
    """The lines of a part of a run's script, each with its HTML."""
    lines = script_sections(run_id, config, started)[section]
    # All at once: a string over several lines is known as one only as a whole.
    html = highlight("\n".join(line.text for line in lines), PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return tuple(zip(lines, html.split("\n"), strict=False))


def loop_lines(run_id: str, config: TrainConfig, started: RunStarted) -> tuple[tuple[Line, str], ...]:
    """The training loop alone, from `for epoch` to the test digits."""
    lines = highlighted(run_id, config, started, "training")
    first = next(place for place, (line, _) in enumerate(lines) if line.text.startswith("for epoch"))
    last = max(place for place, (line, _) in enumerate(lines) if line.does == Does.TEST)
    return lines[first : last + 1]


def facts(view: RunView) -> dict[Does, Fact]:
    """What the lines caused so far."""
    values, spent = _last_values(view) if len(view.steps) else {}, time_spent(view)
    return {
        does: Fact(
            spent.share(does) if spent and does in spent.parts else None,  # what is measured has the name of its line
            f"{kind} {values[does]}." if does in values else kind,
            _CHARTS.get(does, ()),
        )
        for does, kind in _KINDS.items()
    }


def _last_values(view: RunView) -> dict[Does, str]:
    config, steps = view.config, view.steps
    last = {name: float(steps.column(name)[-1]) for name in ("loss", "gradient_norm", "learning_rate", "accuracy", "images")}
    rate, norm, clip = wording.number(last["learning_rate"]), wording.number(last["gradient_norm"]), config.gradient_clip
    clipped = f", cut to {clip:g}" if clip is not None and last["gradient_norm"] > clip else ""
    scored = "none yet"
    if view.validations:
        at, found = view.validations[-1].step, view.validations[-1].evaluation
        scored = f"after step {at:,}: loss {wording.number(found.loss)}, {wording.percent(found.accuracy)}"
    return {
        Does.DATA: f"{last['images']:,.0f} digits in the last step",
        Does.SCHEDULE: f"learning rate {rate}",
        Does.FORWARD: f"loss {wording.number(last['loss'])}, {last['accuracy']:.0%} of the batch right",
        Does.BACKWARD: f"gradient norm {norm}",
        Does.CLIP: f"gradient norm {norm}{clipped}",
        Does.OPTIMIZER: f"update {view.step:,}, learning rate {rate}",
        Does.LOSS: f"{len(steps):,} losses so far",
        Does.VALIDATION: scored,
        Does.TEST: wording.percent(view.tested.evaluation.accuracy) if view.tested else "after the last step",
    }


_KINDS = {
    Does.DATA: "The next batch of the pipeline:",
    Does.DROPOUT: "Each step has dropout masks of its own.",
    Does.SCHEDULE: "The schedule sets the rate before the step it belongs to:",
    Does.ZERO_GRAD: "backward() adds to .grad: what the last step left there goes first.",
    Does.FORWARD: "Forward: images to logits, logits and labels to one loss; the graph is built on the way:",
    Does.BACKWARD: "Backward: the graph in reverse, a gradient for each weight:",
    Does.CLIP: "All gradients together are shortened to the limit:",
    Does.OPTIMIZER: "The optimizer moves each weight against its gradient:",
    Does.LOSS: "Recorded for the curve:",
    Does.VALIDATION: "Scores the validation digits and keeps the best weights:",
    Does.TEST: "The test digits, once:",
}
_CHARTS = {
    Does.SCHEDULE: ("learning_rate",),
    Does.FORWARD: ("loss", "accuracy"),
    Does.BACKWARD: ("gradient_norm",),
    Does.CLIP: ("gradient_norm",),
    Does.OPTIMIZER: ("learning_rate",),
    Does.LOSS: ("loss",),
    Does.VALIDATION: ("loss", "accuracy"),
    Does.TEST: ("accuracy",),
}
