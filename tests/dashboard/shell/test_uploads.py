from types import SimpleNamespace

import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

from dashboard.shell import uploads


@pytest.fixture
def manager(monkeypatch):
    monkeypatch.setattr(MemoryUploadedFileManager, "add_file", MemoryUploadedFileManager.add_file)
    monkeypatch.setattr(uploads, "MAX_SESSION_BYTES", 100)
    monkeypatch.setattr(uploads, "MAX_SERVER_BYTES", 250)
    uploads.limit_uploads()
    uploads.limit_uploads()  # each run of a page asks for it
    return MemoryUploadedFileManager("/upload")


def file(name, size):
    return SimpleNamespace(file_id=name, name=name, type="", data=bytes(size))


def held(manager, session):
    return [one.file_id for one in manager.get_files(session, [f"{number}" for number in range(20)])]


def test_a_tab_s_oldest_files_give_way_to_its_newest(manager):
    for number in range(6):
        manager.add_file("tab", file(str(number), 40))
    assert held(manager, "tab") == ["4", "5"]
    manager.add_file("tab", file("5", 60))  # sent once more
    assert held(manager, "tab") == ["4", "5"]
    assert len(manager.get_files("tab", ["5"])[0].data) == 60


def test_a_server_that_is_full_takes_no_more_and_keeps_what_it_has(manager):
    for number in range(6):
        manager.add_file(f"tab {number}", file("0", 40))
    with pytest.raises(MemoryError, match="Too many uploaded files"):
        manager.add_file("another", file("0", 40))
    assert all(held(manager, f"tab {number}") == ["0"] for number in range(6))
    manager.remove_session_files("tab 0")
    manager.add_file("another", file("0", 40))
