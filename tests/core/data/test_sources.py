import gzip
import shutil
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.train_config import TrainConfig
from core.data import sources
from core.data.sources import TEST_LABELS, load_mnist, load_sample, load_splits, missing_files, stratified
from core.errors import DataError
from tests.helpers.mnist_files import small_files


@given(st.lists(st.integers(0, 9), min_size=1, max_size=300), st.data(), st.integers(0, 5))
def test_a_stratified_choice_takes_each_class_in_its_share(labels, draw, seed):
    array = np.array(labels, np.int64)
    size = draw.draw(st.integers(0, len(array)))
    chosen, rest = stratified(array, size, seed)
    assert len(chosen) == size
    assert sorted([*chosen, *rest]) == list(range(len(array)))
    for label, count in Counter(labels).items():
        assert abs((array[chosen] == label).sum() - count * size / len(array)) < 1
    assert (stratified(array, size, seed)[0] == chosen).all()


def test_the_sample_is_5000_real_digits_in_equal_shares(tmp_path):
    splits = load_splits(TrainConfig(dataset="mnist_sample"), tmp_path)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [4000, 500, 500]
    for part, share in ((splits.train, 400), (splits.validation, 50), (splits.test, 50)):
        assert np.bincount(part.labels).tolist() == [share] * 10
        assert part.images.dtype == np.uint8
        assert part.images.shape[1:] == (1, 28, 28)
        assert part.images.max() == 255
    everything = np.concatenate([part.images.reshape(len(part), -1) for part in (splits.train, splits.validation, splits.test)])
    assert len(np.unique(everything, axis=0)) == len(
        np.unique(np.concatenate([d.images.reshape(len(d), -1) for d in load_sample()]), axis=0)
    )


def test_the_validation_digits_do_not_depend_on_seed_or_training_size(tmp_path):
    first = load_splits(TrainConfig(dataset="mnist_sample", seed=1), tmp_path)
    second = load_splits(TrainConfig(dataset="mnist_sample", seed=2, train_size=100), tmp_path)
    assert (first.validation.images == second.validation.images).all()
    assert np.bincount(second.train.labels).tolist() == [10] * 10


def test_real_mnist_is_read_from_a_read_only_folder(mnist_root):
    train, test = load_mnist(mnist_root)
    assert train.images.shape == (60_000, 1, 28, 28)
    assert test.images.shape == (10_000, 1, 28, 28)
    assert np.bincount(train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    splits = load_splits(TrainConfig(), mnist_root)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [55_000, 5_000, 10_000]


@pytest.fixture
def small(tmp_path, monkeypatch):
    contents, files = small_files()
    monkeypatch.setattr(sources, "MNIST_FILES", files)
    monkeypatch.setattr(sources, "TRAIN_IMAGES", files[0])
    sources._read_mnist.cache_clear()
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, body in contents.items():
        (folder / name).write_bytes(body)
    yield tmp_path, contents
    sources._read_mnist.cache_clear()


def test_unpacked_and_packed_files_are_read_alike(small):
    root, contents = small
    plain = load_mnist(root)
    for name, body in contents.items():
        (root / "MNIST" / "raw" / name).unlink()
        (root / "MNIST" / "raw" / f"{name}.gz").write_bytes(gzip.compress(body))
    packed = load_mnist(root)
    assert (plain[0].images == packed[0].images).all()
    assert (plain[1].labels == packed[1].labels).all()


DAMAGE = {
    "empty": (lambda body: b"", "empty"),
    "truncated": (lambda body: body[:-7], "truncated"),
    "too long": (lambda body: body + b"x", "too long"),
    "still packed": (lambda body: gzip.compress(body), "gzip"),
    "all zero": (lambda body: bytes(len(body)), "zeros"),
    "zero after the header": (lambda body: body[:8] + bytes(len(body) - 8), "zeros"),
    "a web page": (lambda body: b"<html>login</html>", "web page"),
    "label 17": (lambda body: body[:-1] + bytes([17]), "label 17"),
    "one byte altered": (lambda body: body[:-1] + bytes([body[-1] ^ 1]), "checksum"),
    "another header": (lambda body: b"\0\0\0\1" + body[4:], "begin"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_damage_is_named_with_its_file_and_what_to_do(small, kind):
    root, contents = small
    damage, word = DAMAGE[kind]
    (root / "MNIST" / "raw" / TEST_LABELS.name).write_bytes(damage(contents[TEST_LABELS.name]))
    with pytest.raises(DataError) as caught:
        load_mnist(root)
    assert TEST_LABELS.name in str(caught.value)
    assert word in str(caught.value)
    assert "download" in str(caught.value)
    assert caught.value.files == (TEST_LABELS.name,)
    assert list(sources.damaged_files(root)) == [TEST_LABELS.name]


def test_swapped_files_are_recognised(small):
    root, contents = small
    names = list(contents)
    for name, other in ((names[0], names[2]), (names[2], names[0])):
        (root / "MNIST" / "raw" / name).write_bytes(contents[other])
    with pytest.raises(DataError, match="swapped"):
        load_mnist(root)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b garbage", gzip.compress(b"x" * 9000, mtime=0)[:-20]])
def test_damaged_packed_files_are_named(small, content):
    root, _ = small
    path = root / "MNIST" / "raw" / TEST_LABELS.name
    path.unlink()
    path.with_name(f"{path.name}.gz").write_bytes(content)
    with pytest.raises(DataError, match=TEST_LABELS.name) as caught:
        load_mnist(root)
    assert len(str(caught.value)) > 60


def test_missing_files_are_named_and_a_replaced_file_is_read_anew(small):
    root, contents = small
    path = root / "MNIST" / "raw" / TEST_LABELS.name
    path.unlink()
    assert missing_files(root) == [TEST_LABELS.name]
    with pytest.raises(DataError, match="DIGIT_LAB_DATA"):
        load_mnist(root)
    path.write_bytes(contents[TEST_LABELS.name])
    assert len(load_mnist(root)[1]) == 20
    shutil.rmtree(root / "MNIST")
    assert len(missing_files(root)) == 4
