"""After which steps a run keeps its weights, for looking back: 0, 1, 2, 4, 8, ... and ends of epochs."""

from core.config.train_config import TrainConfig

MAX_EPOCHS_KEPT = 20


def snapshot_steps(config: TrainConfig) -> frozenset[int]:
    """After which steps the weights are kept: about 2 + log2(steps) + 20 at most, whatever the length of the run."""
    total, per_epoch = config.total_steps(), config.steps_per_epoch()
    geometric = {0} | {2**power for power in range(total.bit_length()) if 2**power < total}
    stride = -(-config.epochs // MAX_EPOCHS_KEPT)
    epochs = {epoch * per_epoch for epoch in range(stride, config.epochs + 1, stride)}
    return frozenset(geometric | epochs | {total})
