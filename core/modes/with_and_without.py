"""Twins that differ in BatchNorm or Dropout alone."""

import math
from dataclasses import replace

from core.config.train_config import DATASETS, TrainConfig

BATCH = 64
_VALIDATIONS = 10


def twin_configs(
    dataset: str, optimizer: str, learning_rate: float, dropout: float, steps: int, seed: int = 0
) -> dict[str, TrainConfig]:
    """The same two convolutions plain, with BatchNorm, with Dropout, and with both: same seed, digits, order and budget.

    Raises ConfigError.
    """
    most = (DATASETS[dataset][0] - 500) // BATCH  # steps that one epoch can have
    epochs = math.ceil(steps / most)
    plain = TrainConfig(
        dataset=dataset,
        model="simple_cnn",
        optimizer=optimizer,
        learning_rate=learning_rate,
        train_size=math.ceil(steps / epochs) * BATCH,
        validation_size=500,
        epochs=epochs,
        batch_size=BATCH,
        seed=seed,
        device="cpu",
        validations_per_epoch=max(1, _VALIDATIONS // epochs),
    )
    normed = replace(plain, model="cnn_batchnorm")
    twins = {
        "plain": plain,
        "BatchNorm": normed,
        "Dropout": replace(plain, dropout=dropout),
        "BatchNorm and Dropout": replace(normed, dropout=dropout),
    }
    return {name: config.validate() for name, config in twins.items()}
