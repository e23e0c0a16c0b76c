"""`python -m dashboard`: start the server; further arguments go to Streamlit (`--server.port=8600`)."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Serve the dashboard until Ctrl-C."""
    from streamlit.web import cli

    from dashboard.shell.policy import read_policy

    root = Path(__file__).resolve().parent.parent
    os.chdir(root)  # Streamlit reads .streamlit/config.toml, which holds the safe defaults, from the working directory
    print(read_policy().words, flush=True)
    sys.argv = ["streamlit", "run", str(root / "dashboard" / "app.py"), *sys.argv[1:]]
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
