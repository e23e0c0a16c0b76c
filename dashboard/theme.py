"""Colours, and the style of every page. No Streamlit here."""

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
