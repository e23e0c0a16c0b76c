import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.events import STEP_DTYPE
from core.runs.history import StepHistory
from core.runs.thinning import bucket_size, thin


def rows_of(losses, images=64, correct=32):
    rows = np.zeros(len(losses), STEP_DTYPE)
    rows["step"] = np.arange(1, len(losses) + 1)
    rows["loss"], rows["images"], rows["correct"] = losses, images, correct
    return rows


@given(hnp.arrays(np.float32, st.integers(1, 3000), elements=st.floats(-1e6, 1e6, width=32)), st.integers(2, 50))
def test_thinning_keeps_every_buckets_extremes_within_its_budget(values, buckets):
    thinned = thin(values, buckets=buckets)
    assert len(thinned.rows) <= 2 * buckets
    assert (np.diff(thinned.rows) >= 0).all()
    assert values[thinned.rows].max() == values.max()
    assert values[thinned.rows].min() == values.min()
    for start in range(0, len(values), thinned.bucket):
        part = values[start : start + thinned.bucket]
        chosen = values[[row for row in thinned.rows if start <= row < start + thinned.bucket]]
        assert (chosen.min(), chosen.max()) == (part.min(), part.max())


@given(st.integers(1, 5000), st.integers(0, 400), st.integers(1, 40))
def test_later_buckets_continue_earlier_ones(count, first, buckets):
    values = np.random.default_rng(count).standard_normal(count)
    whole, part = thin(values, buckets=buckets), thin(values, first, buckets=buckets)
    skipped = first * (2 if whole.bucket > 1 else 1)
    assert part.rows.tolist() == whole.rows[skipped:].tolist()


def test_spikes_and_nan_survive_a_million_steps():
    losses = np.full(1_000_000, 0.5, np.float32)
    losses[123_456], losses[777_777] = 99.0, np.nan
    history = StepHistory()
    for part in np.array_split(rows_of(losses), 7):
        history.append(part)
    thinned = thin(history.column("loss"))
    assert 123_456 in thinned.rows
    assert np.isfinite(history.column("loss")[thinned.rows]).all()
    assert history.nonfinite_rows("loss") == (777_777,)
    assert len(thinned.rows) <= 640


def test_bucket_sizes_are_powers_of_two():
    assert [bucket_size(count, 320) for count in (0, 1, 320, 321, 640, 641)] == [1, 1, 1, 2, 2, 4]


@given(st.lists(st.floats(0, 10, width=32) | st.just(float("nan")), min_size=1, max_size=80), st.integers(1, 30))
def test_smoothing_is_the_sample_weighted_mean_of_the_window(losses, window):
    images = np.random.default_rng(len(losses)).integers(1, 65, len(losses))
    rows = rows_of(np.array(losses, np.float32), images=images)
    history = StepHistory()
    for part in np.array_split(rows, 3):
        history.append(part)
    places = np.arange(len(losses))
    smoothed = history.smoothed("loss", places, window)
    for place in places:
        part = rows[max(0, place + 1 - window) : place + 1]
        part = part[np.isfinite(part["loss"])]
        if len(part):
            expected = np.average(part["loss"].astype(float), weights=part["images"])
            assert smoothed[place] == pytest.approx(expected, abs=1e-5)
        else:
            assert np.isnan(smoothed[place])


def test_a_snapshot_does_not_change_while_the_history_grows():
    history = StepHistory()
    history.append(rows_of(np.arange(1000, dtype=np.float32)))
    snapshot = history.frozen()
    view = snapshot.column("loss")
    for _ in range(5):
        history.append(rows_of(np.full(1000, -1, np.float32)))
    assert len(snapshot) == 1000
    assert view.tolist() == list(range(1000))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5


losses_with_explosions = hnp.arrays(
    np.float32,
    st.integers(1, 300),
    elements=st.one_of(st.floats(0, 10, width=32), st.sampled_from([1e20, 3e38, np.inf, -np.inf, np.nan])),
)


@given(losses_with_explosions, st.integers(1, 60))
def test_the_smoothed_line_is_the_plain_mean_of_each_window_whatever_came_before(values, window):
    history, images = StepHistory(), np.arange(1, len(values) + 1)
    history.append(rows_of(values, images))
    found = history.smoothed("loss", np.arange(len(values)), window)
    for row in range(len(values)):
        part = slice(max(0, row - window + 1), row + 1)
        finite = np.isfinite(values[part])
        if not finite.any():
            assert np.isnan(found[row])
            continue
        expected = np.average(values[part][finite].astype(np.float64), weights=images[part][finite])
        assert found[row] == pytest.approx(expected, rel=1e-12)


def test_the_line_comes_down_again_after_one_explosion():
    values = np.full(400, 0.5, np.float32)
    values[100] = 1e20
    history = StepHistory()
    history.append(rows_of(values))
    assert history.smoothed("loss", np.array([399]), 50)[0] == 0.5
