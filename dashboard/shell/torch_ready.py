"""PyTorch is imported once in the background; pages ask here whether it is there yet."""

import gc
from typing import Any

from core.execution.process import get_jobs
from core.machine.hardware import choose_threads
from core.status import Progress

WARM_UP_JOB = "warm-up"


def warm_up() -> None:
    """Import torch in the background once a process, so that the first page does not wait for it.

    Then everything imported is taken out of the garbage collector's sight: with torch a collection takes 0.2 s, in
    which no thread runs, training included.
    """

    def steps() -> Any:
        yield Progress(0, 0, "Importing PyTorch")
        import torch

        import core.execution.recorder  # noqa: F401

        # What pages and experiments compute leaves a core to the rest, as runs do. Set once, before any run: a run's own
        # number of threads is part of its result.
        torch.set_num_threads(choose_threads(None, beside_pages=True))
        yield Progress(0, 0, "Making a first optimizer")
        # The first optimizer of a process imports torch._dynamo: 2 s and 135,000 objects, which a full collection would look
        # through each time if they came after the freeze.
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        gc.collect()
        gc.freeze()

    if get_jobs().get(WARM_UP_JOB) is None:
        get_jobs().start(WARM_UP_JOB, steps, lasting=True)


def is_warm() -> bool:
    """True once torch is imported."""
    job = get_jobs().get(WARM_UP_JOB)
    return job is not None and not job.status.is_active


def torch_problem() -> str:
    """Why PyTorch cannot be used, in words; "" when it can, or while it is imported."""
    job = get_jobs().get(WARM_UP_JOB)
    return job.reason if job is not None else ""


def has_torch() -> bool:
    """True once PyTorch can be used."""
    return is_warm() and not torch_problem()
