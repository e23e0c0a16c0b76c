import contextlib
import io
import os
import pickle
import random
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from core.config.models import MODELS
from core.config.train_config import TrainConfig
from core.errors import CheckpointError
from core.model.networks import build_model
from core.model.predictor import Predictor
from core.model.weights import copy_weights, save_weights
from core.transfer.weights_in import MAX_FILE_BYTES, read_weights
from core.transfer.weights_out import FILE_NAMES, WeightFormat, formats_of, loading_lines, packed, plain_model

CONFIG = TrainConfig(model="lab_cnn", dropout=0.4, seed=3)


@pytest.fixture(scope="module")
def weights():
    return copy_weights(build_model(CONFIG))


def saved(value) -> bytes:
    target = io.BytesIO()
    torch.save(value, target)
    return target.getvalue()


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


WAYS = [(model, kind) for model in list(MODELS) for kind in formats_of(TrainConfig(model=model))]


@pytest.mark.parametrize(("model", "kind"), WAYS)
def test_the_lines_shown_load_the_file_in_a_plain_script(kind, model, tmp_path):
    config = TrainConfig(model=model, dropout=0.4, seed=3)
    weights = copy_weights(build_model(config))
    (tmp_path / FILE_NAMES[kind]).write_bytes(packed(kind, weights, config))
    (tmp_path / "script.py").write_text(loading_lines(kind, config))
    if (kind, model) != (WeightFormat.STATE_DICT, "lab_cnn"):  # one process for each would take minutes
        done = io.StringIO()
        code = compile((tmp_path / "script.py").read_text(), "script.py", "exec")
        before = os.getcwd()
        os.chdir(tmp_path)
        try:
            exec(code, {"print": lambda value: done.write(str(value))})
        finally:
            os.chdir(before)
        told = done.getvalue()
    else:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        answer = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        told = answer.stdout
    black = torch.full((1, 1, 28, 28), (0 - 0.1307) / 0.3081)
    (expected,) = Predictor(weights, config, 0).predict(black.numpy())
    assert str(torch.from_numpy(expected.probabilities)[None]).strip() == told.strip()


def test_a_whole_model_needs_no_class_of_this_project(weights):
    content = packed(WeightFormat.WHOLE_MODEL, weights, CONFIG)
    assert b"core" not in content
    assert all(type(module).__module__.startswith("torch.") for module in plain_model(CONFIG, weights).modules())


@pytest.mark.parametrize("kind", [WeightFormat.STATE_DICT, WeightFormat.SAFETENSORS])
def test_what_goes_out_comes_in_again(kind, weights):
    found = read_weights(packed(kind, weights, CONFIG), "mine")
    assert same(found.weights, weights)
    assert (found.config.model, found.notes) == ("lab_cnn", ())


def test_own_checkpoints_bring_their_settings(weights, tmp_path):
    save_weights(tmp_path / "best.pt", weights, CONFIG, 77, 0.9)
    found = read_weights((tmp_path / "best.pt").read_bytes(), "best.pt")
    assert (found.config, found.step) == (CONFIG, 77)
    assert same(found.weights, weights)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model_state_dict"])
def test_prefixes_and_wrappings_are_taken_off(prefix, wrapper, weights):
    named = {prefix + name: value for name, value in weights.items()}
    found = read_weights(saved({wrapper: named, "epoch": 3} if wrapper else named), "x.pt")
    assert same(found.weights, weights)
    assert "were taken off" in found.notes[0]


def test_a_prefix_in_the_middle_of_a_name_a_missing_counter_and_halves(weights):
    named = {name.replace("norm1.", "norm1._orig_mod."): value for name, value in weights.items()}
    assert same(read_weights(saved(named), "x.pt").weights, weights)
    few = {name: value for name, value in weights.items() if "num_batches" not in name}
    found = read_weights(saved(few), "x.pt")
    assert "norm1.num_batches_tracked, norm2.num_batches_tracked, norm3.num_batches_tracked missing" in found.notes[0]
    halves = {name: value.half() if value.is_floating_point() else value for name, value in weights.items()}
    assert read_weights(saved(halves), "x.pt").weights["conv1.weight"].dtype == torch.float32
    broken = {**weights, "norm2.running_mean": weights["norm2.running_mean"] * torch.nan}
    assert "norm2.running_mean is NaN or infinite in all 32 channels" in read_weights(saved(broken), "x.pt").notes[0]


def test_the_guides_own_network_is_taken_in_and_gives_the_same_answers():
    """Two convolutions with ReLU before pooling and one linear layer, as guides write it, under its own names."""

    class Guide(torch.nn.Module):
        def __init__(self, flatten):
            super().__init__()
            self.features = torch.nn.Sequential(
                torch.nn.Conv2d(1, 32, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
                torch.nn.Conv2d(32, 64, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
            )
            linear = torch.nn.Linear(64 * 7 * 7, 10)
            self.classifier = torch.nn.Sequential(torch.nn.Flatten(), linear) if flatten else linear

        def forward(self, x):
            return self.classifier(self.features(x).flatten(1))

    images = torch.randn(5, 1, 28, 28)
    for flatten in (False, True):
        torch.manual_seed(0)
        guide = Guide(flatten)
        found = read_weights(saved(guide.state_dict()), "model_weights.pth")
        assert found.config.model == "simple_cnn"
        assert any("conv2.weight is features.3.weight" in note and "shape and order" in note for note in found.notes)
        with torch.no_grad():
            expected = guide(images).numpy()
        answers = Predictor(found.weights, found.config, 0).predict(images.numpy())
        assert np.abs(np.stack([one.logits for one in answers]) - expected).max() < 1e-5
    # And out again under the guide's names.
    written = torch.load(io.BytesIO(packed(WeightFormat.TUTORIAL, found.weights, found.config)), weights_only=True)
    assert {f"features.{n}.{part}" for n in (0, 3) for part in ("weight", "bias")} <= set(written)
    Guide(False).load_state_dict(written)


def test_lightnings_prefix_and_any_other_before_all_names_are_taken_off(weights):
    for prefix in ("model", "net.model", "module.model"):
        wrapped = {"state_dict": {f"{prefix}.{name}": value for name, value in weights.items()}, "epoch": 3}
        found = read_weights(saved(wrapped), "x.ckpt")
        assert same(found.weights, weights)
        assert any("taken off" in note for note in found.notes)


@pytest.mark.parametrize("order", [1, -1])
def test_two_names_that_become_one_are_refused(weights, order):
    other = {f"module.{name}": value + 1 for name, value in weights.items() if name == "output.bias"}
    both = dict(list({**weights, **other}.items())[::order])
    with pytest.raises(CheckpointError, match=r"two tensors that would both be called 'output.bias'"):
        read_weights(saved(both), "x.pt")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.bool])
