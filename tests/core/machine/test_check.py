import ast
import dataclasses
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

import core.machine.check
from core.config.train_config import TrainConfig
from core.errors import DeviceError
from core.finding import Verdict
from core.machine import gpu_check, hardware, installation
from core.machine import memory as memory_module
from core.machine.check import as_text, check
from core.machine.gpu_check import matrix_product
from core.machine.hardware import (
    GpuLoad,
    choose_device,
    choose_precision,
    choose_threads,
    gpu_load,
    numerics,
    usable_cores,
)
from core.machine.memory import is_out_of_memory
from core.preflight.speed import measure_rate
from core.training.reporting import read_memory


def test_the_check_finds_what_is_installed():
    lines = {line.name: line for line in check()}
    assert lines["torch build"].evidence.startswith(torch.__version__)
    assert lines["streamlit"].verdict == Verdict.OK
    assert "GFLOP/s" in lines["Matrix product on cpu"].evidence
    text = as_text(list(lines.values()))
    assert all(name in text for name in lines)
    for line in lines.values():
        assert line.verdict == Verdict.OK or line.advice


def test_the_matrix_product_is_right_on_the_cpu():
    error, rate = matrix_product("cpu")
    assert error < 1e-5
    assert rate > 1e8


def test_a_wrong_product_is_noticed(monkeypatch):
    monkeypatch.setattr(gpu_check, "matrix_product", lambda name: (0.5, 1e9))
    line = next(gpu_check.compute_lines("cpu"))
    assert line.verdict == Verdict.FAIL
    assert "wrong" in line.advice


def test_a_missing_package_is_told(monkeypatch):
    line = installation.package_line("no-such-package-anywhere", "1.0")
    assert line.verdict == Verdict.FAIL
    assert "pip install" in line.advice


def test_a_driver_that_is_too_old_is_told(monkeypatch):
    monkeypatch.setattr(gpu_check, "driver_version", lambda: "450.51")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    line = list(gpu_check.gpu_lines())[-1]
    assert line.verdict == Verdict.FAIL
    assert "450.51" in line.evidence
    assert "newer driver" in line.advice
    monkeypatch.setattr(torch.version, "cuda", None)
    line = list(gpu_check.gpu_lines())[-1]
    assert "CPU-only build" in line.evidence
    assert line.verdict == Verdict.FAIL


@pytest.mark.parametrize(
    ("capability", "built_for", "supported"),
    [
        ((7, 5), ["sm_75"], True),
        ((8, 6), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),
        ((12, 0), ["sm_80", "compute_90"], True),
        ((6, 1), ["sm_75", "compute_75"], False),
    ],
)
def test_which_gpus_a_build_supports(capability, built_for, supported):
    assert gpu_check.is_supported(*capability, built_for) is supported


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
        with pytest.raises(DeviceError, match="core check"):
            choose_device("cuda")
    if sys.platform != "darwin":
        with pytest.raises(DeviceError, match="Apple"):
            choose_device("mps")
    with pytest.raises(DeviceError, match="CUDA"):
        choose_precision("float16", torch.device("cpu"))
    assert choose_precision("float32", torch.device("cpu")) == "float32"


def test_a_core_is_left_to_the_pages(monkeypatch):
    monkeypatch.setattr("core.machine.hardware.usable_cores", lambda: 4)
    assert choose_threads(None, beside_pages=True) == 3
    assert choose_threads(None, beside_pages=False) == 4
    assert choose_threads(7, beside_pages=True) == 7
    monkeypatch.setattr("core.machine.hardware.usable_cores", lambda: 1)
    assert choose_threads(None, beside_pages=True) == 1


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


def test_versions_are_held_against_the_tested_ones_and_conflicts_are_found(monkeypatch):
    assert installation.tested_versions()["torch"] == metadata.version("torch").partition("+")[0]
    assert installation.conflicts() == []
    assert installation.package_line("numpy", "0.1").verdict == Verdict.NOTE
    real = metadata.version
    monkeypatch.setattr(installation.metadata, "version", lambda name: "2.0.0" if name == "torch" else real(name))
    (line,) = [line for line in installation.package_lines() if line.name == "Conflicts"]
    assert line.verdict == Verdict.FAIL
    assert "torchvision needs torch" in line.evidence


@pytest.mark.parametrize(
    ("release", "word", "verdict"),
    [("4.4.0-19041-Microsoft", "WSL 1", Verdict.NOTE), ("5.15.90.1-microsoft-standard-WSL2", "WSL 2", Verdict.OK)],
)
def test_the_two_kinds_of_wsl_are_told_apart(monkeypatch, release, word, verdict):
    monkeypatch.setattr(installation.platform, "release", lambda: release)
    line = installation.system_line()
    assert word in line.evidence
    assert line.verdict == verdict


