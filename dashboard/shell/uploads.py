"""How much of what visitors upload this server holds: without it a locked page would take any number of large files."""

from typing import Any

from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager

MAX_SESSION_BYTES, MAX_SERVER_BYTES = 80 * 2**20, 1024 * 2**20
"""Of one tab: the largest file that is taken, and what was there before; and of all tabs together."""


def limit_uploads() -> None:
    """From now on a tab's oldest files give way to its newest, and a server that is full takes no more. Once is enough.

    Streamlit has a limit for each file and none for their number, and no place to set one.
    """
    added = MemoryUploadedFileManager.add_file
    if getattr(added, "is_limited", False):
        return

    def add_file(self: MemoryUploadedFileManager, session_id: str, file: Any) -> None:
        own = dict(self.file_storage.get(session_id, {}))
        own.pop(file.file_id, None)
        held = sum(len(one.data) for one in own.values())
        for file_id, one in own.items():  # in the order in which they came
            if held + len(file.data) <= MAX_SESSION_BYTES:
                break
            self.remove_file(session_id, file_id)
            held -= len(one.data)
        others = sum(len(one.data) for files in list(self.file_storage.values()) for one in list(files.values()))
        if others + len(file.data) > MAX_SERVER_BYTES:
            raise MemoryError("Too many uploaded files are open on this server; none more is taken until some are closed.")
        added(self, session_id, file)

    add_file.is_limited = True  # type: ignore[attr-defined]
    MemoryUploadedFileManager.add_file = add_file
