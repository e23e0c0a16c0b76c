"""The networks: one dict from name to builder. All take (N, 1, 28, 28) normalised images and give (N, 10) logits.

What else is known of each stands in core/config/models.py, which pages read without torch.
"""

import math
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn

from core.config.train_config import TrainConfig
from core.errors import ConfigError
from core.randomness import seed_for


class Dropout(nn.Dropout):
    """nn.Dropout that draws from a generator of its own once `reseed` was called.

    F.dropout takes no generator: with it, any other draw in the process would change a training's masks.
    """

    generator: torch.Generator | None = None
    seed: int | None = None

    def reseed(self, seed: int) -> None:
        """Begin the stream of masks that belongs to `seed`; every forward in train mode moves along it."""
        self.seed, self.generator = seed, None

    def forward(self, input: Tensor) -> Tensor:
        """In train mode zero a share p of the values and scale the rest by 1 / (1 - p); in eval mode do nothing."""
        if not self.training or self.p == 0 or self.seed is None:
            return super().forward(input)
        if self.generator is None or self.generator.device != input.device:
            self.generator = torch.Generator(input.device).manual_seed(self.seed)
        mask = torch.empty_like(input).bernoulli_(1 - self.p, generator=self.generator)
        return input * mask.div_(1 - self.p)

    def __deepcopy__(self, memo: dict[int, object]) -> "Dropout":
        copy = Dropout(self.p, self.inplace)
        copy.train(self.training)
        copy.seed = self.seed
        if self.generator is not None:
            copy.generator = self.generator.clone_state()
        return copy


def mlp(config: TrainConfig) -> nn.Module:
    """Two linear layers on the flat image."""
    return nn.Sequential(
        OrderedDict(
            # 784 numbers in a row: from here on the network does not know which pixels were neighbours.
            flatten=nn.Flatten(),
            hidden=nn.Linear(28 * 28, 128),
            relu=nn.ReLU(),
            dropout=Dropout(config.dropout),
            # Logits, no softmax: cross_entropy takes the logarithm of a softmax itself, in one numerically safe step.
            output=nn.Linear(128, 10),
        )
    )


def simple_cnn(config: TrainConfig) -> nn.Module:
    """Two 3x3 convolutions and one linear layer, as most tutorials have."""
    # Pooling before ReLU gives the same values as after it and leaves ReLU a quarter of the work.
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 3, padding=1),  # padding 1 keeps 28x28 under a 3x3 kernel
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3, padding=1),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            dropout=Dropout(config.dropout),
            # Pooled twice: 28 -> 14 -> 7 pixels a side, in 64 channels.
            output=nn.Linear(64 * 7 * 7, 10),
        )
    )


def cnn_batchnorm(config: TrainConfig) -> nn.Module:
    """simple_cnn with BatchNorm behind each convolution."""
    # No bias in the convolutions: BatchNorm takes the mean out again, so a bias before it would be learned for nothing.
    momentum = config.batchnorm_momentum
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 3, padding=1, bias=False),
            norm1=nn.BatchNorm2d(32, momentum=momentum),
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3, padding=1, bias=False),
            norm2=nn.BatchNorm2d(64, momentum=momentum),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            dropout=Dropout(config.dropout),
            output=nn.Linear(64 * 7 * 7, 10),
        )
    )


def fast_cnn(config: TrainConfig) -> nn.Module:
    """Quick: 99 % in seconds on a CPU."""
    # A first convolution of stride 2 spares the large maps, where most of a CPU's time would go.
    momentum = config.batchnorm_momentum
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 5, stride=2, padding=2, bias=False),
            norm1=nn.BatchNorm2d(16, momentum=momentum),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(16, 32, 3, padding=1, bias=False),
            pool2=nn.MaxPool2d(2),
            norm2=nn.BatchNorm2d(32, momentum=momentum),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(32, 32, 3, padding=1, bias=False),
            norm3=nn.BatchNorm2d(32, momentum=momentum),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            dropout=Dropout(config.dropout),
            output=nn.Linear(32 * 7 * 7, 10),
        )
    )


def small_cnn(config: TrainConfig) -> nn.Module:
    """99 % with the least arithmetic: 1.07 MFLOP a digit."""
    # No padding: what borders would add is black and costs as much as the rest. 28 -> 12 -> 10 -> 5 -> 3 pixels a side.
    momentum = config.batchnorm_momentum
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 5, stride=2, bias=False),
            norm1=nn.BatchNorm2d(16, momentum=momentum),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(16, 24, 3, bias=False),
            pool2=nn.MaxPool2d(2),
            norm2=nn.BatchNorm2d(24, momentum=momentum),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(24, 64, 3, bias=False),
            norm3=nn.BatchNorm2d(64, momentum=momentum),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            dropout=Dropout(config.dropout),
            output=nn.Linear(64 * 3 * 3, 10),
        )
    )


