"""On a server with a password: what one may do, and the way to the controls."""

import streamlit as st

from dashboard.shell import policy_session


def policy_row() -> None:
    """Draw the line; nothing where all may control."""
    policy = policy_session.policy()
    if policy.is_open:
        return
    if policy.problem:
        # Why is said in the server's terminal: it names files and variables, which are no visitor's business.
        st.error(
            "The controls of this server are locked for everybody, since its password cannot be read. The terminal in "
            "which it was started says why.",
            icon=":material/lock:",
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if policy_session.may_control():
            st.caption(":material/lock_open: Controls are unlocked in this tab.", width="content")
            st.button("Lock", key="controls_lock", type="tertiary", on_click=policy_session.lock)
            return
        st.caption(
            ":material/lock: You can watch, draw, try train and eval mode, and compare. Starting, stopping, deleting "
            "and taking files along need the password.",
            width="content",
        )
        with st.popover("Unlock controls", icon=":material/key:"):
            st.text_input(
                "Password",
                type="password",
                key="controls_password",
                on_change=policy_session.try_password,
                args=("controls_password",),
            )
            if problem := policy_session.password_problem():
                st.error(problem)
