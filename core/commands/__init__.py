"""What the command line does, one file a command; `core/__main__.py` reads the arguments.

check.py  `python -m core check`: look at the installation and compute something on each device.
given.py  What the commands share: settings from text, and JSON on standard output.
prove.py  `python -m core prove`: train the first steps twice, or in two parts, and compare every bit.
train.py  `python -m core train`: one run in this terminal, which the dashboard shows live.
watch.py  `python -m core watch [RUN]`: a run in the terminal, whoever trains it.
"""
