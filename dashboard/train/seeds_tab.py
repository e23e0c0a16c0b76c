"""The same settings with other seeds: what they give on average, and whether they differ from other settings."""

from contextlib import suppress
from statistics import fmean

import streamlit as st

from core.errors import RunError
from core.execution.process import get_readers
from core.runs.folder import runs_root
from core.runs.groups import Group, free_seeds, group_with, groups_of
from core.runs.index import index_of
from core.runs.noise import difference, difference_words
from core.runs.reader import RunView
from dashboard import wording
from dashboard.charts.group_charts import NamedGroup, curves_figure, scores_figure, spread_words
from dashboard.charts.live_chart import plot
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session

_MORE = (1, 2, 4, 9)
_MOST_DRAWN = 20


def seeds_tab(view: RunView) -> None:
    """The group of the run that is shown, and another one beside it."""
    if view.info.parent or view.info.imported:
        st.caption(
            "Forks, lessons and files from elsewhere began with weights that no seed says; there is nothing to repeat. "
            "Use its settings in the form, and train them anew."
        )
        return
    rows = index_of(runs_root().absolute()).rows()
    own = group_with(rows, view.config)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        other = _other(own, [group for group in groups_of(rows) if group.runs != own.runs and group.scores])
        count = st.selectbox(
            "More seeds", _MORE, key="more_seeds", width=110, persist_state="session", help="Each is a run of its own."
        )
        seeds = free_seeds(own, count)
        st.button(
            f"Train {count} more seed{'s' if count > 1 else ''}",
            icon=":material/repeat:",
            key="train_seeds",
            on_click=train_session.start_seeds,
            args=(view.config, seeds),
            disabled=not may_control(),
        )
    named = [_named("these settings", own)]
    st.markdown(wording.plain(spread_words(own)))
    if other is not None:
        named.append(_named("the others", other))
        _verdict(own, other)
    plot(scores_figure(named), key="seed_scores", alt="Test accuracies of the runs of each group, with an interval")
    plot(curves_figure(named), key="seed_curves", alt="Validation accuracy: mean, spread and every run of each group")
    st.caption(
        "Bold: the mean of the seeds, its band one standard deviation; thin: each run. Marks with whiskers: where the mean "
        "over all seeds lies, with a probability of 98 %; of a single run, where its accuracy lies by its test digits (95 %)."
    )


def _other(own: Group, others: list[Group]) -> Group | None:
    """The choice of another group to compare with; one of the same digits."""
    same = [group for group in others if (group.config.dataset, group.test_size) == (own.config.dataset, own.test_size)]
    labels = {group.runs[0].run_id: _label(group) for group in same[:50]}
    chosen = st.selectbox(
        "Compare with",
        list(labels),
        None,
        key="seeds_other",
        format_func=lambda run_id: str(labels.get(run_id, run_id)),
        placeholder="other settings of these digits" if labels else "no other settings were trained on these digits",
        persist_state="session",
        disabled=not labels,
    )
    return next((group for group in same if group.runs[0].run_id == chosen), None)


def _label(group: Group) -> str:
    row, count = group.runs[0], len(group.scores)
    changed = wording.changed_words(group.config, row.info)
    seeds = f"{count} seeds" if count > 1 else "one run"
    parts = (
        row.notes.name,
        wording.MODEL_WORDS[group.config.model],
        changed,
        f"{seeds}, {wording.percent(fmean(group.scores))}",
    )
    return " · ".join(part for part in parts if part)


def _named(name: str, group: Group) -> NamedGroup:
    views = []
    for row in group.runs[:_MOST_DRAWN]:
        with suppress(RunError):  # damaged or deleted meanwhile
            views.append(get_readers().read(runs_root(), row.run_id))
    return NamedGroup(name, group, [view for view in views if view.validations])


def _verdict(own: Group, other: Group) -> None:
    if not own.scores:
        return
    found = difference(other.scores, own.scores, own.test_size)
    icon = ":green[:material/check_circle:]" if found.real else ":gray[:material/blur_on:]"
    st.markdown(f"{icon} **These settings less the others.** {wording.plain(difference_words(found, own.test_size))}")
