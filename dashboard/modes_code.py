"""The PyTorch lines that do each train/eval experiment, runnable as they stand. No Streamlit here."""

from typing import TYPE_CHECKING, Any

from core.data import data_root
from core.run_store import run_folder, runs_root
from core.shift import SHIFTS

if TYPE_CHECKING:
    from dashboard.modes_lab import Lab

_HEAD = """# Run this in the project's folder: .venv/bin/python this_file.py
import copy
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from core.data import load_pool  # reads the digits: uint8 (n, 1, 28, 28) and labels
from core.modes import some_digits  # the same digits as on the page
from core.predictor import load_predictor  # a run's weights in its network

model = load_predictor(Path({path!r})).model  # in eval mode
train_digits, test_digits = load_pool({dataset!r}, Path({data!r}))
digits = some_digits(test_digits, {count})
images = (torch.from_numpy(digits.images.copy()).float() / 255 - 0.1307) / 0.3081
labels = torch.from_numpy(digits.labels.copy())

"""

_ACCURACY = """
@torch.no_grad()
def accuracy(net, images, order, size):
    right = sum((net(images[batch]).argmax(1) == labels[batch]).sum().item() for batch in order.split(size))
    return right / len(order)

"""

RATES: dict[str, tuple[str, float]] = {
    "Adam, 0.05: far too high for most": ("adam", 0.05),
    "Adam, 0.001": ("adam", 0.001),
    "SGD with momentum 0.9, 0.05": ("sgd_momentum", 0.05),
}

_BATCHNORM_IN_TRAIN_MODE = """twin = copy.deepcopy(model).eval()
for layer in twin.modules():
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.train()
"""

_ORDERS = {
    "shuffled": "torch.randperm(len(labels))",
    "by_class": "labels.argsort(stable=True)",
    "stored": "torch.arange(len(labels))",
}


def _head(lab: "Lab", count: int = 2000) -> str:
    kind = "last" if lab.chosen.is_live else lab.chosen.kind  # a run in training has saved no weights yet
    path = run_folder(runs_root(), lab.chosen.info.run_id) / f"{kind}.pt"
    return _HEAD.format(path=str(path), dataset=lab.predictor.config.dataset, data=str(data_root()), count=count)


def one_switch(lab: "Lab", params: dict[str, Any]) -> str:
    """Accuracy in both modes, and of each kind of layer alone."""
    return _head(lab) + _ACCURACY + f"""
order = {_ORDERS[params["make_up"]]}
print("eval mode:", accuracy(model.eval(), images, order, {params["size"]}))

twin = copy.deepcopy(model).train()  # a copy: train mode moves BatchNorm's running statistics
print("train mode:", accuracy(twin, images, order, {params["size"]}))

for kind in (nn.modules.batchnorm._BatchNorm, nn.Dropout):  # each switched alone
    twin = copy.deepcopy(model).eval()
    for layer in twin.modules():
        if isinstance(layer, kind):
            layer.train()
    print("only", kind.__name__, "in train mode:", accuracy(twin, images, order, {params["size"]}))
"""  # fmt: skip


def batch_size(lab: "Lab", params: dict[str, Any]) -> str:
    """Train mode's accuracy over batch sizes."""
    return _head(lab) + _ACCURACY + f"""
order = {_ORDERS[params["make_up"]]}
print("eval mode:", accuracy(model, images, order, 250))
twin = copy.deepcopy(model).train()
for size in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
    try:
        print("train mode, batches of", size, accuracy(twin, images, order, size))
    except ValueError as error:  # BatchNorm1d has one value a channel then: nothing to take a deviation of
        print("train mode, a batch of one:", error)
"""  # fmt: skip


def company(lab: "Lab", params: dict[str, Any]) -> str:
    """One image in different company."""
    return _head(lab) + f"""
image = images[{params["place"]} : {params["place"]} + 1]
{_BATCHNORM_IN_TRAIN_MODE}
blank = torch.full((1, 1, 28, 28), (0 - 0.1307) / 0.3081)
mixed = images[torch.randperm(len(images))[: {params["size"] - 1}]]
outlier = mixed.clone()
outlier[0] = ((outlier[0] * 0.3081 + 0.1307) * 255 - 0.1307) / 0.3081  # pixels from 0 to 255, never divided
companies = {{
    "shuffled digits": mixed,
    "one class": images[labels == {params["other"]}][: {params["size"] - 1}],
    "one outlier": outlier,
    "blank images": blank.repeat({params["size"] - 1}, 1, 1, 1),
}}
with torch.no_grad():
    print("eval mode:", model(image)[0].softmax(0))
    for name, others in companies.items():
        print(name, twin(torch.cat([image, others]))[0].softmax(0))
"""  # fmt: skip