def test_whole_numbers_are_no_weights(weights, dtype):
    with pytest.raises(CheckpointError, match=f"holds {str(dtype).removeprefix('torch.')} where float32 belongs"):
        read_weights(saved({**weights, "output.bias": weights["output.bias"].to(dtype)}), "x.pt")


def test_other_number_formats_are_said(weights):
    halves = {**weights, "output.bias": weights["output.bias"].bfloat16()}
    assert "output.bias (bfloat16)" in read_weights(saved(halves), "x.pt").notes[0]


def test_a_step_beyond_all_counts_as_unknown(weights):
    for step in (2**60, -1, 1.5, True, torch.zeros(()), "7"):
        content = {"format": "digit-lab-checkpoint", "config": CONFIG.to_dict(), "step": step, "weights": weights}
        assert read_weights(saved(content), "x.pt").step == 0
    assert read_weights(saved({**content, "step": 7}), "x.pt").step == 7


def test_statistics_that_spoil_eval_mode_are_named_by_channel(weights):
    variance = weights["norm1.running_var"].clone()
    variance[3] = 0
    notes = read_weights(saved({**weights, "norm1.running_var": variance}), "x.pt").notes
    assert any("norm1.running_var is 0, or next to it, in channel 3" in note for note in notes)


def test_a_large_header_of_safetensors_is_refused_before_it_is_read(weights):
    name = "x" * 2**21
    content = safetensors.torch.save({name: torch.zeros(1)})
    with pytest.raises(CheckpointError, match="header of"):
        read_weights(content, "x.safetensors")


def test_another_architecture_is_named_key_by_key(weights):
    with pytest.raises(CheckpointError, match=r"fit none of the networks here.*fc1\.weight.*is not known"):
        read_weights(saved({"fc1.weight": torch.zeros(3, 3)}), "x.pt")
    wider = {**weights, "hidden.weight": torch.zeros(65, 1568)}
    with pytest.raises(CheckpointError, match=r"Closest is lab_cnn: hidden\.weight is \(65, 1568\) instead of \(64, 1568\)"):
        read_weights(saved(wider), "x.pt")


class Hostile:
    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_hostile_pickle_leaves_no_trace(tmp_path, legacy):
    trap = Hostile()
    trap.path = tmp_path / "trace"
    target = io.BytesIO()
    torch.save({"weights": trap}, target, _use_new_zipfile_serialization=not legacy)
    for content in (target.getvalue(), pickle.dumps(trap), pickle.dumps(trap, 0)):
        with pytest.raises(CheckpointError):
            read_weights(content, "x.pt")
    assert not trap.path.exists()


def test_a_whole_model_is_refused_unless_it_is_allowed(weights):
    content = packed(WeightFormat.WHOLE_MODEL, weights, CONFIG)
    with pytest.raises(CheckpointError, match="DIGIT_LAB_ALLOW_PICKLE=1"):
        read_weights(content, "model.pt")
    assert same(read_weights(content, "model.pt", allow_pickle=True).weights, weights)


@pytest.mark.parametrize("kind", [WeightFormat.STATE_DICT, WeightFormat.SAFETENSORS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_one_message_or_the_very_same_weights(kind, weights, data):
    whole = packed(kind, weights, CONFIG)
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        content = whole[:place]
    else:
        content = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    found = None
    with contextlib.suppress(CheckpointError):
        found = read_weights(content, "x.pt")
    # A byte that carries nothing, such as padding or a date, may differ.
    assert found is None or same(found.weights, weights)


NOISE = random.Random(0).randbytes(5000)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x80\x02.", b"PK\x03\x04", NOISE, b"{}", b"\x00" * 400])
def test_what_is_no_file_with_weights_is_refused(content):
    with pytest.raises(CheckpointError, match="notes"):
        read_weights(content, "notes")


def test_sizes_are_limited_before_anything_is_unpacked():
    with pytest.raises(CheckpointError, match="at most"):
        read_weights(bytes(MAX_FILE_BYTES + 1), "x.pt")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(300 * 2**20))
    assert len(bomb.getvalue()) < 2**20
    with pytest.raises(CheckpointError, match="unpacks to"):
        read_weights(bomb.getvalue(), "x.pt")
    with pytest.raises(CheckpointError, match="holds no dictionary of weights"):
        read_weights(saved([1, 2]), "x.pt")


def test_safetensors_of_others_without_our_digest_are_read(weights):
    found = read_weights(safetensors.torch.save(weights), "x.safetensors")
    assert same(found.weights, weights)
    assert isinstance(build_model(found.config), nn.Module)
