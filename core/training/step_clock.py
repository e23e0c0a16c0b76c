"""Where the time of an update goes, measured on a sample of the steps."""

from time import perf_counter

import torch

# On a GPU a measured step has to wait for the device between its parts; the others run ahead of it.
_EVERY = {"cpu": 10}
_EVERY_ON_A_GPU = 100


class StepClock:
    """Adds up what the parts of the sampled updates took, until somebody takes it.

    Attributes:
        steps: updates that were measured. seconds: of them. parts: of their parts, by name.
    """

    def __init__(self) -> None:
        self._device: torch.device | None = None
        self._began = self._mark = 0.0
        self._forget()

    def _forget(self) -> None:
        self.steps, self.seconds = 0, 0.0
        self.parts = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0}

    def begin(self, step: int, device: torch.device) -> None:
        """An update begins that follows `step` others."""
        self._device = device if step % _EVERY.get(device.type, _EVERY_ON_A_GPU) == 0 else None
        if self._device is not None:
            self._wait()
            self._began = self._mark = perf_counter()

    def lap(self, part: str = "") -> None:
        """What was done since the last call, or since `begin`, was this part; "": none that is counted by itself."""
        if self._device is None:
            return
        self._wait()
        now = perf_counter()
        if part:
            self.parts[part] += now - self._mark
        self._mark = now

    def end(self) -> None:
        """The update is done."""
        if self._device is None:
            return
        self.steps += 1
        self.seconds += perf_counter() - self._began
        self._device = None

    def take(self) -> tuple[int, float, dict[str, float]]:
        """(steps, seconds, seconds by part) since the last take."""
        taken = self.steps, self.seconds, self.parts
        self._forget()
        return taken

    def _wait(self) -> None:
        """For what the device still has to do."""
        assert self._device is not None
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()
