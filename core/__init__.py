"""Digit Lab's engine: training, data, runs. It knows no user interface.

__main__.py    The command line: `python -m core train`, `check` and `prove`: reads arguments only.
answers.py     What a network answers: one rule, for arrays and tensors alike. Numbers that are not finite are no answer.
commands/      What the command line does, one file a command; `core/__main__.py` reads the arguments.
config/        The settings of a run: what they are, what may be chosen, and their text. No torch.
data/          MNIST and its sample: files, splits, batches.
drawing/       From ink to the 28x28 image the network sees.
errors.py      What can go wrong, in words for the person at the dashboard or the terminal.
events.py      What a training loop reports: plain frozen values, and the states a run can be in.
execution/     Trainings as runs: recorded, queued, resumed, forked, taught; and other work in the background.
finding.py     What a look at something brought to light: one shape for every check, diagnosis and verdict.
insight/       Why a network answers as it does.
machine/       What this machine is and can do. No torch at import.
model/         Networks, their weights on disk, and answers.
modes/         The experiments of train and eval mode: one file a question.
preflight/     What can be known before a long run.
randomness.py  Every random number of a run follows from (seed, what it is for, where in the run): nothing is drawn from shared
runs/          What a run's folder holds: the truth about a run, whoever trained it. No torch.
status.py      What a run or a job is doing, and how to drain a generator that does it.
storage/       Files: written so that a kill leaves the old or the new one, and read so that nothing in them runs.
sweeps/        Many runs that differ in a few settings.
training/      The training itself: state, loop, evaluation. Knows no threads and no runs.
transfer/      What comes from elsewhere and what leaves.
"""

import sys

# Read by older Pythons, too: what is behind it would only tell them of a name that cannot be imported.
if sys.version_info < (3, 11):  # noqa: UP036
    raise SystemExit(
        f"Digit Lab needs Python 3.11; this is {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}). Make an "
        "environment with a newer one: python3.11 -m venv .venv. Where your system has none (Ubuntu 20.04 and 22.04, Kylin): "
        "Miniforge, `conda create -n digitlab python=3.11`."
    )
