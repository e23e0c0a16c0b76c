"""The app under AppTest, with a data folder, a runs folder and a trainer of its own."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import core.trainer
from core.config import GROUPS
from core.trainer import Trainer
from dashboard import policy_session
from dashboard.policy import CurrentPolicy, Tries

APP = str(Path(__file__).resolve().parents[2] / "dashboard" / "app.py")


@pytest.fixture(autouse=True)
def _no_password_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(policy_session, "_policy", CurrentPolicy((tmp_path / "secrets.toml",)))
    monkeypatch.setattr(policy_session, "_tries", Tries())


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.setenv("DIGIT_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DIGIT_LAB_RUNS", str(tmp_path / "runs"))
    made = Trainer()
    monkeypatch.setattr(core.trainer, "_trainer", made)
    app = AppTest.from_file(APP, default_timeout=60)
    for group in GROUPS[1:]:
        app.session_state[f"group_{group}"] = True  # all settings open, so that tests reach them
    yield app
    made.shutdown()


def button(app, label):
    return next(one for one in app.button if one.label == label)


def texts(app) -> str:
    return "\n".join(
        one.value for kind in (app.markdown, app.caption, app.error, app.warning, app.info, app.success) for one in kind
    )
