"""Where a model looks: occlusion, the answer under shifts, feature maps."""

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.answers import answers_of
from core.data.sources import MEAN, STD
from core.model.predictor import Images, Predictor

_BLACK = -MEAN / STD
SHIFT_REACH = 5


def occlusion_map(predictor: Predictor, image: Images, digit: int, window: int = 5) -> npt.NDArray[np.float32]:
    """How much the probability of `digit` falls when a black window covers each place (Zeiler and Fergus 2014).

    Args:
        image: (1, 1, 28, 28), normalised. window: side of the square in pixels, odd.

    Returns:
        float32 (28, 28): probability without the window minus with it, each pixel as the window's middle; negative
        where the digit becomes more probable. Windows over black change nothing and give 0.
    """
    half = window // 2
    padded = np.pad(image[0, 0], half, constant_values=_BLACK)
    ink = np.lib.stride_tricks.sliding_window_view(padded, (window, window)).max((2, 3)) > _BLACK + 1e-3
    places = np.argwhere(ink)
    covered = np.repeat(image, len(places) + 1, axis=0)
    for number, (y, x) in enumerate(places, 1):
        covered[number, 0, max(y - half, 0) : y + half + 1, max(x - half, 0) : x + half + 1] = _BLACK
    with torch.inference_mode():
        probabilities = predictor.model(torch.from_numpy(covered)).softmax(1)[:, digit].numpy()
    result = np.zeros((28, 28), np.float32)
    result[places[:, 0], places[:, 1]] = probabilities[0] - probabilities[1:]
    return result


def saliency_map(predictor: Predictor, image: Images, digit: int) -> npt.NDArray[np.float32]:
    """How strongly the digit's logit reacts to each pixel: |d logit / d pixel| (Simonyan et al. 2014).

    Args:
        image: (1, 1, 28, 28), normalised.

    Returns:
        float32 (28, 28), at least 0.
    """
    pixels = torch.from_numpy(image.copy()).requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(predictor.model(pixels)[0, digit], pixels)
    return gradient[0, 0].abs().numpy()


@dataclass(frozen=True, eq=False)
class ShiftMap:
    """The answer when the image is moved by up to 5 pixels each way.

    Attributes:
        digits: int64 (11, 11), row = down by row - 5, column = right by column - 5; NO_ANSWER where there
            is none. probability: float32 (11, 11), of the digit given to `shift_map`.
    """

    digits: npt.NDArray[np.int64]
    probability: npt.NDArray[np.float32]


def shift_map(predictor: Predictor, image: Images, digit: int) -> ShiftMap:
    """Ask for the image at each of 11 x 11 places. What leaves the image is lost; what comes in is black."""
    reach, size = SHIFT_REACH, 2 * SHIFT_REACH + 1
    padded = np.pad(image[0, 0], reach, constant_values=image.min())
    views = np.lib.stride_tricks.sliding_window_view(padded, (28, 28))[::-1, ::-1]
    with torch.inference_mode():
        probabilities = predictor.model(torch.from_numpy(views.reshape(-1, 1, 28, 28).copy())).softmax(1).numpy()
    return ShiftMap(answers_of(probabilities).reshape(size, size), probabilities[:, digit].reshape(size, size))


def feature_maps(predictor: Predictor, image: Images) -> dict[str, npt.NDArray[np.float32]]:
    """What each layer that keeps a picture gives: name -> float32 (channels, height, width).

    Args:
        image: (1, 1, 28, 28), normalised.
    """
    found: dict[str, npt.NDArray[np.float32]] = {}
    # A copy: the model is shared, and a hook on it would see what other people ask in the same moment.
    model = copy.deepcopy(predictor.model)
    for name, module in model.named_modules():
        if name and not isinstance(module, nn.Sequential):
            module.register_forward_hook(
                lambda _, __, output, name=name: found.update({name: output[0].numpy().copy()}) if output.dim() == 4 else None
            )
    with torch.inference_mode():
        model(torch.from_numpy(image))
    return found