def test_an_old_c_library_and_conda_s_base_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(installation.platform, "libc_ver", lambda: ("glibc", "2.17"))
    assert "2.17" in installation.system_line().advice
    for folder in ("conda-meta", "envs"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(installation.sys, "prefix", str(tmp_path))
    assert installation.environment_line().verdict == Verdict.NOTE
    (tmp_path / "envs").rmdir()
    assert installation.environment_line().verdict == Verdict.OK
    (tmp_path / "conda-meta").rmdir()
    monkeypatch.setattr(installation.sys, "base_prefix", str(tmp_path))
    assert "system's own Python" in installation.environment_line().evidence


@pytest.mark.parametrize("system", ["Kylin Linux Advanced Server V10", "Ubuntu 22.04.5 LTS", "Debian GNU/Linux 12"])
def test_an_older_python_is_told_what_to_do(monkeypatch, system):
    monkeypatch.setattr(installation.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(installation, "_system", lambda: system)
    line = installation.python_line()
    assert line.verdict == Verdict.FAIL
    assert "conda create" in line.advice


@pytest.mark.parametrize("version", [(3, 9), (3, 10)])
def test_older_pythons_read_that_they_are_too_old(version):
    source = (Path(installation.__file__).parents[1] / "__init__.py").read_text()
    ast.parse(source, feature_version=version)
    code = f"import sys; sys.version_info = ({version[0]}, {version[1]}, 0, 'final', 0)\nimport core.machine.check"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Digit Lab needs Python 3.11")


class FakeGpu:
    name, major, minor, total_memory, uuid = "Fake", 9, 0, 16 * 2**30, "1-2"


@pytest.fixture
def fake_gpu(monkeypatch):
    """torch as it looks with one GPU that has half a GiB free."""
    monkeypatch.setattr(gpu_check, "driver_version", lambda: "580.65")
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_properties": lambda index: FakeGpu,
        "get_arch_list": lambda: ["sm_90"],
        "mem_get_info": lambda index: (2**29, 16 * 2**30),
        "memory_reserved": lambda index: 2**30,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


def test_a_gpu_with_little_free_memory_is_told(fake_gpu):
    line = list(gpu_check.gpu_lines())[-1]
    assert line.verdict == Verdict.NOTE
    assert line.evidence.startswith("0.5 of 16.0 GiB free")


def test_nvml_says_how_busy_a_gpu_is_and_what_others_hold(fake_gpu, monkeypatch):
    answers = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-1-2": "handle"}[uuid],
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=37),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=5 * 2**30),
    )
    monkeypatch.setitem(sys.modules, "pynvml", answers)
    assert gpu_load(0) == GpuLoad(0.37, 4 * 2**30)
    assert "37% busy, 4.0 GiB held by other programs" in list(gpu_check.gpu_lines())[-1].evidence
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_load(0) is None


def test_a_gpu_that_does_not_answer_is_a_finding(fake_gpu, monkeypatch):
    def raising(index):
        raise RuntimeError("GPU is lost")

    monkeypatch.setattr(torch.cuda, "get_device_properties", raising)
    assert "GPU is lost" in list(gpu_check.gpu_lines())[-1].evidence


def test_builds_for_amd_and_hygon_are_called_by_their_name(fake_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4", raising=False)
    assert "AMD" in next(gpu_check.gpu_lines()).evidence
    assert "Hygon" in gpu_check.amd_words("2.4.1+das.opt1.dtk2504")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "sees no such GPU" in list(gpu_check.gpu_lines())[-1].evidence


def test_too_little_memory_for_the_trial_is_no_broken_gpu(monkeypatch):
    def full(name):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gpu_check, "matrix_product", full)
    line = next(gpu_check.compute_lines("cpu"))
    assert line.verdict == Verdict.NOTE
    assert "too little memory" in line.evidence


@pytest.mark.parametrize("name", ["matrix_product", "convolution"])
def test_nan_from_a_device_is_a_failure(monkeypatch, name):
    monkeypatch.setattr(gpu_check, name, lambda device: (float("nan"), 1e9))
    assert any(line.verdict == Verdict.FAIL for line in gpu_check.compute_lines("cpu"))


def test_the_check_never_raises(monkeypatch):
    def broken():
        raise OSError("no such file")

    monkeypatch.setattr(core.machine.check, "system_line", broken)
    lines = list(check())
    assert lines[-1].verdict == Verdict.FAIL
    assert "no such file" in lines[-1].evidence


LIMITS = {
    "none": ({}, None, None),
    "v2": ({"a/cpu.max": "150000 100000", "memory.max": "1073741824"}, 1.5, 2**30),
    "the least counts": ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000", "cpu.max": "200000 100000"}, 0.5, None),
    "v1": (
        {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000", "memory/memory.limit_in_bytes": "1000000"},
        2.0,
        1_000_000,
    ),
    "v1 without": ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None, None),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_container_s_limits_count(monkeypatch, tmp_path, name):
    files, quota, memory = LIMITS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    own = tmp_path / "own"
    own.write_text("5:cpu:/a\n6:memory:/a\n" if name.startswith("v1") else "0::/a/b\n")
    groups = list(hardware.control_groups(tmp_path, own))
    for module in (hardware, memory_module):
        monkeypatch.setattr(module, "control_groups", lambda: iter(groups))
    assert hardware.cpu_quota() == quota
    assert memory_module.main_memory().total == (memory or psutil.virtual_memory().total)
    if quota is not None:
        assert usable_cores() == max(1, min(int(quota), usable_cores()))


def test_far_too_many_threads_are_refused(monkeypatch):
    monkeypatch.setattr("core.machine.hardware.usable_cores", lambda: 2)
    with pytest.raises(DeviceError, match="at most 8"):
        choose_threads(256, beside_pages=True)


OUT_OF_MEMORY = [
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
    "CUDA error: out of memory",
    "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory",
    "MPS backend out of memory (MPS ...",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
    "HIP out of memory. Tried",
    "unable to mmap: Cannot allocate memory (12)",
]


@pytest.mark.parametrize("words", OUT_OF_MEMORY)
def test_every_backend_s_out_of_memory_is_known(words):
    assert is_out_of_memory(RuntimeError(words))
    assert not is_out_of_memory(ValueError(words))
