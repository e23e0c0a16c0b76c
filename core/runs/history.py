"""A run's history as growing columns, and what of it a chart can show: thinned, honest, smoothed."""

import copy
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from core.events import REPORT_DTYPE, STEP_DTYPE
from core.runs.thinning import MAX_BUCKETS, Column, Floats

_MOST_AT_ONCE = 200_000  # numbers looked at together while smoothing


class Columns:
    """Named arrays that grow together. A view handed out stays valid and unchanged while more rows come."""

    def __init__(self, dtypes: Mapping[str, npt.DTypeLike]) -> None:
        self._arrays = {name: np.empty(1024, dtype) for name, dtype in dtypes.items()}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: dict[str, Column]) -> None:
        """Add rows; one array of the same length for each column."""
        count = len(next(iter(rows.values())))
        need = self._length + count
        for name, values in rows.items():
            array = self._arrays[name]
            if need > len(array):
                grown = np.empty(max(need, 2 * len(array)), array.dtype)
                grown[: self._length] = array[: self._length]
                self._arrays[name] = array = grown
            array[self._length : need] = values
        self._length = need

    def frozen(self) -> "Columns":
        """The rows so far, at no cost: rows are only ever added behind them."""
        frozen = copy.copy(self)
        frozen._arrays = dict(self._arrays)
        return frozen

    def __getitem__(self, name: str) -> Column:
        view = self._arrays[name][: self._length]
        view.flags.writeable = False
        return view


class StepHistory:
    """The steps of a run: what STEP_DTYPE holds."""

    def __init__(self) -> None:
        names = STEP_DTYPE.names or ()
        self._columns = Columns({name: STEP_DTYPE[name] for name in names} | {"accuracy": "<f4"})
        self._nonfinite: dict[str, tuple[int, ...]] = {"loss": (), "gradient_norm": ()}
        self.largest_loss = 0.0  # of those that are finite; kept, since a page asks for it at each refresh

    def __len__(self) -> int:
        return len(self._columns)

    def append(self, rows: npt.NDArray[np.void]) -> None:
        """Add rows of STEP_DTYPE."""
        if not len(rows):
            return
        for name, known in self._nonfinite.items():
            bad = np.flatnonzero(~np.isfinite(rows[name])) + len(self)
            self._nonfinite[name] = (known + tuple(bad.tolist()))[:MAX_BUCKETS]
        loss = rows["loss"]
        self.largest_loss = float(np.max(loss, where=np.isfinite(loss), initial=self.largest_loss))
        columns = {name: rows[name] for name in STEP_DTYPE.names or ()}
        self._columns.append(columns | {"accuracy": rows["correct"] / np.maximum(rows["images"], 1)})

    def frozen(self) -> "StepHistory":
        """The rows so far, frozen: later ones do not appear in it."""
        frozen = copy.copy(self)
        frozen._columns = self._columns.frozen()
        frozen._nonfinite = dict(self._nonfinite)
        return frozen

    def nonfinite_rows(self, name: str) -> tuple[int, ...]:
        """Rows of "loss" or "gradient_norm" that are NaN or infinite: the first few hundred, which is all a chart needs."""
        return self._nonfinite[name]

    def column(self, name: str) -> Column:
        """All values so far of one column of STEP_DTYPE, or of "accuracy" (of the batch, in [0, 1])."""
        return self._columns[name]

    def smoothed(self, name: str, rows: npt.NDArray[np.int64], window: int) -> Floats:
        """Mean of "loss" or "accuracy" over the `window` steps that end at each given row, weighted by samples.

        Non-finite losses are left out; NaN where none is left. Each window is added up by itself: after one loss of 1e20 a
        difference of running sums would be 0 for the rest of the run.
        """
        values, images = self._columns["loss" if name == "loss" else "correct"], self._columns["images"]
        result = np.full(len(rows), np.nan)
        step = max(1, _MOST_AT_ONCE // window)
        for start in range(0, len(rows), step):
            places = rows[start : start + step, None] - np.arange(window)
            inside = places >= 0
            places = np.where(inside, places, 0)
            part = values[places].astype(np.float64)
            weights = np.where(inside & np.isfinite(part), images[places], 0).astype(np.float64)
            counted = np.where(weights > 0, part, 0)
            shares = counted * weights if name == "loss" else counted
            total = weights.sum(1)
            np.divide(shares.sum(1), total, out=result[start : start + step], where=total > 0)
        return result


class ReportHistory:
    """The reports of a run (time, waiting, memory), as REPORT_DTYPE names them."""

    def __init__(self) -> None:
        self._columns = Columns({name: REPORT_DTYPE[name] for name in REPORT_DTYPE.names or ()})

    def __len__(self) -> int:
        return len(self._columns)

    def append(self, rows: npt.NDArray[np.void]) -> None:
        """Add rows of REPORT_DTYPE."""
        if len(rows):
            self._columns.append({name: rows[name] for name in REPORT_DTYPE.names or ()})

    def frozen(self) -> "ReportHistory":
        """The rows so far, frozen: later ones do not appear in it."""
        frozen = copy.copy(self)
        frozen._columns = self._columns.frozen()
        return frozen

    def column(self, name: str) -> Column:
        """All values so far of one column."""
        return self._columns[name]
