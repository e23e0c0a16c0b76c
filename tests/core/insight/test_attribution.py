import numpy as np
import pytest
import torch
from torch import nn

from core.config.train_config import TrainConfig
from core.data.batches import normalise
from core.data.sources import MEAN, STD, load_sample
from core.insight.attribution import feature_maps, occlusion_map, saliency_map, shift_map
from core.model.networks import build_model
from core.model.predictor import Predictor
from core.model.weights import copy_weights

CONFIG = TrainConfig(dataset="mnist_sample")
BLACK = -MEAN / STD


class OnePixel(nn.Module):
    """Digit 3 is as likely as the pixel (10, 12) is white; the rest is a tie."""

    def forward(self, images):
        logits = torch.zeros(len(images), 10)
        return logits.index_fill(1, torch.tensor([3]), 1.0) * (images[:, 0, 10, 12] - BLACK)[:, None]


@pytest.fixture
def one_pixel():
    predictor = Predictor(copy_weights(build_model(CONFIG)), CONFIG, 0)
    predictor.model = OnePixel()
    return predictor


@pytest.fixture
def image():
    image = np.full((1, 1, 28, 28), BLACK, np.float32)
    image[0, 0, 10, 12] = 2.8
    image[0, 0, 20, 20] = 2.8
    return image


def test_occlusion_finds_the_pixel_that_matters(one_pixel, image):
    found = occlusion_map(one_pixel, image, 3, window=5)
    assert np.array_equal(np.argwhere(found > 0.01).min(0), [8, 10])
    assert np.array_equal(np.argwhere(found > 0.01).max(0), [12, 14])
    assert (found > 0.01).sum() == 25
    assert np.abs(found[18:23, 18:23]).max() == 0


def test_saliency_is_the_gradient(one_pixel, image):
    found = saliency_map(one_pixel, image, 3)
    assert found[10, 12] == pytest.approx(1)
    found[10, 12] = 0
    assert found.max() == 0


def test_the_shift_map_asks_for_the_moved_image(one_pixel, image):
    found = shift_map(one_pixel, image, 3)
    assert found.digits.shape == (11, 11)
    assert found.digits[5, 5] == 3
    assert found.probability[5, 5] > 0.5
    # Row 5 + dy, column 5 + dx: the other white pixel lies 10 down and 8 right, out of reach; so only (0, 0) says 3.
    assert (found.probability > 0.5).sum() == 1
    near = np.roll(image, (2, -3), (2, 3))  # now the pixel must move 2 up and 3 right to be back
    assert np.argwhere(shift_map(one_pixel, near, 3).probability > 0.5).tolist() == [[3, 8]]


def test_feature_maps_are_those_of_the_layers(image):
    predictor = Predictor(copy_weights(build_model(CONFIG)), CONFIG, 0)
    found = feature_maps(predictor, image)
    assert {name: one.shape for name, one in found.items()} == {
        "conv1": (32, 28, 28),
        "pool1": (32, 14, 14),
        "relu1": (32, 14, 14),
        "conv2": (64, 14, 14),
        "pool2": (64, 7, 7),
        "relu2": (64, 7, 7),
    }
    with torch.no_grad():
        expected = predictor.model.get_submodule("conv1")(torch.from_numpy(image))[0].numpy()
    assert found["conv1"] == pytest.approx(expected, abs=1e-6)
    assert found["relu1"].min() >= 0


def test_maps_of_a_real_network_are_finite():
    predictor = Predictor(copy_weights(build_model(CONFIG)), CONFIG, 0)
    images = normalise(torch.from_numpy(load_sample()[1].images[:1].copy())).numpy()
    for found in (occlusion_map(predictor, images, 0), saliency_map(predictor, images, 0)):
        assert found.shape == (28, 28)
        assert np.isfinite(found).all()
        assert np.abs(found).max() > 0
