"""What a page says while PyTorch is imported, and when it cannot be."""

import streamlit as st

from dashboard import session, theme


def torch_is_here() -> bool:
    """True once PyTorch can be used; until then a word is drawn, and when it never can, why and where to look."""
    if not session.is_warm():
        st.caption("PyTorch is being imported …")
        return False
    if problem := session.torch_problem():
        st.error(f"PyTorch cannot be imported: {theme.plain(problem)}", icon=":material/error:")
        st.page_link("views/environment.py", label="What is wrong with this installation", icon=":material/memory:")
        return False
    return True
