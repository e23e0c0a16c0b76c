"""The server as a process: both ways to start it, Ctrl-C, kill -9 and the safe defaults."""

import http.client
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from playwright.sync_api import expect

from core.model.weights import load_weights
from core.runs.info import list_runs, read_info
from core.status import RunStatus
from tests.helpers.servers import ROOT, start_server, stop_server
from tests.helpers.train_page import LONG, badge, start, wait_for_points
from tests.helpers.waits import wait_for


def handshake(url: str, host: str) -> int:
    """The status by which the server answers a websocket from a page of `host`."""
    connection = http.client.HTTPConnection(url.partition("//")[2], timeout=10)
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    for name, value in (
        ("Host", host),
        ("Origin", f"http://{host}"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    with closing(connection):
        return connection.getresponse().status


@pytest.mark.parametrize("command", [("-m", "dashboard"), ("-m", "streamlit", "run", "dashboard/app.py")])
def test_both_commands_serve_the_page_on_this_machine_only(tmp_path, open_page, command):
    server = start_server(tmp_path, command=command)
    try:
        page = open_page(server.url)
        expect(page.get_by_role("button", name="Start training")).to_be_visible()
        assert "127.0.0.1" in server.log.read_text()
        assert handshake(server.url, server.url.partition("//")[2]) == 101
        assert handshake(server.url, "evil.example") == 403  # DNS rebinding
    finally:
        stop_server(server)


def test_ctrl_c_ends_the_server_within_ten_seconds_and_saves(tmp_path, open_page):
    server = start_server(tmp_path)
    try:
        page = open_page(server.url + LONG)
        run_id = start(page)
        wait_for(lambda: read_info(server.runs / run_id).step > 5)
        server.process.send_signal(signal.SIGINT)
        server.process.wait(10)
        info = read_info(server.runs / run_id)
        assert info.status == RunStatus.STOPPED
        assert load_weights(server.runs / run_id / "last.pt")["step"] == info.step
    finally:
        stop_server(server)


def test_after_kill_dash_nine_the_next_server_shows_the_run_as_interrupted(tmp_path, open_page):
    server = start_server(tmp_path)
    page = open_page(server.url + LONG)
    run_id = start(page)
    wait_for_points(page, 5)
    wait_for(lambda: read_info(server.runs / run_id).step > 5)
    server.process.kill()
    server.process.wait()
    again = start_server(tmp_path)
    try:
        page = open_page(again.url)
        badge(page, "Interrupted")
        wait_for_points(page, 5)
        start(page)
        badge(page, "Training")
    finally:
        stop_server(again)


def test_a_run_from_the_command_line_shows_live(tmp_path, open_page):
    server = start_server(tmp_path)
    changes = ("dataset=mnist_sample", "epochs=500", "model=mlp", "threads=1")
    command = [sys.executable, "-m", "core", "train", "--runs", str(server.runs), "--json"]
    command += [part for change in changes for part in ("--set", change)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: any(run.status == RunStatus.RUNNING for run in list_runs(server.runs)))
        page = open_page(server.url)
        wait_for_points(page, 10)
        expect(page.get_by_text("Another process trains this run")).to_be_visible()
        expect(page.locator(".st-key-stop button")).to_be_disabled()
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
            stop_server(server)