def shift(lab: "Lab", params: dict[str, Any]) -> str:
    """Shifted images in both modes."""
    chosen, kind = params["shift"], params["kind"]
    values = {name: getattr(chosen, name) for name in SHIFTS}
    return _head(lab, 1000) + _ACCURACY + f"""
from torchvision.transforms.v2 import functional as VF

pixels = torch.from_numpy(digits.images.copy()).float() / 255
order = torch.randperm(len(labels))
{_BATCHNORM_IN_TRAIN_MODE}
for {kind} in {SHIFTS[kind]}:
    brightness, contrast, noise = {", ".join(name if name == kind else repr(value) for name, value in values.items())}
    moved = VF.adjust_contrast(VF.adjust_brightness(pixels, brightness), contrast)
    moved = ((moved + noise * torch.randn_like(moved)).clamp(0, 1) - 0.1307) / 0.3081
    print({kind!r}, {kind}, "eval:", accuracy(model, moved, order, 250), "train:", accuracy(twin, moved, order, 64))
"""  # fmt: skip


def inside(lab: "Lab", params: dict[str, Any]) -> str:
    """One BatchNorm layer's formula in both modes."""
    layer, channel = params["layer"], params["channel"]
    order = _ORDERS[params["make_up"]]
    return _head(lab) + f"""
batch = images[({order})[: {params["size"]}]]
{_BATCHNORM_IN_TRAIN_MODE}
norm, seen = twin.get_submodule({layer!r}), {{}}
running_mean, running_var = norm.running_mean.clone(), norm.running_var.clone()
norm.register_forward_hook(lambda _, inputs, output: seen.update(x=inputs[0], y=output))
with torch.no_grad():
    twin(batch)

x = seen["x"][:, {channel}]
mean, variance = x.mean(), x.var(correction=0)  # train mode divides by n ...
by_hand = (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight[{channel}] + norm.bias[{channel}]
print("train mode as written by hand:", torch.allclose(by_hand, seen["y"][:, {channel}], atol=1e-4))
print("batch mean and variance:", mean.item(), variance.item())
print("running mean and variance:", running_mean[{channel}].item(), running_var[{channel}].item())
share = norm.momentum if norm.momentum is not None else 1 / norm.num_batches_tracked.item()
moved = (1 - share) * running_var[{channel}] + share * x.var(correction=1)  # ... and stores the one with n - 1
print("running variance after this batch:", norm.running_var[{channel}].item(), "by hand:", moved.item())
"""  # fmt: skip


def poisoning(lab: "Lab", params: dict[str, Any]) -> str:
    """Spoil the running statistics, then recalibrate them."""
    bad = {
        "blank": "torch.full((64, 1, 28, 28), (0 - 0.1307) / 0.3081)",
        "one_class": f"((torch.from_numpy(train_digits.images)[train_digits.labels == {params['label']}][:64]) / 255 - 0.1307) "
        "/ 0.3081",
        "noise": "(torch.rand(64, 1, 28, 28) - 0.1307) / 0.3081",
        "inf": "torch.full((64, 1, 28, 28), torch.inf)",
    }[params["poison"]]  # fmt: skip
    return _head(lab, 1000) + _ACCURACY + f"""
order = torch.arange(len(labels))
twin = copy.deepcopy(model)
print("before:", accuracy(twin.eval(), images, order, 250))

bad = {bad}
twin.train()
with torch.no_grad():  # no gradients, but BatchNorm's statistics move all the same
    for _ in range({params["forwards"]}):
        twin(bad)
print("after {params["forwards"]} forwards in train mode:", accuracy(twin.eval(), images, order, 250))

for layer in twin.modules():  # recalibrate: reset, then average over clean batches
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.reset_running_stats()
        layer.momentum = None
clean = torch.from_numpy(some_digits(train_digits, 1280).images.copy()).float()
twin.train()
with torch.no_grad():
    for batch in ((clean / 255 - 0.1307) / 0.3081)[torch.randperm(len(clean))].split(64):
        twin(batch)
print("recalibrated:", accuracy(twin.eval(), images, order, 250))
"""  # fmt: skip


def two_by_two(lab: "Lab", params: dict[str, Any]) -> str:
    """Mode and gradients are two switches."""
    return _head(lab, 256) + """
expected = model.eval()(images).detach()
for train_mode in (False, True):
    for gradients in (False, True):
        twin = copy.deepcopy(model).train(train_mode).requires_grad_(True)
        before = copy.deepcopy(twin.state_dict())
        kept = {}

        def keep(value):
            kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            return value

        weights = {value.untyped_storage().data_ptr() for value in twin.parameters()}
        with torch.set_grad_enabled(gradients), torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
            logits = twin(images)
        moved = any(not torch.equal(before[name], value) for name, value in twin.state_dict().items())
        print(
            "train()" if train_mode else "eval()", "with gradients" if gradients else "no_grad()",
            "| correct", (logits.argmax(1) == labels).float().mean().item(),
            "| statistics moved", moved,
            "| kept for backward", sum(size for place, size in kept.items() if place not in weights), "bytes",
        )
"""  # fmt: skip


