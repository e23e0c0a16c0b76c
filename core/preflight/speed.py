"""How fast a configuration trains here, measured by training it for a moment."""

from dataclasses import replace
from time import perf_counter

from core.config.train_config import TrainConfig
from core.machine.memory import keep_freed_memory

_TRIALS, _TRIAL_SECONDS = 4, 0.15


def measure_rate(config: TrainConfig) -> float:
    """Training images per second that this configuration reaches here, by a short trial on noise; under a second.

    The trial has its own model and data, and touches nothing of any run. Raises DeviceError.
    """
    import torch

    from core.training.loop import make_update
    from core.training.reporting import take_pending
    from core.training.state import new_state

    batch = min(config.batch_size, 256)
    trial = replace(config, batch_size=batch, accumulation_steps=1, epochs=1000)
    state = new_state(trial, beside_pages=True)
    keep_freed_memory()
    fastest = 0.0
    threads_before = torch.get_num_threads()
    torch.set_num_threads(state.threads)  # of this thread only; algorithms are left alone, since a run may use them
    try:
        images = torch.randn(batch, 1, 28, 28, generator=torch.Generator().manual_seed(0)).to(state.device)
        labels = torch.arange(batch, device=state.device) % 10
        make_update(state, [(images, labels)])  # the first one pays for set-up
        take_pending(state)
        for _ in range(_TRIALS):  # the best of several: other work on the machine only ever slows one down
            began, steps = perf_counter(), 0
            while steps < 20 and perf_counter() - began < _TRIAL_SECONDS:
                make_update(state, [(images, labels)])
                steps += 1
            take_pending(state)
            fastest = max(fastest, steps * batch / (perf_counter() - began))
    finally:
        torch.set_num_threads(threads_before)
    return fastest
