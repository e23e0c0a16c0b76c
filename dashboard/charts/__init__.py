"""Figures of runs, live and still.

evaluation_charts.py  Figures of one evaluation: the confusion matrix, and the accuracy of each digit.
figures.py            What all figures share: ten digits, heat, legend, layout, and numbers as JSON can carry them.
group_charts.py       Groups of seeds as figures: the mean of their curves, each run as a thin line, results as dots.
live_chart.js         The browser's side of the live charts: new points are appended, nothing is drawn anew.
live_chart.py         The live charts of a run: a small component around plotly.js that keeps zoom and receives new points only.
run_charts.py         Values of a run -> what its charts show. Never imports streamlit.
run_figures.py        Charts as complete plotly figures: for downloads, and where the live component cannot draw.
session.py            What this browser has of the live charts, and how it wants to see them.
speed_charts.py       Where a run's time goes, as bars from zero. No Streamlit here.
"""
