"""What Streamlit does not say of a widget: whether a person has just changed it."""

from typing import Any

import streamlit as st


def changed_choice(key: str, drawn: Any) -> Any:
    """What a person has chosen in a widget whose key holds what it was drawn with; None when nothing was.

    A message from the browser that is older than the widget's removal brings its old value back, which Streamlit takes for a
    change: that the value is what was drawn says that nobody chose anything.
    """
    value = st.session_state.get(key)
    return None if value == drawn else value
