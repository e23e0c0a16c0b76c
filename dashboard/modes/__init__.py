"""The Train/eval page.

code.py       What the shown PyTorch lines share: loading the model and digits, and accuracy. No Streamlit here.
content.py    The train/eval page once PyTorch is there: a model, questions, and the answer to one of them.
experiments/  One experiment a file: its question, controls, work, figure, sentence and PyTorch lines.
lab.py        What every train/eval experiment is given, and what an experiment is made of.
page.py       Train and eval mode: real experiments on a run's own model, one question at a time.
session.py    The train/eval page's jobs of one browser session: the question being worked on, and answers given before.
"""
