"""Kill -9 a training at random moments, again and again: finished checkpoints lost, runs that cannot be taken up."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.harness import ROOT, arguments, report


def main() -> None:
    """Kill, look and print."""
    given = arguments(__doc__ or "", kills=200, seed=7)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.helpers.kills", str(Path(folder) / "runs"), str(given.kills), str(given.seed)]
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    values = json.loads(answer.stdout.splitlines()[-1])
    words = f"{values['kills']} kills over {values['steps']:,} steps, {values['during_save']} of them while a file was being "
    words += f"written: {values['lost_checkpoints']} finished checkpoints lost, {values['unresumable']} times not to be taken "
    words += f"up, at most {values['lost_steps']} recorded steps lost; {values['differs'] or 'no bit'} differs from a run "
    report(given, values, words + "without kills")


if __name__ == "__main__":
    main()
