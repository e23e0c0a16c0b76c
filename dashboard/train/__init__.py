"""The Train page.

band.py          The numbers of a run in one band: how good it is, how far, how fast.
chart_bar.py     One line between the numbers and the curves: how the charts are drawn, and what else goes on here.
code_facts.py    What each line of the training loop caused in a run: share of the time, last values, charts it feeds.
code_panel.js    The browser's side of the code beside the curves: what belongs together lights up.
code_panel.py    The training loop of a run beside its curves: the exported script's own lines, each tied to what it caused.
code_tab.py      A run, or the form, as PyTorch code: network with a table of layers, data set, loop, whole script.
downloads.py     What can be taken away from a run: metrics, charts, its script, its weights.
evaluation.py    What the network gets wrong, at its last scoring or after any step whose weights were kept.
fork_panel.py    Fork a run: go on from one of its saved states with something changed, beside its own curves.
fork_session.py  What a person has filled in to fork a run.
headline.py      The first line of a run: its state, what it is (and the choice of another one), the buttons that steer it.
looking_back.py  One slider over a run's kept weights: mistakes, filters and pinned drawings at any of those steps.
page.py          Train: choose settings, start, watch.
proofs.py        Proofs that a run repeats and resumes bit for bit.
remedy.py        The one button that does what a finding about a run advises.
report.py        A run as one HTML file that opens without a network: verdicts, curves, mistakes, settings.
run_panel.py     One run on the Train page: its headline, its numbers, its curves, and the rest in tabs.
seeds_tab.py     The same settings with other seeds: what they give on average, and whether they differ from others.
session.py       The Train page's actions: start, resume, pause, stop, save, prove, download, and which runs it lists.
settings_tab.py  The settings that a run was trained with, what differs first, and the machine it was trained on.
speed_tab.py     What limits a run's speed, where its time goes, and what would lift it.
start_panel.py   What starts the next run, at the head of the sidebar: a preset, Start, what it would take, MNIST.
verdict_row.py   What to think of a run that has ended, in one line, with the one button that does what the line advises.
wrong.py         One evaluation as pictures: confusion, accuracy of each digit, the worst mistakes.
"""
