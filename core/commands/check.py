"""`python -m core check`: look at the installation and compute something on each device."""


def check_installation() -> int:
    """Print a line for each finding; 1 when something needs mending."""
    from core.finding import Verdict
    from core.machine.check import as_text, check

    failed = False
    for line in check():
        print(as_text([line]), end="", flush=True)
        failed |= line.verdict == Verdict.FAIL
    return int(failed)
