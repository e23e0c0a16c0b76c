import os
import pickle
import random
import zipfile

import pytest
import torch

from core.errors import CheckpointError
from core.model.networks import build_model
from core.model.weights import copy_weights, load_weights, save_weights
from tests.helpers.trainings import SAMPLE


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "best.pt"
    weights = copy_weights(build_model(SAMPLE))
    save_weights(path, weights, SAMPLE, 7, 0.9)
    return path, weights


def test_weights_come_back_bit_for_bit_with_their_settings(saved):
    path, weights = saved
    content = load_weights(path)
    assert content["config"] == SAMPLE
    assert (content["step"], content["validation_accuracy"]) == (7, 0.9)
    assert all(torch.equal(weights[name], value) for name, value in content["weights"].items())
    build_model(SAMPLE).load_state_dict(content["weights"])
    assert [entry.name for entry in path.parent.iterdir()] == ["best.pt"]


def test_any_byte_of_the_weights_that_flips_is_noticed(saved):
    path, weights = saved
    whole = path.read_bytes()
    needle = weights["conv2.weight"].contiguous().numpy().tobytes()[:64]
    place = whole.index(needle)
    for offset in (0, 31, 63):
        damaged = bytearray(whole)
        damaged[place + offset] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="checksum"):
            load_weights(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", random.Random(0).randbytes(4096)])
def test_files_that_are_none_are_refused_in_words(tmp_path, content):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x\.pt is damaged"):
        load_weights(path)


def test_truncated_files_are_refused(saved):
    path, _ = saved
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(CheckpointError):
            load_weights(path)


def test_a_missing_file_and_another_format_are_told(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_weights(tmp_path / "none.pt")
    torch.save({"weights": {}}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="not a checkpoint of this dashboard"):
        load_weights(tmp_path / "other.pt")


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("trace-of-a-hostile-pickle",))


def test_a_hostile_pickle_is_refused_and_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.pt"
    torch.save({"format": "digit-lab-checkpoint", "weights": Bomb()}, path)
    with pytest.raises(CheckpointError):
        load_weights(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        load_weights(path)
    assert not (tmp_path / "trace-of-a-hostile-pickle").exists()


def test_the_file_is_readable_by_plain_torch(saved):
    path, _ = saved
    assert zipfile.is_zipfile(path)
    assert set(torch.load(path, weights_only=True)["weights"]) == set(build_model(SAMPLE).state_dict())
