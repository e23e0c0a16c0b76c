"""Which model answers.

model_row.py      The model that answers, in one line: where it comes from, and the way to another one.
model_session.py  Which model answers, on every page that asks one.
"""
