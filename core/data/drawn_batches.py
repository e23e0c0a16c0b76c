"""Batches in which a share of the digits are drawings that a person wants learned."""

from collections.abc import Iterator

import torch

from core.config.train_config import TrainConfig
from core.data.batches import Batch, Batches, augment, normalise
from core.data.sources import Digits
from core.randomness import generator_for

# Of each batch; the other digits keep the network from forgetting what it knew.
DRAWN_SHARE = 0.25
_VARIATION = TrainConfig(augment_shift=1, augment_rotation=10.0, augment_scale=0.1)


class LessonBatches:
    """The batches of another pipeline, each with some of the drawings added, a little moved, turned and scaled (unless `moved`
    is False)."""

    def __init__(
        self, inner: Batches, config: TrainConfig, drawings: Digits, device: torch.device, *, moved: bool = True
    ) -> None:
        self._inner, self._config, self._device, self._moved = inner, config, device, moved
        self._images = torch.from_numpy(drawings.images.copy()).to(device)
        self._labels = torch.from_numpy(drawings.labels.copy()).to(device)

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """See `Batches.epoch`."""
        for number, (images, labels) in enumerate(self._inner.epoch(epoch, first_batch), first_batch):
            generator = generator_for(self._config.seed, "lesson", epoch, number)
            count = max(1, round(len(labels) * DRAWN_SHARE / (1 - DRAWN_SHARE)))
            chosen = torch.randint(len(self._labels), (count,), generator=generator).to(self._device)
            drawn = normalise(self._images[chosen])
            if self._moved:
                drawn = augment(drawn, _VARIATION, generator)
            yield torch.cat([images, drawn]), torch.cat([labels, self._labels[chosen]])

    def close(self) -> None:
        """End the other pipeline."""
        self._inner.close()
