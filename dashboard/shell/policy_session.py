"""Who may start, stop and delete. On a server with a password everybody watches, draws and compares; the rest needs it.

With the other `*session.py` files the only ones that touch Streamlit's state.
"""

import functools
import hmac
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import ParamSpec

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import CoreError
from core.execution.jobs import Asker
from core.execution.process import get_jobs
from core.runs.folder import runs_root
from dashboard.shell.policy import CurrentPolicy, Policy, Tries

Arguments = ParamSpec("Arguments")
_GONE_SECONDS = 25.0
_policy = CurrentPolicy()
_tries = Tries()


def policy() -> Policy:
    """Who may control, as the server's environment and secrets say."""
    return _policy.now()


def may_control() -> bool:
    """True when this session may start, stop, change and delete."""
    current = policy()
    if current.is_open:
        return True
    password = current.password
    return password is not None and hmac.compare_digest(st.session_state.get("controls_key", "").encode(), password.encode())


def address() -> str:
    """The machine that this session comes from, as far as the server sees it; "" for this one."""
    return st.context.ip_address or ""


def asker(*, for_all: bool = False) -> Asker:
    """Who asks for a heavy job: it ends when their tab has been gone for a while, unless its answer is for all who look."""
    if for_all:
        return Asker(address(), may_control())
    return Asker(address(), may_control(), _Presence(session_id()).is_here)


class _Presence:
    """Whether a browser tab is still there. A connection that breaks for a moment is not a closed tab."""

    def __init__(self, session: str) -> None:
        self._session, self._seen = session, monotonic()

    def is_here(self) -> bool:
        if not Runtime.exists() or Runtime.instance().is_active_session(self._session):
            self._seen = monotonic()
        return monotonic() - self._seen < _GONE_SECONDS


def session_id() -> str:
    """Who this browser tab is."""
    context = get_script_run_ctx()
    return context.session_id if context else "none"


def is_timed_refresh() -> bool:
    """Whether only a part of the page is drawn anew."""
    context = get_script_run_ctx()
    return bool(context and context.fragment_ids_this_run)


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


def exported(content: Callable[[], bytes]) -> Callable[[], bytes]:
    """What a download button makes when it is pressed: few at a time on the whole server, and only for who may control."""
    allowed = may_control()

    def made() -> bytes:
        if not allowed:
            raise CoreError("Taking files along needs the password of this server.")
        with get_jobs().turn():
            return content()

    return made


def try_password(key: str) -> None:
    """Take the password that a widget holds, unless it is tried too often for anybody to guess it."""
    given, password = str(st.session_state.get(key) or ""), policy().password
    st.session_state[key] = ""
    if not _tries.allow(session_id(), address()):
        st.session_state.password_problem = "The password is tried too often just now. Wait a second and try again."
    elif password is not None and hmac.compare_digest(given.encode(), password.encode()):
        st.session_state.controls_key, st.session_state.password_problem = given, ""
    else:
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
    if policy().is_open:
        return runs_root()
    if "own_pins" not in st.session_state:
        st.session_state.own_pins = _Folder()
    return st.session_state.own_pins.path
