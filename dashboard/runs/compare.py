"""The chosen runs beside each other, and all listed ones as points."""

from contextlib import suppress
from html import escape

import numpy as np
import pandas as pd
import streamlit as st

from core.config.train_config import settings
from core.errors import RunError
from core.execution.process import get_jobs, get_readers
from core.runs.folder import RunFolder, runs_root
from core.runs.groups import groups_of
from core.runs.index import RESULTS, RunRow, differing
from core.runs.noise import difference, difference_words
from core.runs.speed import speed_change
from dashboard import wording
from dashboard.charts import evaluation_charts, run_charts
from dashboard.charts.live_chart import plot
from dashboard.runs import charts as runs_charts
from dashboard.runs import session as runs_session
from dashboard.runs.charts import MAX_OVERLAID
from dashboard.shell import pictures
from dashboard.shell.torch_row import torch_is_here


def compare(chosen: list[RunRow]) -> None:
    """Curves, settings and, for two runs, their answers."""
    views = ["Curves", "Settings", "Answers of two models"]
    view = st.segmented_control(
        "Compare",
        views,
        default=views[0],
        key="runs_view",
        required=True,
        persist_state="session",
        label_visibility="collapsed",
    )
    if view == views[0]:
        _curves(chosen)
    elif view == views[1]:
        _settings(chosen)
    else:
        _answers(chosen)


def _curves(chosen: list[RunRow]) -> None:
    shown, titles, snapshots = chosen[:MAX_OVERLAID], [], []
    for row in shown:
        try:
            snapshots.append(get_readers().read(runs_root(), row.run_id))
            titles.append(row.title)
        except RunError as error:
            st.caption(f":material/error: {wording.plain(str(error))}")
    if not snapshots:
        return
    if len(chosen) > MAX_OVERLAID:
        st.caption(f"The first {MAX_OVERLAID} of {len(chosen)} chosen runs are drawn.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        axis = st.segmented_control(
            "X axis", run_charts.AXES, default="step", key="runs_axis", required=True, persist_state="session"
        )
        window = st.select_slider(
            "Smoothing (steps)", (1, 5, 10, 25, 50, 100, 250, 500), 25, key="runs_window", width=220, persist_state="session"
        )
        log = st.toggle("Logarithmic loss", key="runs_log", persist_state="session")
    st.html("".join(_legend(place, title) for place, title in enumerate(titles)))
    figures = runs_charts.overlay_figures(snapshots, titles, axis, window, log)
    for left, right in (figures[:2], figures[2:]):
        for column, (title, figure) in zip(st.columns(2), (left, right), strict=True):
            with column:
                st.markdown(f"**{title}**")
                plot(figure, key=f"runs_{title[:12]}", alt=f"{title} of {len(snapshots)} runs")
    if len(snapshots) == 2 and (change := speed_change(*snapshots)):
        st.caption(f":material/speed: {wording.plain(titles[1])} against {wording.plain(titles[0])}: {change}")
    _real_or_noise(shown)
    _results(shown)


def _real_or_noise(rows: list[RunRow]) -> None:
    """When the chosen runs are of two settings: whether those differ."""
    groups = [group for group in groups_of(rows) if group.scores]
    if len(groups) != 2 or len({(group.config.dataset, group.test_size) for group in groups}) > 1:
        return
    first, second = groups
    found = difference(first.scores, second.scores, first.test_size)
    names = [f"{wording.plain(group.runs[0].title)}{' and its seeds' if len(group.runs) > 1 else ''}" for group in groups]
    words = wording.plain(difference_words(found, first.test_size))
    st.caption(f":material/balance: Test accuracy of {names[1]} less that of {names[0]}. {words}")


def _legend(place: int, title: str) -> str:
    color, dash = runs_charts.style(place)
    border = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "dashed"}[dash]
    return (
        f'<span style="display:inline-flex;align-items:center;margin-right:18px;font-size:0.875rem">'
        f'<span aria-hidden="true" style="width:26px;border-top:3px {border} {color};margin-right:6px"></span>'
        f"{escape(title)}</span>"
    )


