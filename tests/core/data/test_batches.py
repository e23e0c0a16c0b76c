import dataclasses

import numpy as np
import pytest
import torch

from core.data.batches import augment, epoch_order, make_batches, normalise
from core.data.sources import MEAN, STD, load_splits
from core.randomness import generator_for
from tests.helpers.trainings import SAMPLE

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return load_splits(SAMPLE, tmp_path_factory.mktemp("none")).train


def all_batches(config, digits, epoch=0, first=0):
    source = make_batches(config, digits, CPU)
    try:
        return list(source.epoch(epoch, first))
    finally:
        source.close()


def test_both_pipelines_give_the_same_digits(digits):
    memory = all_batches(SAMPLE, digits)
    loader = all_batches(dataclasses.replace(SAMPLE, pipeline="dataloader"), digits)
    assert len(memory) == len(loader) == SAMPLE.batches_per_epoch()
    for (images, labels), (other_images, other_labels) in zip(memory, loader, strict=True):
        assert torch.equal(labels, other_labels)
        assert torch.allclose(images, other_images, atol=1e-5)


def test_workers_give_what_the_training_thread_would(digits):
    config = dataclasses.replace(SAMPLE, pipeline="dataloader", augment_shift=2, augment_rotation=10.0)
    alone = all_batches(config, digits, epoch=1)
    with_workers = all_batches(dataclasses.replace(config, workers=2), digits, epoch=1)
    for (images, labels), (other_images, other_labels) in zip(alone, with_workers, strict=True):
        assert torch.equal(labels, other_labels)
        assert torch.equal(images, other_images)


@pytest.mark.parametrize("pipeline", ["memory", "dataloader"])
def test_an_epoch_can_be_taken_up_anywhere(digits, pipeline):
    config = dataclasses.replace(SAMPLE, pipeline=pipeline, augment_shift=2)
    whole = all_batches(config, digits, epoch=3)
    rest = all_batches(config, digits, epoch=3, first=4)
    assert len(rest) == len(whole) - 4
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(whole[4:], rest, strict=True))


def test_every_digit_is_seen_once_an_epoch_in_a_new_order(digits):
    first, second = (epoch_order(SAMPLE, digits.labels, epoch) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(len(digits)))
    assert (first != second).any()
    assert (epoch_order(SAMPLE, digits.labels, 0) == first).all()
    assert (epoch_order(dataclasses.replace(SAMPLE, seed=1), digits.labels, 0) != first).any()


def test_sorted_by_class_is_sorted(digits):
    order = epoch_order(dataclasses.replace(SAMPLE, order="by_class"), digits.labels, 5)
    assert (np.diff(digits.labels[order]) >= 0).all()


def test_normalising_uses_mnists_mean_and_deviation():
    images = torch.tensor([[0, 255], [128, 33]], dtype=torch.uint8)
    expected = (images.double() / 255 - MEAN) / STD
    assert torch.allclose(normalise(images).double(), expected, atol=1e-6)


def test_a_shift_moves_whole_pixels_and_keeps_the_ink():
    config = dataclasses.replace(SAMPLE, augment_shift=3)
    images = torch.full((400, 1, 28, 28), -MEAN / STD)
    images[:, :, 14, 14] = 2.0
    moved = augment(images, config, generator_for(0, "test"))
    spots = (moved > 1.9).nonzero()
    assert len(spots) == 400
    offsets = spots[:, 2:] - 14
    assert offsets.min().item() == -3
    assert offsets.max().item() == 3
    assert torch.allclose(moved.sum((1, 2, 3)), images.sum((1, 2, 3)), atol=1e-2)


def test_rotation_and_scale_keep_the_centre_and_the_border_black():
    config = dataclasses.replace(SAMPLE, augment_rotation=30.0, augment_scale=0.2)
    images = torch.full((50, 1, 28, 28), -MEAN / STD)
    images[:, :, 10:18, 8:20] = 2.0
    turned = augment(images, config, generator_for(0, "test"))
    assert torch.allclose(turned[:, :, 13:15, 13:15], images[:, :, 13:15, 13:15], atol=1e-4)
    assert torch.allclose(turned[:, :, 0], images[:, :, 0], atol=1e-5)
    assert not torch.allclose(turned, images, atol=0.1)
