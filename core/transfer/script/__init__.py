"""A run as one Python file of its own.

data_part.py     The digits of a run, its random numbers and its batches, as lines of its script.
loop_part.py     The training loop of a run and its scoring, as lines of its script.
network_part.py  The network of a run, its first weights, its optimizer and its learning rate, as lines of its script.
run_script.py    A run as one Python file that needs nothing of this project and gives the same losses.
scripted.py      What the parts of a script ask about, and lines that know what they do in a training.
"""
