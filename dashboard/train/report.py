"""A run as one HTML file that opens without a network: verdicts, curves, mistakes, settings. No Streamlit here."""

import time
from html import escape

import plotly.graph_objects as go

from core.config.train_config import TrainConfig, settings
from core.events import Evaluation
from core.runs.reader import RunView
from core.runs.speed import speed_finding, time_spent
from core.runs.verdict import so_far, verdict
from dashboard import theme, wording
from dashboard.charts.evaluation_charts import confusion_figure, per_digit_figure
from dashboard.charts.run_charts import View, run_charts
from dashboard.charts.run_figures import PLOT_CONFIG, figure
from dashboard.charts.speed_charts import time_figure
from dashboard.shell import pictures
from dashboard.train.band import cells

# Nothing but this file is ever asked for: no script, picture or style from elsewhere, and no form that could send something.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
_STYLE = """
body { font-family: system-ui, sans-serif; color: #222; line-height: 1.5; max-width: 1100px; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
.band { display: flex; flex-wrap: wrap; gap: 0.5rem; }
.band div { border: 1px solid #ccc; border-radius: 0.5rem; padding: 0.3rem 0.8rem; }
.band small { display: block; color: #555; } .band b { font-size: 1.2rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 0.15rem 1rem 0.15rem 0; vertical-align: top; }
tr.changed td { font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); gap: 1rem; }
.plots > div { min-width: 0; }
@media print { .plots { display: block; } }
"""


def report_html(snapshot: RunView, view: View, parent: RunView | None = None) -> str:
    """The whole file. Every word of the run is shown as text, whoever wrote it."""
    info = snapshot.info
    name = f"{wording.MODEL_WORDS[snapshot.config.model]} on {wording.DATASET_WORDS[snapshot.config.dataset]}"
    started = time.strftime("%d %B %Y, %H:%M", time.localtime(info.created_at)) if 0 < info.created_at < 4e9 else ""
    parts = [
        f"<h1>{escape(name)}</h1>",
        _paragraph(f"Digit Lab run {info.run_id}, {wording.STATUS_WORDS[info.status][0].lower()}. {started}"),
        *_verdicts(snapshot),
        _band(snapshot, view),
        "<h2>Curves</h2>",
        _plots([figure(chart) for chart in run_charts(snapshot, view, parent=parent)[0]]),
        *_wrong(snapshot),
        *_time(snapshot),
        "<h2>Settings</h2>",
        _settings(snapshot),
        "<h2>Machine</h2>",
        *_machine(snapshot),
    ]
    title = escape(f"{name}: Digit Lab run {info.run_id}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _paragraph(words: str) -> str:
    return f"<p>{escape(words.strip())}</p>"


def _verdicts(snapshot: RunView) -> list[str]:
    found = verdict(snapshot) or so_far(snapshot)
    told = [f"{found.evidence} {found.advice}"] if found else []
    return [_paragraph(words) for words in (*told, *snapshot.damage)]


def _band(snapshot: RunView, view: View) -> str:
    boxes = (
        f"<div><small>{escape(cell.label)}</small><b>{escape(cell.value)}</b> {escape(cell.detail)}</div>"
        for cell in cells(snapshot, view.window)
    )
    return f'<div class="band">{"".join(boxes)}</div>'


def _plots(figures: list[go.Figure], *, first: bool = True) -> str:
    """Each as its own plot; plotly.js comes with the first."""
    drawn = (
        one.to_html(full_html=False, include_plotlyjs=first and number == 0, config={**PLOT_CONFIG, "responsive": True})
        for number, one in enumerate(figures)
    )
    return f'<div class="plots">{"".join(drawn)}</div>'


def _wrong(snapshot: RunView) -> list[str]:
    evaluation, words, color = _scored(snapshot)
    if evaluation is None:
        return []
    drawn = [
        go.Figure(confusion_figure(evaluation.confusion)).update_layout(
            title="Confusion matrix: rows are the digits, columns the answers"
        ),
        go.Figure(per_digit_figure(evaluation.confusion, evaluation.unanswered_by_label, color)).update_layout(
            title="Accuracy of each digit"
        ),
    ]
    for one in drawn:
        one.update_layout(margin={"t": 50})
    images = (pictures.mistake(mistake) for mistake in evaluation.mistakes)
    return [
        "<h2>What it gets wrong</h2>",
        _paragraph(f"Scored on {words}. Below: the most confidently wrong, as it is → what the model said (how sure it was)."),
        _plots(drawn, first=False),
        *images,
    ]


def _scored(snapshot: RunView) -> tuple[Evaluation | None, str, str]:
    if snapshot.tested:
        return snapshot.tested.evaluation, "the test digits", theme.TEST
    if snapshot.validations:
        last = snapshot.validations[-1]
        return last.evaluation, f"the validation digits, after step {last.step:,}", theme.VALIDATION
    return None, "", ""


def _time(snapshot: RunView) -> list[str]:
    spent, found = time_spent(snapshot), speed_finding(snapshot)
    if spent is None or found is None:
        return []
    drawn = go.Figure(time_figure(spent))
    return ["<h2>Where the time went</h2>", _paragraph(f"{found.evidence} {found.advice}"), _plots([drawn], first=False)]


def _settings(snapshot: RunView) -> str:
    usual, config = TrainConfig(), snapshot.config
    names = sorted(settings(), key=lambda name: getattr(config, name) == getattr(usual, name))
    rows = []
    for name in names:
        changed = getattr(config, name) != getattr(usual, name)
        default = wording.setting_words(name, usual) if changed else ""
        values = (settings()[name].label, wording.setting_words(name, config), default)
        cells_ = "".join(f"<td>{escape(str(value))}</td>" for value in values)
        rows.append(f"<tr{' class=changed' if changed else ''}>{cells_}</tr>")
    return f"<table><tr><th>Setting</th><th>This run</th><th>Default</th></tr>{''.join(rows)}</table>"


def _machine(snapshot: RunView) -> list[str]:
    started = snapshot.started
    if started is None:
        return [_paragraph("It had not begun.")]
    words = (
        f"{started.device_name} ({started.device}), {started.precision}, {started.threads} CPU threads, "
        f"{started.parameters:,} parameters."
    )
    return [_paragraph(one) for one in (words, *started.notes)]
