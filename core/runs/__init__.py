"""What a run's folder holds: the truth about a run, whoever trained it. No torch.

drawings.py   The drawings that a lesson teaches, kept in its run's folder.
folder.py     A run's folder: the truth about a run, whoever trained it. Written by appending; `reader.py` reads it by tailing.
format.py     The format of a run's folder: its version, and the rows of every version read and written as what they are.
groups.py     Runs of the same settings with other seeds, as one group.
history.py    A run's history as growing columns, and what of it a chart can show: thinned, honest, smoothed.
index.py      All runs of a folder as rows of a table.
info.py       What status.json says of a run, and the list of all runs.
lock.py       Whether a run is held by a training, here or in another process.
noise.py      Is a difference real, or could it be noise? Seeds as samples, and what so many test digits can tell.
notes.py      What a person says about a run: its name, tags, a note, and whether it is archived.
reader.py     A run read back from its folder, by tailing: what a page draws of it, whoever trains it.
search.py     Which runs a line of words and conditions means, such as `mlp learning_rate<0.01 status=failed -homework`.
snapshots.py  Weights kept along a run, for looking back: at steps 0, 1, 2, 4, 8, ... and at ends of epochs.
speed.py      Where a run's time goes, and what limits its speed: one finding, with the measured shares and a setting to change.
thinning.py   Many points to few, with spikes, gaps and ends kept.
time_left.py  How long a run still takes: training, validations and the scoring of the test digits, by what they took so far.
trash.py      Deleted runs: moved into a folder beside the others, from which they can come back until it is emptied.
verdict.py    How a run ended, as a finding: what its curves say, what to do about it, and which settings would do that.
writer.py     The one writer of a run's folder: settings, status, rows of numbers and events, appended as they come.
"""
