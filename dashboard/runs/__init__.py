"""The Runs page.

charts.py   Many runs -> plotly figures in JSON form. No Streamlit here.
compare.py  The chosen runs beside each other, and all listed ones as points.
page.py     Runs: find, compare, sweep, export.
session.py  Which runs a person looks at and has chosen on the Runs page.
sweep.py    A sweep: the settings of the Train page with some of them varied, trained one after the other.
table.py    The table of runs, and what one can do with the chosen ones.
"""
