"""Browser sessions without a browser: websocket clients that open a page and follow its refreshes as a browser does."""

import asyncio
import time
from dataclasses import dataclass, field

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_MAX_MESSAGE = 64 * 2**20


@dataclass
class Seen:
    """What the viewers saw.

    Attributes:
        refreshes: seconds from a refresh's request to its end, for each refresh of each viewer.
        messages, bytes: that arrived. errors: viewers that ended early, in words.
    """

    refreshes: list[float] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


def watch(url: str, query: str, viewers: int, seconds: float) -> Seen:
    """Let so many sessions watch a page for so long. `url` begins with http; `query` is the page's, without "?"."""
    seen = Seen()
    asyncio.run(_watch(url, query, viewers, seconds, seen))
    return seen


async def _watch(url: str, query: str, viewers: int, seconds: float, seen: Seen) -> None:
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    ends = time.monotonic() + seconds
    await asyncio.gather(*(_viewer(address, query, ends, number, seen) for number in range(viewers)))


async def _viewer(address: str, query: str, ends: float, number: int, seen: Seen) -> None:
    await asyncio.sleep(number * 0.1)  # a class does not press Enter in the same millisecond
    try:
        async with websockets.connect(address, subprotocols=["streamlit"], max_size=_MAX_MESSAGE) as socket:  # type: ignore[list-item]
            await socket.send(_rerun(query))
            await _follow(socket, query, ends, seen)
    except (OSError, websockets.WebSocketException) as error:
        seen.errors.append(f"viewer {number}: {type(error).__name__}: {error}")


async def _follow(socket: websockets.ClientConnection, query: str, ends: float, seen: Seen) -> None:
    """Ask for a refresh whenever the page's timer says so, one at a time, and note how long each takes."""
    page, fragment, interval, asked, due = "", "", 1.0, 0.0, float("inf")
    while (now := time.monotonic()) < ends:
        if not asked and now >= due:
            asked = time.perf_counter()
            await socket.send(_rerun(query, page, fragment))
            due = now + interval
        try:
            content = await asyncio.wait_for(socket.recv(), max(0.001, min(ends, due if not asked else ends) - now))
        except TimeoutError:
            continue
        message = ForwardMsg.FromString(content if isinstance(content, bytes) else content.encode())
        seen.messages, seen.bytes = seen.messages + 1, seen.bytes + len(content)
        match message.WhichOneof("type"):
            case "new_session":
                page = message.new_session.page_script_hash
            case "auto_rerun":
                fragment, interval = message.auto_rerun.fragment_id, message.auto_rerun.interval
                due = time.monotonic() + interval
            case "script_finished" if asked:
                # Another status is that of a whole run, which the page may ask for instead.
                if message.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY:
                    seen.refreshes.append(time.perf_counter() - asked)
                asked = 0.0


def _rerun(query: str, page: str = "", fragment: str = "") -> bytes:
    """A message that asks for a run of the page, or of one fragment of it."""
    message = BackMsg()
    message.rerun_script.query_string = query
    message.rerun_script.page_script_hash = page
    message.rerun_script.fragment_id = fragment
    message.rerun_script.is_auto_rerun = bool(fragment)
    return message.SerializeToString()
