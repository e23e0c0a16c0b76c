"""Digit Lab's engine: training, data, runs. It knows no user interface."""

import sys

# Read by older Pythons, too: what is behind it would only tell them of a name that cannot be imported.
if sys.version_info < (3, 11):  # noqa: UP036
    raise SystemExit(
        f"Digit Lab needs Python 3.11; this is {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}). Make an "
        "environment with a newer one: python3.11 -m venv .venv. Where your system has none (Ubuntu 20.04 and 22.04, Kylin): "
        "Miniforge, `conda create -n digitlab python=3.11`."
    )
