"""Who may start, stop and delete. On a server with a password everybody watches, draws and compares; the rest needs it.

With the other `*session.py` files the only ones that touch Streamlit's state.
"""

import functools
import hmac
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import ParamSpec

import streamlit as st
from streamlit.runtime.secrets import secrets_singleton

from core.run_store import runs_root

Arguments = ParamSpec("Arguments")
PASSWORD_VARIABLE, SECRET = "DIGIT_LAB_PASSWORD", "controls_password"
_TRY_SECONDS = 1.0
_last_wrong = 0.0


def controls_password() -> str | None:
    """The password for controls: DIGIT_LAB_PASSWORD, else `controls_password` in Streamlit's secrets; None: all may control."""
    if given := os.environ.get(PASSWORD_VARIABLE):
        return given
    if not secrets_singleton.load_if_toml_exists():
        return None
    return str(st.secrets.get(SECRET) or "") or None


def may_control() -> bool:
    """True when this session may start, stop, change and delete."""
    password = controls_password()
    return password is None or hmac.compare_digest(st.session_state.get("controls_key", "").encode(), password.encode())


def controlled(action: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """A callback that does nothing but say so in a session without the password. The page's disabled buttons are only a
    courtesy; this is the check."""

    @functools.wraps(action)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        if may_control():
            action(*args, **kwargs)
        else:
            st.toast("Controls are locked on this server. Unlock them with the password at the top of the page.")

    return checked


def try_password(key: str) -> None:
    """Take the password that a widget holds. One wrong try a second for the whole server, so that guessing takes too long."""
    global _last_wrong
    given, password = str(st.session_state.get(key) or ""), controls_password() or ""
    st.session_state[key] = ""
    if monotonic() < _last_wrong + _TRY_SECONDS:
        st.session_state.password_problem = "Somebody has just tried a wrong password. Wait a second and try again."
    elif hmac.compare_digest(given.encode(), password.encode()):
        st.session_state.controls_key, st.session_state.password_problem = given, ""
    else:
        _last_wrong = monotonic()
        st.session_state.password_problem = "That is not the password."


def password_problem() -> str:
    """Why the controls are still locked after a try; "" otherwise."""
    return st.session_state.get("password_problem", "")


def lock() -> None:
    """Give the controls back in this session."""
    st.session_state.pop("controls_key", None)


class _Folder:
    """A folder that goes when the session does."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="digit-lab-drawings-"))
        weakref.finalize(self, shutil.rmtree, self.path, True)


def pins_root() -> Path:
    """Where this session's pinned drawings are kept: beside the runs on one's own machine; on a server with a password each
    session has its own, which end with it."""
    if controls_password() is None:
        return runs_root()
    if "own_pins" not in st.session_state:
        st.session_state.own_pins = _Folder()
    return st.session_state.own_pins.path
