"""The presets: named settings, each with one line of reason; some go wrong on purpose."""

from dataclasses import dataclass, replace

from core.config.train_config import TrainConfig
from core.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A named configuration with one line of reason.

    Attributes:
        title: shown on its button.
        reason: why one would choose it, one line.
        config: the settings.
        instructive: True for presets that go wrong on purpose.
    """

    title: str
    reason: str
    config: TrainConfig
    instructive: bool = False


PRESETS: dict[str, Preset] = {
    "tutorial": Preset("Tutorial", "What most PyTorch tutorials train: Adam at 1e-3, batches of 64, 10 epochs.", TrainConfig()),
    "fast99": Preset(
        "99 % fast",
        "A small BatchNorm network and a one-cycle schedule: 99 % on the test set in a fraction of the time.",
        TrainConfig(
            model="small_cnn",
            epochs=1,
            learning_rate=0.01,
            optimizer="adamw",
            weight_decay=0.01,
            schedule="one_cycle",
            precision="auto",
        ),
    ),
    "train-eval": Preset(
        "For train and eval",
        "BatchNorm behind convolutions and behind a linear layer, and Dropout: in seconds a model that minds its mode.",
        TrainConfig(
            model="lab_cnn",
            dropout=0.5,
            epochs=1,
            learning_rate=0.01,
            optimizer="adamw",
            weight_decay=0.01,
            schedule="one_cycle",
            precision="auto",
        ),
    ),
    "batchnorm": Preset(
        "BatchNorm and Dropout",
        "The network for the train/eval experiments: BatchNorm after each convolution, Dropout before the last layer.",
        TrainConfig(model="cnn_batchnorm", dropout=0.5, epochs=3),
    ),
    "reproducible": Preset(
        "Reproducible",
        "One thread, float32, deterministic algorithms: the same weights, bit for bit, each time on one machine.",
        TrainConfig(epochs=3, threads=1, deterministic=True, device="cpu"),
    ),
    "lr-too-high": Preset(
        "Learning rate too high",
        "SGD with momentum at 1.0: watch the loss leap up and stay there.",
        TrainConfig(epochs=2, optimizer="sgd_momentum", learning_rate=1.0),
        instructive=True,
    ),
    "lr-too-low": Preset(
        "Learning rate too low",
        "Plain SGD at 1e-5: the loss hardly leaves ln 10 = 2.303.",
        TrainConfig(epochs=2, optimizer="sgd", learning_rate=1e-5),
        instructive=True,
    ),
    "no-shuffle": Preset(
        "Not shuffled",
        "All 0s first, then all 1s, ...: the network forgets each digit while it learns the next.",
        TrainConfig(epochs=2, order="by_class"),
        instructive=True,
    ),
}


def preset_named(name: str) -> TrainConfig:
    """The configuration of a preset. Raises ConfigError that lists the presets when there is none of that name."""
    if name not in PRESETS:
        raise ConfigError({"preset": f"must be one of {', '.join(PRESETS)}; got {name!r:.60}"})
    return PRESETS[name].config


def preset_of(config: TrainConfig) -> str | None:
    """The name of the preset that these settings are, seed, data set and device aside; None when changed further."""
    for name, preset in PRESETS.items():
        same = replace(preset.config, seed=config.seed, dataset=config.dataset, threads=config.threads, device=config.device)
        if same == config:
            return name
    return None
