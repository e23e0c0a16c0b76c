"""Trainings as runs: recorded, queued, resumed, forked, taught; and other work in the background.

fork.py         A fork: a run that goes on from another run's whole training state, with some settings changed.
jobs.py         Jobs: what takes over a second besides training, such as a download or an experiment, each in a thread of its
kept_states.py  Which saved states of a run are kept, found again, and forgotten.
lesson.py       A lesson: a run that starts from another run's weights and sees a person's drawings among the training digits.
origin.py       What a run may start from when it does not start anew: a fork's or a lesson's parent, and whatever comes.
process.py      What there is one of in a process that serves pages: its trainer, its other jobs, its readers of runs.
readers.py      Runs as their folders show them, whoever trains them: many viewers of one run share the reading.
recorder.py     One run from its data to its last weights, written to its folder as it goes. Knows no threads.
trainer.py      The thread that trains: a queue of runs, start, pause, resume, stop.
"""
