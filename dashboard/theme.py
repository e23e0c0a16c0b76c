"""Colours with one meaning each on every page, and words that pages share. No Streamlit here."""

import re

from core.events import RunStatus

# From Okabe and Ito's colour-blind-safe set, in tones that stand out on white and on near-black alike.
TRAIN = "#3a8fd0"
VALIDATION = "#e08a00"
TEST = "#12a07a"
EVAL_MODE = "#12a07a"
TRAIN_MODE = "#d1495b"
PARENT_RUN = "#8a8f98"
GPU_MEMORY = "#b565c2"
# Twins of an experiment: (colour, dash).
TWINS = {
    "plain": ("#7d8590", "solid"),
    "BatchNorm": ("#5b5fc7", "solid"),
    "Dropout": ("#a9762f", "dash"),
    "BatchNorm and Dropout": ("#1f9aa8", "dot"),
}
RAW = "rgba(58, 143, 208, 0.45)"
PROBLEM = "#d1495b"

# Streamlit leaves 6 rem above a page and sets titles at 2.75 rem: the curves would begin below the fold.
PAGE_STYLE = """<style>
.stMainBlockContainer { padding-top: 3.75rem; padding-bottom: 4rem; }
.stMainBlockContainer h1 { font-size: 1.75rem; padding: 0.25rem 0; }
</style>"""

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

MODEL_WORDS = {
    "mlp": "MLP (two linear layers)",
    "simple_cnn": "SimpleCNN",
    "cnn_batchnorm": "CNN with BatchNorm",
    "fast_cnn": "Fast CNN",
    "lab_cnn": "Lab CNN (BatchNorm and Dropout)",
}
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


def duration_words(seconds: float) -> str:
    """A duration that a person reads at a glance: 42 s, 3 min 20 s, 2 h 05 min."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


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
