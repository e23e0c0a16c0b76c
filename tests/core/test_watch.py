"""A run in the terminal."""

import dataclasses
import io
import subprocess
import sys

import pytest
from rich.console import Console

from core.__main__ import main
from core.commands.watch import screen
from core.runs.info import RunInfo
from core.status import RunStatus
from tests.helpers.recordings import made, snapshot_of, validated


def drawn(view, width=120, height=30) -> str:
    console = Console(width=width, force_terminal=False, record=True, file=io.StringIO())
    console.print(screen(view, width, height))
    return console.export_text()


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("count", [0, 1, 2, 500])
@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_state_is_shown_at_every_width(status, count, width):
    view = snapshot_of(count)
    view = dataclasses.replace(view, info=dataclasses.replace(view.info, status=status, reason="For a reason."))
    text = drawn(view, width)
    assert str(status) in text
    assert f"{count:,} of {view.total_steps:,}".split()[0] in text
    assert max(map(len, text.splitlines())) <= width


def test_numbers_curves_and_verdict_stand_in_it():
    text = drawn(snapshot_of(500))
    assert "95.00%" in text
    assert "0.2000" in text
    assert "Loss" in text
    assert "Accuracy" in text
    assert any("\u2800" < character <= "\u28ff" for character in text), "no curve"
    assert "Test accuracy" in text


def test_losses_that_are_no_numbers_are_no_curve_and_no_crash():
    view = dataclasses.replace(snapshot_of(50, [float("nan")] * 50), validations=(validated(10, loss=float("nan")),))
    assert "nan" in drawn(view).lower()


def test_a_runs_own_words_are_not_read_as_markup():
    view = dataclasses.replace(snapshot_of(3), info=RunInfo("a-run", RunStatus.FAILED, reason="[red]no[/red] [x"))
    assert "[red]no[/red] [x" in drawn(view)


def test_the_command_shows_the_newest_run_once_where_there_is_no_terminal(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run_id = made(runs)
    assert main(["watch", "--runs", str(runs)]) == 0
    assert run_id in capsys.readouterr().out.replace("\n", "")
    assert main(["watch", "--runs", str(runs / "none")]) == 1
    assert "There is no run" in capsys.readouterr().err
    assert main(["watch", "no-such-run", "--runs", str(runs)]) == 1
    with pytest.raises(SystemExit):
        main(["watch", "--every", "0"])


def test_it_waits_for_no_torch(runs):
    made(runs)
    code = (
        f"import sys; from core.__main__ import main; main(['watch', '--runs', {str(runs)!r}]); print('torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "False"
