"""The settings of a run: what they are, what may be chosen, and their text. No torch.

models.py        What every part of the project needs to know about each network, without building it or importing torch.
presets.py       The presets: named settings, each with one line of reason; some go wrong on purpose.
setting.py       One setting's description, and the checks that follow from it.
text.py          Settings to text and back: forms, links and `--set` read and write them alike.
train_config.py  The settings of a run: every field with its default, limits and meaning in one place.
"""
