"""The page's words: statuses, networks, data sets, durations, and text made harmless for Markdown. No Streamlit here."""

import math
import re
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from core.config.models import MODELS
from core.config.presets import PRESETS
from core.config.text import format_value
from core.config.train_config import TrainConfig, settings
from core.errors import RunError
from core.runs.folder import RunFolder
from core.runs.info import RunInfo, read_info
from core.runs.notes import read_notes
from core.runs.reader import read_config
from core.status import RunStatus

STATUS_WORDS: dict[RunStatus, tuple[str, str, str]] = {
    # status: (word, badge colour, icon)
    RunStatus.QUEUED: ("Queued", "gray", ":material/hourglass_empty:"),
    RunStatus.PREPARING: ("Preparing", "blue", ":material/downloading:"),
    RunStatus.RUNNING: ("Training", "blue", ":material/play_arrow:"),
    RunStatus.PAUSED: ("Paused", "orange", ":material/pause:"),
    RunStatus.FINISHED: ("Finished", "green", ":material/check:"),
    RunStatus.STOPPED: ("Stopped", "gray", ":material/stop:"),
    RunStatus.FAILED: ("Failed", "red", ":material/error:"),
    RunStatus.INTERRUPTED: ("Interrupted", "red", ":material/power_off:"),
}

MODEL_WORDS = {name: spec.words for name, spec in MODELS.items()}
DATASET_WORDS = {"mnist": "MNIST, 60,000 + 10,000", "mnist_sample": "MNIST sample, 5,000"}
WEIGHTS_WORDS = {"live": "as it trains", "best": "best on validation", "last": "last"}
CHOICE_WORDS = {
    **MODEL_WORDS,
    **DATASET_WORDS,
    "memory": "memory",
    "dataloader": "DataLoader",
    "shuffled": "shuffled each epoch",
    "stored": "as stored",
    "by_class": "sorted by class",
    "sgd": "SGD",
    "sgd_momentum": "SGD with momentum 0.9",
    "adam": "Adam",
    "adamw": "AdamW",
    "rmsprop": "RMSprop",
    "one_cycle": "one-cycle",
    "plateau": "reduce on plateau",
}


def percent(share: float) -> str:
    """0.9912 -> 99.12 %."""
    return f"{100 * share:.2f} %"


def setting_words(name: str, config: TrainConfig) -> str:
    """A setting's value as the form shows it; of an empty one what that means."""
    return format_value(getattr(config, name)) or settings()[name].empty or "none"


def number(value: float) -> str:
    """A loss as one reads it: three significant digits, as a power of ten where it is very small or large; NaN as a word."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    if value and not 1e-3 <= abs(value) < 1e4:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:#.3g}" if abs(value) < 100 else f"{value:,.0f}"


def plain(text: str) -> str:
    """Words that may hold what a person typed, so that Markdown shows them as they are: on one line, without lists or headings,
    and without addresses that a browser would make links of."""
    text = _ADDRESS.sub(lambda match: f"{match[0]}\u2060", " ".join(text.split()))
    if _BEGINS_A_BLOCK.match(text):
        text = f"\u2060{text}"
    return "".join(f"\\{character}" if character in "\\`*_{}[]()<>#+!|$~:" else character for character in text)


# A word joiner behind these, unseen, keeps what follows from being taken for an address.
_BEGINS_A_BLOCK = re.compile(r"[-+=]|\d+[.)]")
_ADDRESS = re.compile(r"www|://|@|mailto|xmpp", re.IGNORECASE)


def changed_words(config: TrainConfig, info: RunInfo) -> str:
    """The settings in which a run differs: from its parent, or from the defaults. "" when in none."""
    before = TrainConfig()
    if info.parent is not None:
        try:
            before = read_config(RunFolder.of(info.parent).path)
        except RunError:
            return ""  # what was changed against it is not known any more
    shown = []
    for name, setting in settings().items():
        old, new = getattr(before, name), getattr(config, name)
        if old != new and name not in ("model", "dataset", "schedule_start"):
            change = f"{format_value(old) or 'none'} → " if info.parent is not None else ""
            shown.append(f"{setting.label.lower()} {change}{format_value(new) or 'none'}")
    return ", ".join(shown)


def disk_words(folder: Path) -> str:
    """What a run keeps on the disk, and what for."""
    sizes, states = RunFolder(folder).disk_bytes(), len(RunFolder(folder).states())
    return (
        f"On disk: {sum(sizes.values()) / 2**20:.1f} MiB. {states} checkpoint{'s' if states != 1 else ''} to resume from "
        f"({sizes['states'] / 2**20:.1f} MiB), snapshots of the weights along the way ({sizes['snapshots'] / 2**20:.1f} "
        f"MiB), metrics and best and last weights ({sizes['rest'] / 2**20:.1f} MiB)."
    )


def run_label(info: RunInfo) -> str:
    """What a run is, in one line of a list: its person's name first, then network, data, what differs, when, and its result.

    Nothing that changes while it trains: a select box takes another label for another run.
    """
    name, told = _known_of(info.run_id)
    when = time.strftime("%d %b %H:%M", time.localtime(info.created_at)) if 0 < info.created_at < 4e9 else ""
    if time.strftime("%d %b", time.localtime()) == when[:6]:
        when = when[7:]
    result = "" if info.test_accuracy is None else percent(info.test_accuracy)
    model = MODEL_WORDS.get(info.model, info.model)
    data = "sample" if info.dataset == "mnist_sample" else "MNIST"
    return " · ".join(part for part in (name, model, data, told, when, result) if part)


def run_labels(runs: list[RunInfo]) -> dict[str, str]:
    """Run id -> its label; the id behind labels that would be the same."""
    labels = {info.run_id: run_label(info) for info in runs}
    known = list(labels.values())
    return {run_id: label if known.count(label) == 1 else f"{label} · {run_id}" for run_id, label in labels.items()}


def _known_of(run_id: str) -> tuple[str, str]:
    """(the person's name for a run, the settings in which it differs); "" for what cannot be read."""
    folder = RunFolder.of(run_id).path
    name, told = "", ""
    with suppress(RunError):  # damaged notes and settings are told on the Runs page
        name = read_notes(folder).name
    with suppress(RunError):
        told = _differs(folder)
    return name, told


@lru_cache(maxsize=512)
def _differs(folder: Path) -> str:
    """The preset's title, or the settings that are not the defaults; of a fork what it changed. Settings never change."""
    config, info = read_config(folder), read_info(folder)
    if info.parent is None and info.preset in PRESETS:
        return PRESETS[info.preset].title
    return changed_words(config, info)
