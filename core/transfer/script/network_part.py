"""The network of a run, its first weights, its optimizer and its learning rate, as lines of its script."""

from collections.abc import Iterator

import torch
from torch import nn

from core.config.models import MODELS
from core.model.networks import draws_by_itself
from core.model.source import network_source
from core.training.schedule import ONE_CYCLE_RISE, ONE_CYCLE_START
from core.transfer.script.scripted import Scripted


def network(run: Scripted) -> Iterator[str]:
    """The layers and their first weights."""
    config = run.config
    yield "# --- the network ---\n"
    source = network_source(config)
    if run.drops:
        yield '''
class Dropout(nn.Module):
    """Dropout with masks of its own: nn.Dropout takes them from a generator that everything else draws from too."""

    generator = None

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or not self.p:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator)
        return x * mask.div_(1 - self.p)

'''
    elif "Dropout(" in source:
        yield "Dropout = nn.Dropout  # with p = 0 it does nothing\n\n"
    yield source
    yield """
generator = torch.Generator().manual_seed(seed_for("weights"))
for module in model.modules():  # first weights: what PyTorch does by default, from a generator of our own
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
        if module.bias is not None:
            bound = 1 / math.sqrt(module.weight[0].numel())
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)"""
    if any(draws_by_itself(module) for module in run.model.modules()):
        yield """    elif not isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)) and list(module.parameters(recurse=False)):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        module.reset_parameters()"""
    channels_last = MODELS[config.model].has_convolutions and run.started.device != "mps"
    yield f"model = model.to(device{', memory_format=torch.channels_last' if channels_last else ''})"
    yield "\n\ndef train_mode():\n    model.train()"
    if config.batchnorm_frozen and any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in run.model.modules()):
        yield """    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.eval()  # uses its running statistics and does not move them"""


def optimizer(run: Scripted) -> Iterator[str]:
    """The optimizer, and the learning rate as a function of the step."""
    config = run.config
    name = {"sgd": "SGD", "sgd_momentum": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop"}[config.optimizer]
    extra = ", momentum=0.9" if config.optimizer == "sgd_momentum" else ""
    fused = name != "RMSprop" and run.started.device.split(":")[0] in ("cpu", "cuda")
    yield "# --- optimizer and learning rate ---\n"
    yield (
        f"optimizer = torch.optim.{name}(model.parameters(), lr=LEARNING_RATE{extra}, weight_decay={config.weight_decay!r}"
        f"{', fused=True' if fused else ''})"
    )
    if run.started.precision == "float16":
        yield f'scaler = torch.amp.GradScaler("{torch.device(run.started.device).type}")  # small float16 gradients become 0'
    yield f"TOTAL_STEPS = {run.total}"
    if run.scheduled:
        words = "What the learning rate is multiplied by for the update that follows `step` updates."
        yield f'\n\ndef factor(step):\n    """{words}"""\n{_factor(run)}'
    if run.plateau:
        yield "\n\n# Reduce on plateau: what it took off so far, the loss to beat, validations that were not better."
        yield "drops, plateau_best, plateau_stale = 1.0, math.inf, 0"


def _factor(run: Scripted) -> str:
    config = run.config
    total = run.total - config.schedule_start
    begin = f"    step = min(max(0, step - {config.schedule_start}), {total})\n" if config.schedule_start else ""
    warm = config.warmup_steps
    warmup = f"min(1.0, (step + 1) / {warm})" if warm else "1.0"
    match config.schedule:
        case "one_cycle":
            rise = warm or max(1, round(ONE_CYCLE_RISE * total))
            low = ONE_CYCLE_START
            return (
                f"{begin}    if step < {rise}:\n        return {low} + (1 - {low}) * (step + 1) / {rise}\n"
                f"    return max(0.0, ({total} - step) / {max(1, total - rise + 1)})"
            )
        case "cosine":
            return (
                f"{begin}    past = max(0, step - {warm})\n"
                f"    return {warmup} * 0.5 * (1 + math.cos(math.pi * past / {max(1, total - warm)}))"
            )
        case "step":
            every = run.per_epoch * config.schedule_epochs
            return f"{begin}    return {warmup} * {config.schedule_factor!r} ** (step // {every})"
        case _:
            return f"{begin}    return {warmup}"
