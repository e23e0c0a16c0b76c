"""The Draw page.

answer.py         The answer to a drawing: the digit, how sure, ten bars in both modes, and which model says so in which mode.
canvas_keeper.js  Keeps a drawing over a reload, and takes Ctrl+Z.
charts.py         Answers -> plotly figures for the Draw page. No Streamlit here.
content.py        The Draw page once PyTorch is there: source on the left, answer on the right, what lies behind it below.
page.py           Draw: ask a trained model about a drawing, a picture or a test digit, and see why it answers so.
panels.py         What lies behind an answer: the stages of the image, why it may be wrong, where the model looks, and its past.
pins.py           A person's own test set: drawings pinned with the digit that was meant, asked again and again, and taught.
session.py        What the Draw page remembers of a person: the drawing, the picture, what is looked at.
source.py         What is to be read: the canvas, an uploaded or pasted picture, or a test digit.
"""
