"""What a page says while PyTorch is imported, and when it cannot be."""

import streamlit as st

from dashboard import wording
from dashboard.shell import torch_ready


def torch_is_here() -> bool:
    """True once PyTorch can be used; until then a word is drawn, and when it never can, why and where to look."""
    if not torch_ready.is_warm():
        st.caption("PyTorch is being imported …")
        return False
    if problem := torch_ready.torch_problem():
        st.error(f"PyTorch cannot be imported: {wording.plain(problem)}", icon=":material/error:")
        st.page_link("environment/page.py", label="What is wrong with this installation", icon=":material/memory:")
        return False
    return True
