"""The Streamlit app: one folder a page; no page imports another page.

__main__.py   `python -m dashboard`: start the server; further arguments go to Streamlit (`--server.port=8600`).
app.py        The entry: `streamlit run dashboard/app.py`, or `python -m dashboard`.
charts/       Figures of runs, live and still.
draw/         The Draw page.
environment/  The Environment page.
models/       Which model answers.
modes/        The Train/eval page.
runs/         The Runs page.
settings/     The form of settings.
shell/        What all pages share: which run, who may control, whether PyTorch is there.
theme.py      Colours, and the style of every page. No Streamlit here.
train/        The Train page.
wording.py    The page's words: statuses, networks, data sets, durations, and text made harmless for Markdown.
"""