def _results(rows: list[RunRow]) -> None:
    """What came out, a row a run."""
    frame = pd.DataFrame(
        {words: [runs_charts.result_words(row, name) or "–" for row in rows] for name, words in RESULTS.items()},
        index=pd.Index([wording.plain(row.title) for row in rows], name="Run"),  # st.table reads Markdown
    )
    st.table(frame)


def _settings(chosen: list[RunRow]) -> None:
    """Only what differs; the rest is named."""
    if len(chosen) < 2:
        row = chosen[0]
        st.caption("Settings that differ from the defaults. Choose a second run to see what differs between the two.")
        st.markdown(wording.plain(row.changed) or "All settings are the defaults.")
        return
    table = differing(chosen)
    if not table:
        _same_settings(chosen)
        return
    frame = pd.DataFrame(
        {
            row.title if [one.title for one in chosen].count(row.title) == 1 else row.run_id: [
                values[place] for values in table.values()
            ]
            for place, row in enumerate(chosen)
        },
        index=pd.Index([settings()[name].label for name in table], name="Setting"),
    )
    st.dataframe(frame, alt="Settings in which the chosen runs differ")
    st.caption(f"The other {len(settings()) - len(table)} settings are the same in all {len(chosen)}.")


def _same_settings(chosen: list[RunRow]) -> None:
    """What follows from equal settings, and what does not."""
    if any(row.info.parent or row.info.imported for row in chosen):
        st.info(
            "These runs have the same settings, but not all of them began here with weights of their own, so their results "
            "may differ."
        )
        return
    machines = set()
    for row in chosen:
        with suppress(RunError):
            started = get_readers().read(runs_root(), row.run_id).started
            machines.add(f"{started.device}, {started.precision}, {started.threads} threads" if started else "not begun")
    if len(machines) > 1:
        st.info(
            f"These runs have the same settings, but not the same machine: {wording.plain('; '.join(sorted(machines)))}. The "
            "order of additions differs then, and with it the last digits, which training makes larger."
        )
    elif machines and next(iter(machines)).startswith("cpu"):
        st.success(
            "These runs have the same settings, device, precision and number of threads. Their results are the same "
            "too, bit for bit, as long as the installed versions are."
        )
    else:
        st.info(
            "These runs have the same settings. On a GPU their last digits may differ all the same, unless Deterministic is on."
        )


def _answers(chosen: list[RunRow]) -> None:
    """Two models on the same test digits."""
    if len(chosen) != 2:
        st.info(f"Choose two runs; {len(chosen)} {'is' if len(chosen) == 1 else 'are'} chosen.")
        return
    ids = [row.run_id for row in chosen]
    lacking = [row.title for row in chosen if not RunFolder.of(row.run_id).best.exists()]
    if lacking:
        st.info(f"{wording.plain(' and '.join(lacking))} kept no weights: runs keep them from their first validation on.")
        return
    if not torch_is_here():
        return
    name = runs_session.dispute_job(*ids)
    job = get_jobs().get(name)
    dataset = max((row.config.dataset for row in chosen if row.config), key=lambda one: one == "mnist", default="mnist_sample")
    if job is None or (not job.status.is_active and not job.results):
        if job is not None and job.reason:
            st.error(wording.plain(job.reason))
        st.button(
            "Ask both about the test digits",
            type="primary",
            icon=":material/compare_arrows:",
            key="runs_ask_both",
            on_click=runs_session.start_dispute,
            args=(*ids, dataset),
        )
        st.caption(f"The best weights of each, in eval mode, on the test digits of {wording.DATASET_WORDS[dataset]}.")
    elif job.status.is_active:
        st.progress(job.progress.share, text=f"{job.progress.message} …")
        st.button("Stop", on_click=get_jobs().cancel, args=(name,), key="runs_stop_asking")
    else:
        _disagreement(job.results[-1], [row.title for row in chosen])


