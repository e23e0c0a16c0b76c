"""What every part of the project needs to know about each network, without building it or importing torch.

Adding a network: an entry here and its builder in core/model/networks.py. A test builds each and holds its entry to it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSpec:
    """One network.

    Attributes:
        words: its name on pages. help: a clause for a learner who chooses.
        has_batchnorm: whether a batch needs at least two digits in train mode.
        has_convolutions: whether channels_last, the memory layout that convolutions are quicker in, is worth it.
    """

    words: str
    help: str
    has_batchnorm: bool = False
    has_convolutions: bool = True


MODELS: dict[str, ModelSpec] = {
    "mlp": ModelSpec("MLP (two linear layers)", "two linear layers", has_convolutions=False),
    "simple_cnn": ModelSpec("SimpleCNN", "two convolutions, as most tutorials have"),
    "cnn_batchnorm": ModelSpec("CNN with BatchNorm", "the same with BatchNorm behind each", has_batchnorm=True),
    "fast_cnn": ModelSpec("Fast CNN", "quick, 99 % in seconds", has_batchnorm=True),
    "small_cnn": ModelSpec("Small CNN", "99 % with the least arithmetic", has_batchnorm=True),
    "lab_cnn": ModelSpec(
        "Lab CNN (BatchNorm and Dropout)",
        "BatchNorm behind a linear layer, too: shows what the mode does",
        has_batchnorm=True,
    ),
}
