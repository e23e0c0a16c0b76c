import dataclasses
import sys

import pytest
import torch

from core import preflight
from core.config import TrainConfig
from core.errors import DeviceError
from core.hardware import choose_device, choose_precision, choose_threads, is_out_of_memory, numerics, read_memory
from core.preflight import Verdict, as_text, check, matrix_product, measure_rate


def test_the_check_finds_what_is_installed():
    lines = {line.name: line for line in check()}
    assert lines["torch"].found == torch.__version__
    assert lines["streamlit"].verdict == Verdict.OK
    assert "GFLOP/s" in lines["Matrix product on cpu"].found
    text = as_text(list(lines.values()))
    assert all(name in text for name in lines)
    for line in lines.values():
        assert line.verdict == Verdict.OK or line.advice


def test_the_matrix_product_is_right_on_the_cpu():
    error, rate = matrix_product("cpu")
    assert error < 1e-5
    assert rate > 1e8


def test_a_wrong_product_is_noticed(monkeypatch):
    monkeypatch.setattr(preflight, "matrix_product", lambda name: (0.5, 1e9))
    line = preflight._matrix_line("cpu")
    assert line.verdict == Verdict.FAIL
    assert "wrong" in line.advice


def test_a_missing_package_is_told(monkeypatch):
    line = preflight._package_line("no-such-package-anywhere")
    assert line.verdict == Verdict.FAIL
    assert "pip install" in line.advice


def test_a_driver_that_is_too_old_is_told(monkeypatch):
    monkeypatch.setattr(preflight, "_driver_version", lambda: "450.51")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    line = list(preflight._gpu_lines())[-1]
    assert line.verdict == Verdict.FAIL
    assert "450.51" in line.found
    assert "newer driver" in line.advice
    monkeypatch.setattr(torch.version, "cuda", None)
    line = list(preflight._gpu_lines())[-1]
    assert "CPU-only build" in line.found
    assert line.verdict == Verdict.FAIL


@pytest.mark.parametrize(
    ("capability", "built_for", "supported"),
    [((7, 5), ["sm_75"], True), ((8, 6), ["sm_80"], True), ((8, 0), ["sm_86"], False), ((9, 0), ["sm_80"], False),
     ((12, 0), ["sm_80", "compute_90"], True), ((6, 1), ["sm_75", "compute_75"], False)],
)  # fmt: skip
def test_which_gpus_a_build_supports(capability, built_for, supported):
    assert preflight._is_supported(*capability, built_for) is supported


def test_the_trial_measures_and_leaves_no_trace():
    config = TrainConfig(model="mlp", threads=1, device="cpu")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert measure_rate(config) > 100
    assert torch.equal(torch.rand(3), expected)
    assert measure_rate(dataclasses.replace(config, model="simple_cnn")) > 10


def test_devices_that_are_not_here_are_refused_in_words():
    assert choose_device("cpu").type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="Environment page"):
            choose_device("cuda")
    if sys.platform != "darwin":
        with pytest.raises(DeviceError, match="Apple"):
            choose_device("mps")
    with pytest.raises(DeviceError, match="CUDA"):
        choose_precision("float16", torch.device("cpu"))
    assert choose_precision("float32", torch.device("cpu")) == "float32"


def test_a_core_is_left_to_the_pages(monkeypatch):
    monkeypatch.setattr("core.hardware.usable_cores", lambda: 4)
    assert choose_threads(None, shared=True) == 3
    assert choose_threads(None, shared=False) == 4
    assert choose_threads(7, shared=True) == 7
    monkeypatch.setattr("core.hardware.usable_cores", lambda: 1)
    assert choose_threads(None, shared=True) == 1


def test_numerics_are_put_back():
    before = torch.get_num_threads()
    with numerics(1, deterministic=True):
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_out_of_memory_is_recognised_on_the_cpu():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def test_memory_readings_are_plausible():
    row = read_memory(torch.device("cpu"), 3, 1.5)[0]
    assert row["step"] == 3
    assert 50e6 < row["resident"] < 1e12