def _disagreement(found: object, titles: list[str]) -> None:
    from core.insight.disagreement import Disagreement

    assert isinstance(found, Disagreement)
    total = sum(found.counts.values())
    first, second = (wording.plain(title) for title in titles)
    st.caption(
        f"The best weights of each: those of step {found.steps[0]:,} of {first}, and of step {found.steps[1]:,} of {second}."
    )
    both, alike, differently = (found.counts[name] for name in ("both right", "both wrong, alike", "both wrong, differently"))
    only_first, only_second = found.counts["only first"], found.counts["only second"]
    chance = f"{found.p_value:.2g}" if found.p_value >= 0.001 else "less than 0.001"
    st.markdown(
        f"Of {total:,} test digits **{both:,}** are right in both, **{only_first:,}** only in {first}, "
        f"**{only_second:,}** only in {second}, **{alike:,}** wrong in the same way and **{differently:,}** wrong in "
        "different ways."
    )
    st.markdown(
        f"If both were equally good, a difference of {abs(only_first - only_second):,} or more would come about by "
        f"chance with a probability of **{chance}**: "
        + (
            "this comparison does not tell them apart."
            if found.p_value > 0.05
            else "the better one is better on digits like these."
        ),
        help="McNemar's exact test on the digits that only one of the two gets right.",
    )
    for place, (column, title, counts) in enumerate(zip(st.columns(2), titles, found.confusions, strict=True)):
        with column:
            st.markdown(f"**Confusion matrix of {wording.plain(title)}**: rows are the digits, columns the answers")
            plot(
                evaluation_charts.confusion_figure(tuple(map(tuple, counts.tolist()))),
                key=f"runs_confusion_{place}",
                alt=f"Confusion matrix of {title}",
            )
    if found.disputes:
        st.markdown(f"**They disagree on {found.disputed:,} digits**; those about which both are surest:")
        st.html(
            "".join(
                pictures.figure(
                    np.frombuffer(dispute.image, np.uint8).reshape(28, 28),
                    f"it is {dispute.label}: {dispute.answers[0]} ({dispute.confidences[0]:.0%}) or {dispute.answers[1]} "
                    f"({dispute.confidences[1]:.0%})",
                    f"A {dispute.label}: {dispute.answers[0]} or {dispute.answers[1]}",
                )
                for dispute in found.disputes
            )
        )
        st.caption(f"it is: the answer of {first} (how sure), or that of {second} (how sure)")


def all_runs(rows: list[RunRow], chosen: list[str]) -> None:
    """Every listed run as a point or a line."""
    if sum(row.result("best_accuracy") is not None for row in rows) < 2:
        st.caption("With two or more trained runs you will see here how settings and results go together.")
        return
    st.subheader("Settings against results, over all runs in the table", anchor=False)
    kind = st.segmented_control(
        "Chart",
        ["Scatter", "Parallel coordinates"],
        default="Scatter",
        key="runs_chart",
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    varied, best = runs_charts.varied_settings(rows), runs_charts.known_result(rows)
    if kind == "Scatter":
        with st.container(horizontal=True):
            choices = [*varied, *(name for name in RESULTS)]
            default = choices.index(runs_charts.default_axis(rows)) if runs_charts.default_axis(rows) in choices else 0
            x = st.selectbox(
                "Across", choices, default, format_func=runs_charts.label, key=f"runs_x_{choices[default]}", width=220
            )
            y = st.selectbox(
                "Upwards",
                list(RESULTS),
                list(RESULTS).index(best),
                format_func=runs_charts.label,
                key=f"runs_y_{best}",
                width=220,
            )
            color = st.selectbox(
                "Colour",
                [None, *choices],
                0,
                key="runs_color",
                width=220,
                format_func=lambda name: runs_charts.label(name) if name else "none",
            )
        key = "runs_scatter"
        plot(
            runs_charts.scatter_figure(rows, x, y, color, chosen),
            key=key,
            on_click=lambda: runs_session.select_clicked(key),
            alt=f"{runs_charts.label(y)} against {runs_charts.label(x)}, one point a run",
        )
        st.caption("Click a point to choose its run.")
        return
    figure = runs_charts.parallel_figure(rows, best)
    if figure is None:
        st.caption("The runs in the table do not differ in any setting.")
        return
    plot(figure, key="runs_parallel", alt="Parallel coordinates: settings of each run, and its result")
    st.caption("One line a run, coloured by its result. Drag along an axis to keep only a part of it; drag an axis to move it.")