def lab_cnn(config: TrainConfig) -> nn.Module:
    """BatchNorm behind convolutions and behind a linear layer, and Dropout: for the Train/eval page."""
    # BatchNorm also behind a linear layer, as many classifiers have it: there a channel has one value an image, so its
    # statistics hang on the batch far more than those of whole maps.
    momentum = config.batchnorm_momentum
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 16, 5, stride=2, padding=2, bias=False),
            norm1=nn.BatchNorm2d(16, momentum=momentum),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(16, 32, 3, padding=1, bias=False),
            pool2=nn.MaxPool2d(2),
            norm2=nn.BatchNorm2d(32, momentum=momentum),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden=nn.Linear(32 * 7 * 7, 64, bias=False),
            norm3=nn.BatchNorm1d(64, momentum=momentum),
            relu3=nn.ReLU(),
            dropout=Dropout(config.dropout),
            output=nn.Linear(64, 10),
        )
    )


BUILDERS: dict[str, Callable[[TrainConfig], nn.Module]] = {
    "mlp": mlp,
    "simple_cnn": simple_cnn,
    "cnn_batchnorm": cnn_batchnorm,
    "fast_cnn": fast_cnn,
    "small_cnn": small_cnn,
    "lab_cnn": lab_cnn,
}


def build_model(config: TrainConfig) -> nn.Module:
    """The model of a run with its first weights, which follow from the seed alone. On the CPU, float32, train mode."""
    # Built without memory first: PyTorch's own first weights would be drawn from a generator that everybody else uses, too.
    model = outline(config).to_empty(device="cpu")
    initialise(model, config.seed)
    return model


def outline(config: TrainConfig) -> nn.Module:
    """The network of a run without memory for its weights: shapes and settings only.

    Raises:
        ConfigError: it has a dropout layer whose masks would not follow from the seed.
    """
    with torch.device("meta"):
        model = BUILDERS[config.model](config)
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and not isinstance(module, Dropout):
            raise ConfigError(
                {
                    "model": f"its layer {name} is PyTorch's {type(module).__name__}, whose masks hang on every other "
                    "draw of the process; use core.model.networks.Dropout"
                }
            )
    return model


def initialise(model: nn.Module, seed: int) -> None:
    """Draw first weights with PyTorch's default distributions from a generator of our own.

    Linear and Conv2d: uniform within 1/sqrt(fan_in), as their `reset_parameters` does; BatchNorm: weight 1, bias 0,
    running mean 0 and variance 1. Any other layer with numbers of its own draws them in its `reset_parameters`, for which
    PyTorch's global generator is seeded and put back.

    Raises:
        ConfigError: a layer has numbers of its own and no `reset_parameters`: it would begin with whatever lay in memory.
    """
    generator = torch.Generator().manual_seed(seed_for(seed, "weights"))
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            # a = sqrt(5) makes it uniform within 1/sqrt(fan_in): what Linear and Conv2d have done since PyTorch 0.4, for
            # no better reason than that (github.com/pytorch/pytorch/issues/15314).
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_parameters()  # draws nothing
        elif draws_by_itself(module):
            reset = getattr(module, "reset_parameters", None)
            if reset is None:
                raise ConfigError(
                    {
                        "model": f"its layer {name or 'itself'}, a {type(module).__name__}, has parameters or buffers and no "
                        "reset_parameters() that gives them first values"
                    }
                )
            # Forked: the process's generator is put back, or a new layer here would change every draw elsewhere.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
                reset()


def draws_by_itself(module: nn.Module) -> bool:
    """Whether a layer has numbers of its own for which `initialise` has no rule but the layer's `reset_parameters`."""
    known = isinstance(module, (nn.Linear, nn.Conv2d, nn.modules.batchnorm._BatchNorm))
    return not known and bool([*module.parameters(recurse=False), *module.buffers(recurse=False)])


def enter_train_mode(model: nn.Module, config: TrainConfig) -> None:
    """Train mode, as the run means it: with frozen BatchNorm those layers stay in eval mode."""
    model.train()
    if config.batchnorm_frozen:
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


def reseed_dropout(model: nn.Module, seed: int, step: int) -> None:
    """Give every dropout layer the masks that belong to this step."""
    # By the step, not drawn on and on: a run that is taken up at any step has the masks of one that never stopped.
    for place, module in enumerate(model.modules()):
        if isinstance(module, Dropout):
            module.reseed(seed_for(seed, "dropout", step, place))


def parameter_count(config: TrainConfig) -> int:
    """Trainable numbers of the model; allocates nothing."""
    return sum(parameter.numel() for parameter in outline(config).parameters() if parameter.requires_grad)
