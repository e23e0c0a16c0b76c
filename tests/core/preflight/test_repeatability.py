import dataclasses
import json
import subprocess
import sys

import psutil
import pytest
import torch

import core.preflight.repeatability
from core.__main__ import main
from core.errors import RunError
from core.preflight.repeatability import Proof, prove, prove_apart, words_of
from core.status import Progress
from tests.helpers.trainings import CONFIGS, SAMPLE, SMALL


def proof(steps) -> Proof:
    (found,) = [one for one in steps if isinstance(one, Proof)]
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_every_kind_of_run_resumes(name, tmp_path):
    found = proof(prove("resume", CONFIGS[name], tmp_path, steps=16))
    assert found.holds, words_of(found)
    assert (found.steps, found.cut) == (min(16, CONFIGS[name].total_steps()), min(16, CONFIGS[name].total_steps()) // 2)
    assert found.tensors > 10


def test_a_run_repeats_and_another_seed_has_another_digest(tmp_path):
    found = proof(prove("repeat", SMALL, tmp_path, steps=12))
    assert found.holds
    assert "It holds: 12 steps trained twice" in words_of(found)
    other = proof(prove("repeat", dataclasses.replace(SMALL, seed=5), tmp_path, steps=12))
    assert other.digest != found.digest


def test_the_first_step_and_tensor_that_differ_are_named(tmp_path, monkeypatch):
    """A training that takes something from outside of its own seed: the same in no two trainings."""
    real, calls = core.preflight.repeatability.new_state, []

    def drifting(config, **options):
        state = real(config, **options)
        calls.append(state)

        def disturb(module, inputs):
            if len(calls) > 1 and state.step == 4:
                with torch.no_grad():
                    module.bias += 1e-7

        state.model.output.register_forward_pre_hook(disturb)
        return state

    monkeypatch.setattr(core.preflight.repeatability, "new_state", drifting)
    found = proof(prove("repeat", dataclasses.replace(SMALL, threads=None), tmp_path, steps=12))
    assert not found.holds
    assert found.first_step == 5
    assert found.name.startswith("model.")
    assert "Set CPU threads to a number" in words_of(found)


def test_a_forgotten_part_of_the_state_is_found(tmp_path, monkeypatch):
    real = core.preflight.repeatability.restored

    def forgetful(saved):
        state = real(saved)
        for values in state.optimizer.state.values():
            values["exp_avg"].zero_()
        return state

    monkeypatch.setattr(core.preflight.repeatability, "restored", forgetful)
    found = proof(prove("resume", SMALL, tmp_path, steps=10))
    assert (found.first_step, found.cut) == (6, 5)
    assert "report it" in found.advice


def test_it_runs_in_a_process_of_its_own_and_can_be_stopped(tmp_path):
    quick = dataclasses.replace(SAMPLE, model="mlp")
    events = list(prove_apart("resume", quick, tmp_path))
    assert proof(events).holds
    assert sum(isinstance(one, Progress) for one in events) > 20
    steps = prove_apart("repeat", dataclasses.replace(quick, epochs=500), tmp_path)
    next(one for one in steps if isinstance(one, Progress) and one.done > 0)
    steps.close()
    with pytest.raises(RunError, match="MNIST"):
        list(prove_apart("repeat", dataclasses.replace(SAMPLE, dataset="mnist"), tmp_path / "nothing"))


def test_its_process_ends_when_its_server_is_killed(tmp_path):
    config = dataclasses.replace(SAMPLE, model="mlp", epochs=500)
    lines = (
        "from pathlib import Path; from core.config.train_config import TrainConfig; "
        "from core.preflight.repeatability import prove_apart\n"
        f"for one in prove_apart('repeat', TrainConfig.from_json({config.to_json()!r}), Path({str(tmp_path)!r})):\n"
        "    print(getattr(one, 'done', 0), flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        next(line for line in server.stdout if int(line) > 0)
        children = psutil.Process(server.pid).children(recursive=True)
        server.kill()
        assert children
        assert not psutil.wait_procs(children, timeout=30)[1]


def test_the_command_line_says_it_in_a_sentence_or_as_json(capsys, tmp_path):
    words = [
        "--set",
        "dataset=mnist_sample",
        "--set",
        "train_size=640",
        "--set",
        "model=mlp",
        "--steps",
        "6",
        "--data",
        str(tmp_path),
    ]
    assert main(["prove", "repeat", *words]) == 0
    assert "It holds: 6 steps" in capsys.readouterr().out
    assert main(["prove", "resume", *words, "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["proof"]["first_step"] == 0
    assert main(["prove", "repeat", "--set", "epochs=0"]) == 2
