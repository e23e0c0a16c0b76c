"""The command line: `python -m core train`, `check`, `prove` and `watch`: reads arguments only."""

import argparse
import sys
from pathlib import Path

from core.commands.check import check_installation
from core.commands.prove import prove_run
from core.commands.train import train_run
from core.commands.watch import watch_run
from core.config.presets import PRESETS
from core.config.train_config import settings
from core.errors import ConfigError, CoreError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 unusable arguments."""
    parser = argparse.ArgumentParser(prog="python -m core", description="Train and check without a browser.")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train one run; the dashboard shows it live")
    train.add_argument("--resume", metavar="ID", help="go on with a run that was stopped, failed or was killed, bit for bit")
    train.add_argument(
        "--fork",
        metavar="ID[@STEP]",
        help="a new run from another's newest saved state, or that of STEP, with the changes of --set",
    )
    train.add_argument(
        "--schedule-then",
        choices=("hold", "stretch", "restart"),
        help="for a fork with more epochs: the "
        "learning rate stays, follows the schedule stretched, or the schedule begins anew",
    )
    train.add_argument("--preset", help=f"one of {', '.join(PRESETS)} (default: tutorial)")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting; may be repeated: " + ", ".join(settings()),
    )
    train.add_argument("--data", type=Path, help="data folder (default: DIGIT_LAB_DATA or data)")
    train.add_argument("--runs", type=Path, help="runs folder (default: DIGIT_LAB_RUNS or runs)")
    train.add_argument("--json", action="store_true", help="one JSON object a line; the last one is the result")
    train.set_defaults(run_command=train_run)
    check = commands.add_parser("check", help="look at the installation and compute something on each device")
    check.set_defaults(run_command=lambda _: check_installation())
    proof = commands.add_parser("prove", help="train the first steps twice, or in two parts, and compare every bit")
    proof.add_argument("kind", choices=("repeat", "resume"))
    proof.add_argument("--preset", help="as for train")
    proof.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for train")
    proof.add_argument("--config", help="all settings as JSON, instead of --preset and --set")
    proof.add_argument("--steps", type=int, default=60)
    proof.add_argument("--data", type=Path, help="data folder (default: DIGIT_LAB_DATA or data)")
    proof.add_argument("--json", action="store_true")
    proof.set_defaults(run_command=prove_run)
    watch = commands.add_parser("watch", help="a run in this terminal, whoever trains it, until it ends")
    watch.add_argument("run", nargs="?", help="its id (default: the one that trains, else the newest)")
    watch.add_argument("--every", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks (default: 1)")
    watch.add_argument("--once", action="store_true", help="show it as it is now, and end")
    watch.add_argument("--runs", type=Path, help="runs folder (default: DIGIT_LAB_RUNS or runs)")
    watch.set_defaults(run_command=watch_run)
    given = parser.parse_args(arguments)
    try:
        return given.run_command(given)
    except ConfigError as error:
        print(f"These settings cannot be used:\n{error}", file=sys.stderr)
        return 2
    except CoreError as error:
        print(error, file=sys.stderr)
        return 1


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"must be between 0.1 and 3600 seconds; got {text}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
