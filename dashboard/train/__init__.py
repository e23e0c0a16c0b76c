"""The Train page.

downloads.py     What can be taken away from a run: metrics, charts, its script, its weights.
ending.py        How a run ended, what to do about it, and where it came from.
evaluation.py    What the network gets wrong: confusion, accuracy of each digit, the worst mistakes; and what its first loss
fork_panel.py    Fork a run: go on from one of its saved states with something changed, beside its own curves.
fork_session.py  What a person has filled in to fork a run.
page.py          Train: choose settings, start, watch.
progress.py      How far a run is, and the buttons that steer it.
proofs.py        Proofs that a run repeats and resumes bit for bit.
run_panel.py     One run on the Train page: headline, live charts, and what follows from its state.
session.py       The Train page's actions: start, resume, pause, stop, save, prove, download, and which runs it lists.
"""
