"""The training itself: state, loop, evaluation. Knows no threads and no runs.

anomaly.py       Which operation of the forward pass a NaN of the backward pass belongs to, by the graph that autograd keeps.
evaluation.py    Scoring a model: loss, accuracy, confusion matrix and worst mistakes over a split, each digit weighing the
loop.py          The training loop, as one would explain it: a generator of events that knows no threads and no files.
nonfinite.py     A loss or gradient that is not finite: the update is refused before it spoils the weights, and the cause is
reporting.py     What a training reports of its steps, gathered so that the device need not wait for every one.
saved_state.py   A whole training state on disk, from which a run goes on bit for bit.
schedule.py      The learning rate as a function of the step: one formula for training, preview and resume.
side_by_side.py  Several trainings at once, step by step beside each other.
state.py         Everything that changes while a network trains, made anew.
step_clock.py    Where the time of an update goes, measured on a sample of the steps.
world.py         The processes that train one model together; here one.
"""
