import json

import pytest

from core.__main__ import main
from core.commands.given import config_from
from core.config.train_config import TrainConfig
from core.errors import ConfigError
from core.runs.info import list_runs
from core.runs.reader import RunReader

QUICK = ["--set", "dataset=mnist_sample", "--set", "train_size=320", "--set", "validation_size=100", "--set", "threads=1"]


def test_train_prints_json_lines_that_end_in_the_result(runs, capsys):
    assert main(["train", *QUICK, "--set", "epochs=2", "--runs", str(runs), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    result = lines[-1]
    assert {"run_id", "status", "test_accuracy", "train_images_per_second", "train_seconds", "steps"} <= set(result)
    assert result["status"] == "finished"
    assert result["steps"] == 10
    assert 0 < result["test_accuracy"] <= 1
    assert result["train_images_per_second"] > 0
    run = list_runs(runs)[0]
    assert run.run_id == result["run_id"]
    assert run.test_accuracy == result["test_accuracy"]


def test_a_run_for_people_ends_in_a_sentence(runs, capsys):
    assert main(["train", *QUICK, "--set", "epochs=1", "--runs", str(runs)]) == 0
    shown = capsys.readouterr()
    assert "test accuracy" in shown.out
    assert "validation loss" in shown.err


def test_unusable_settings_are_all_told_and_end_in_2(runs, capsys):
    assert main(["train", "--set", "epochs=0", "--set", "seed=-1", "--runs", str(runs)]) == 2
    told = capsys.readouterr().err
    assert "epochs" in told
    assert "seed" in told
    assert not runs.exists()


def test_a_failed_run_ends_in_1_with_its_reason(runs, capsys):
    arguments = ["train", *QUICK, "--set", "learning_rate=1e6", "--set", "optimizer=sgd", "--runs", str(runs), "--json"]
    assert main(arguments) == 1
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["status"] == "failed"
    assert "learning rate" in result["reason"]


def test_presets_and_changes_make_a_configuration():
    assert config_from("tutorial", []) == TrainConfig()
    assert config_from("tutorial", ["learning_rate=1e-5", "gradient_clip=1"]) == TrainConfig(
        learning_rate=1e-5, gradient_clip=1.0
    )
    for preset, assignments in (("best", []), ("tutorial", ["epochs"]), ("tutorial", ["lr=1"])):
        with pytest.raises(ConfigError):
            config_from(preset, assignments)


def test_check_looks_at_this_machine(capsys):
    assert main(["check"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "torch" in shown
    assert "Matrix product on cpu" in shown


def test_a_fork_from_the_command_line(runs, capsys):
    small = ["dataset=mnist_sample", "train_size=640", "epochs=1", "threads=1", "device=cpu", "schedule=cosine"]
    data = ["--data", str(runs), "--runs", str(runs), "--json"]
    assert main(["train", *data, *(part for one in small for part in ("--set", one))]) == 0
    parent = json.loads(capsys.readouterr().out.splitlines()[-1])
    command = ["train", *data, "--fork", f"{parent['run_id']}@10"]
    assert main([*command, "--set", "epochs=2", "--schedule-then", "restart"]) == 0
    child = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (child["status"], child["steps"]) == ("finished", 20)
    snapshot = RunReader(runs / child["run_id"]).read()
    assert (snapshot.info.parent, snapshot.config.schedule_start) == (parent["run_id"], 10)
    assert main([*command[:-1], f"{parent['run_id']}@7"]) == 2
    assert "keeps no state of step '7'; it keeps 0, 10" in capsys.readouterr().err
    assert main(command) == 1
    assert "nothing is left" in capsys.readouterr().err
    assert main([*command, "--set", "model=mlp"]) == 2
    assert "a fork keeps its parent's, simple_cnn" in capsys.readouterr().err
