"""The app under AppTest, with a data folder, a runs folder and a trainer of its own."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import core.execution.process
from core.config.setting import GROUPS
from core.execution.process import Process
from dashboard.shell import policy_session
from dashboard.shell.policy import CurrentPolicy, Tries

APP = str(Path(__file__).resolve().parents[2] / "dashboard" / "app.py")


@pytest.fixture(autouse=True)
def _no_password_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(policy_session, "_policy", CurrentPolicy((tmp_path / "secrets.toml",)))
    monkeypatch.setattr(policy_session, "_tries", Tries())


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.setenv("DIGIT_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DIGIT_LAB_RUNS", str(tmp_path / "runs"))
    made = Process()
    monkeypatch.setattr(core.execution.process, "_process", made)
    app = AppTest.from_file(APP, default_timeout=60)
    for group in GROUPS[1:]:
        app.session_state[f"group_{group}"] = True  # all settings open, so that tests reach them
    yield app
    made.shutdown()