def dropout(lab: "Lab", params: dict[str, Any]) -> str:
    """Many passes of one image."""
    return _head(lab) + f"""
twin = copy.deepcopy(model).eval()  # BatchNorm stays in eval mode
for layer in twin.modules():
    if isinstance(layer, nn.Dropout):
        layer.p = {params["p"]}
        layer.train()

image = images[{params["place"]} : {params["place"]} + 1]
with torch.no_grad():
    expected = model(image)[0]
    passes = torch.cat([twin(image) for _ in range({params["passes"]})])
print("eval mode:", expected)
print("mean of the passes:", passes.mean(0))
print("their spread:", passes.std(0))

# What the layer does: keep a share 1 - p, and scale it so that the mean stays.
kept = torch.rand(1_000_000) >= {params["p"]}
print("mean of ones after dropout:", (kept / (1 - {params["p"]})).mean().item())
"""  # fmt: skip


def warming_up(lab: "Lab", params: dict[str, Any]) -> str:
    """A fresh model's running statistics find out what activations look like."""
    momentum = params["momentum"]
    return _head(lab, 500) + _ACCURACY + f"""
torch.manual_seed({params["seed"]})
fresh = nn.Sequential(
    nn.Conv2d(1, 16, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(16, momentum={momentum}), nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32, momentum={momentum}), nn.MaxPool2d(2), nn.ReLU(),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(fresh.parameters(), lr=1e-3)
chosen = torch.randperm(len(train_digits))[: 50 * 64]
inputs = (torch.from_numpy(train_digits.images[chosen.numpy()]).float() / 255 - 0.1307) / 0.3081
targets = torch.from_numpy(train_digits.labels[chosen.numpy()])
order = torch.arange(len(labels))
for step in range(50):
    fresh.train()
    part = slice(64 * step, 64 * step + 64)
    loss = F.cross_entropy(fresh(inputs[part]), targets[part])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        in_eval = accuracy(copy.deepcopy(fresh).eval(), images, order, 64)
        in_train = accuracy(copy.deepcopy(fresh).train(), images, order, 64)  # a copy: this forward would move them, too
        print("step", step + 1, "eval:", in_eval, "train:", in_train, "running mean:", fresh[1].running_mean[0].item())
"""  # fmt: skip


def twins(lab: "Lab", params: dict[str, Any]) -> str:
    """Two networks that differ in BatchNorm alone."""
    name, rate = RATES[params["rate"]]
    optimizer = f"torch.optim.Adam(net.parameters(), lr={rate})"
    if name == "sgd_momentum":
        optimizer = f"torch.optim.SGD(net.parameters(), lr={rate}, momentum=0.9)"
    return _head(lab, 500) + _ACCURACY + f"""
def network(norm, p):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32) if norm else nn.Identity(), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64) if norm else nn.Identity(), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Dropout(p), nn.Linear(64 * 7 * 7, 10),
    )  # fmt: skip


chosen = torch.randperm(len(train_digits), generator=torch.Generator().manual_seed(0)).repeat(20)[: {params["steps"]} * 64]
inputs = (torch.from_numpy(train_digits.images).float() / 255 - 0.1307) / 0.3081
targets = torch.from_numpy(train_digits.labels)
order = torch.arange(len(labels))
for norm, p in ((False, 0.0), (True, 0.0), (False, {params["dropout"]}), (True, {params["dropout"]})):
    torch.manual_seed({params["seed"]})
    net = network(norm, p)
    optimizer = {optimizer}
    for batch in chosen.split(64):
        loss = F.cross_entropy(net.train()(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("BatchNorm" if norm else "plain", "dropout", p, loss.item(), accuracy(net.eval(), images, order, 250))
"""  # fmt: skip


def gap(lab: "Lab", params: dict[str, Any]) -> str:
    """The same training digits in both modes, for each snapshot of the run."""
    folder = run_folder(runs_root(), lab.chosen.info.run_id)
    return _head(lab) + f"""
from core.snapshots import kept_snapshots

seen = some_digits(train_digits, 1000)
inputs = (torch.from_numpy(seen.images.copy()).float() / 255 - 0.1307) / 0.3081
targets = torch.from_numpy(seen.labels.copy())
for step, path in kept_snapshots(Path({str(folder)!r})).items():
    net = load_predictor(path).model
    twin = copy.deepcopy(net).train()
    with torch.no_grad():
        as_trained = F.cross_entropy(torch.cat([twin(batch) for batch in inputs.split(64)]), targets)
        in_eval, unseen = F.cross_entropy(net(inputs), targets), F.cross_entropy(net(images), labels)
    print("step", step, "train mode", as_trained.item(), "eval mode", in_eval.item(), "unseen digits", unseen.item())
"""  # fmt: skip
