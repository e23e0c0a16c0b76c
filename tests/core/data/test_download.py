import gzip
import http.server
import threading
import time
from contextlib import contextmanager

import pytest
from filelock import FileLock

from core.data import download, sources
from core.data.download import download_mnist
from core.errors import DataError
from tests.helpers.mnist_files import small_files


@contextmanager
def mirror(answer):
    """A server on this machine; `answer(handler)` writes each response."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mnist/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def contents(monkeypatch):
    made, files = small_files()
    monkeypatch.setattr(sources, "MNIST_FILES", files)
    monkeypatch.setattr(download, "MNIST_FILES", files)
    monkeypatch.setattr(sources, "TRAIN_IMAGES", files[0])
    sources._read_mnist.cache_clear()
    yield made
    sources._read_mnist.cache_clear()


def serve(contents):
    def answer(handler):
        name = handler.path.rsplit("/", 1)[1].removesuffix(".gz")
        body = gzip.compress(contents[name])
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_a_download_shows_progress_and_leaves_verified_files(contents, tmp_path):
    with mirror(serve(contents)) as address:
        progress = list(download_mnist(tmp_path, [address]))
    assert sources.damaged_files(tmp_path) == {}
    assert any(0 < one.done == one.total for one in progress)
    assert not list(tmp_path.rglob("*.part"))


def test_the_second_mirror_is_used_when_the_first_fails(contents, tmp_path):
    def refuse(handler):
        handler.send_error(503, "closed")

    with mirror(refuse) as bad, mirror(serve(contents)) as good:
        list(download_mnist(tmp_path, [bad, good]))
    assert sources.damaged_files(tmp_path) == {}


def test_only_damaged_files_are_replaced(contents, tmp_path):
    asked = []

    def count(handler):
        asked.append(handler.path)
        serve(contents)(handler)

    folder = sources.raw_folder(tmp_path)
    folder.mkdir(parents=True)
    names = list(contents)
    for name in names[:3]:
        (folder / name).write_bytes(contents[name])
    (folder / names[1]).write_bytes(b"broken")
    with mirror(count) as address:
        list(download_mnist(tmp_path, [address]))
    assert sorted(path.rsplit("/", 1)[1] for path in asked) == sorted(f"{name}.gz" for name in (names[1], names[3]))
    assert sources.damaged_files(tmp_path) == {}


def wrong_content(handler):
    body = gzip.compress(b"something else")
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(body)


def broken_connection(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b"half")


def silence(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.flush()
    handler.connection.settimeout(20)
    handler.rfile.read(1)  # until the client gives up


@pytest.mark.parametrize(
    ("answer", "word"), [(wrong_content, "not the published"), (broken_connection, "broke after"), (silence, "in time")]
)
def test_failures_are_told_and_leave_nothing(contents, tmp_path, answer, word):
    with mirror(answer) as address, pytest.raises(DataError) as caught:
        list(download_mnist(tmp_path, [address], stall=0.5))
    assert word in str(caught.value)
    assert "sample" in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".download.lock"] == []


def test_cancelling_leaves_nothing_and_lets_the_next_one_start(contents, tmp_path):
    with mirror(serve(contents)) as address:
        steps = download_mnist(tmp_path, [address])
        while "ubyte" not in next(steps).message:
            pass
        steps.close()
        assert not list(tmp_path.rglob("*.part"))
        list(download_mnist(tmp_path, [address]))
    assert sources.damaged_files(tmp_path) == {}


def test_two_downloads_at_once_are_refused(contents, tmp_path):
    folder = sources.raw_folder(tmp_path)
    folder.mkdir(parents=True)
    with FileLock(folder / ".download.lock"), pytest.raises(DataError, match="under way"):
        list(download_mnist(tmp_path, ["http://127.0.0.1:9/"]))


def test_no_network_is_told_quickly(contents, tmp_path):
    began = time.monotonic()
    with pytest.raises(DataError, match="could not be downloaded"):
        list(download_mnist(tmp_path, ["http://127.0.0.1:9/"]))
    assert time.monotonic() - began < 30
