"""The digits of a run, its random numbers and its batches, as lines of its script."""

from collections.abc import Iterator
from dataclasses import replace

from core.config.train_config import TrainConfig
from core.data.sources import SPLIT_SEED
from core.transfer.script.scripted import Scripted


def digits(run: Scripted) -> Iterator[str]:
    """The splits, as `load_splits` makes them."""
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


def random_numbers(run: Scripted) -> Iterator[str]:
    """What `core.randomness` computes."""
    yield """# --- random numbers: each follows from the seed, what it is for, and the place in the run ---


def seed_for(purpose, *place):
    text = f"{SEED}/{purpose}/{'/'.join(map(str, place))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1"""
    if run.config.augments():
        yield """

def generator_for(purpose, *place):
    return torch.Generator().manual_seed(seed_for(purpose, *place))"""


def batches(run: Scripted) -> Iterator[str]:
    """Order, augmentation and batches of an epoch, from memory or through a DataLoader."""
    config = run.config
    yield "# --- batches ---\n"
    if config.augments():
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
    augmented = '\n        images = augment(images, generator_for("augment", epoch, number))' if config.augments() else ""
    yield f"""all_images, all_labels = torch.from_numpy(train_images).to(device), torch.from_numpy(train_labels).to(device)


def batches(epoch):
    for {"number, indices in enumerate(batch_indices(epoch))" if config.augments() else "indices in batch_indices(epoch)"}:
        images = normalise(all_images[torch.from_numpy(indices).to(device)]){augmented}
        yield images, all_labels[torch.from_numpy(indices).to(device)]"""


def _loader_batches(config: TrainConfig) -> Iterator[str]:
    augmented = ""
    if config.augments():
        augmented = '\n        image = augment(image[None], generator_for("augment", self.epoch, index))[0]'
    yield f'''class Digits(Dataset):
    """One image at a time through transforms."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __len__(self):
        return len(train_labels)

    def __getitem__(self, index):
        image = self.transform(transforms.functional.to_pil_image(train_images[index, 0])){augmented}
        return image, int(train_labels[index])


def batches(epoch):
    indices = [list(map(int, batch)) for batch in batch_indices(epoch)]
    for images, labels in DataLoader(Digits(epoch), batch_sampler=indices):  # the run used {config.workers} workers
        yield images.to(device), labels.to(device)'''
