"""A real server: started, asked by many at once, interrupted."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest
import torch
from tests.small_models import saved
from tests.views.server.conftest import TOKEN

import regard
from regard.views.server import connections

START = [sys.executable, "-c", "from regard.cli.app import app; app()", "serve", "--no-browser"]


def begin(*arguments: str, temp: Path, start: list[str] = START, **more: str) -> subprocess.Popen:
    """The command, as someone types it, with a place of its own for what it writes."""
    env = (
        os.environ
        | more
        | {
            "PYTHONPATH": str(Path(regard.__file__).parents[1]),
            "TMPDIR": str(temp),
            "OMP_NUM_THREADS": "1",
        }
    )
    return subprocess.Popen([*start, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command_prints_an_address_that_lets_in_and_ends_cleanly_when_interrupted(tmp_path, folder):
    room = tmp_path / "room"
    room.mkdir()
    server = begin(
        "--folder", str(folder), str(folder / "run.regard"), "--model", str(saved(tmp_path / "m")), temp=room
    )
    try:
        url = server.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})", url)
        assert found, url
        with httpx.Client(timeout=60) as client:
            assert client.get(url.replace(found[2], "x" * 43)).status_code == 403
            assert "<regard-app>" in client.get(url).text
            state = client.get(f"http://127.0.0.1:{found[1]}/api/state").json()  # by the cookie
            assert [one["name"] for one in state["records"]] == ["run.regard", "inner/small.regard"]
            asked = {"text": "a cat sat", "changes": []}
            base = f"http://127.0.0.1:{found[1]}"
            job = client.post(f"{base}/api/read", json=asked, headers={"origin": base}).json()
            while job["state"] in ("waiting", "running"):
                job = client.get(f"{base}/api/jobs/{job['job']}").json()
            assert job["result"]["tokens"] == ["[CLS]", "a", "cat", "sat", "[SEP]"]
        assert list(room.iterdir())
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode in (0, -signal.SIGINT, 130), said
    assert "Traceback" not in said and "ERROR" not in said
    assert list(room.iterdir()) == [], "what was written on the way is gone"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere.regard",), "there is no such file"),
        (("--folder", "/nowhere-at-all"), "there is no such folder"),
        (("{bad}",), "cannot be read as a record"),
        (("--port", "{taken}"), "Leave out --port"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(tmp_path, arguments, says):
    from typer.testing import CliRunner

    from regard.cli.app import app

    (tmp_path / "bad.regard").write_bytes(b"nothing")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"bad": tmp_path / "bad.regard", "taken": taken.getsockname()[1]}
        told = CliRunner().invoke(app, ["serve", "--no-browser", *(each.format(**places) for each in arguments)])
    assert told.exit_code == 1 and says in " ".join(told.output.split()) and "Traceback" not in told.output


def test_serving_others_is_warned_about(folder, tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    server = begin("--folder", str(folder), "--host", "0.0.0.0", temp=room)
    try:
        assert server.stdout.readline().startswith("http://")
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
    assert "is reachable from other machines" in " ".join(said.split())


def busy(job) -> None:
    """Works as a model does, until it is stopped."""
    x = torch.randn(256, 256)
    while True:
        job.check()
        x = (x @ x).softmax(-1)


def test_two_hundred_at_once_are_all_answered_right_while_something_slow_runs(address, state):
    slow = state.jobs.submit("model", ("slow",), "Reading", busy)

    async def load():
        limits = httpx.Limits(max_connections=200)
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, limits=limits, timeout=60) as client:
            opening = {"from": "folder", "name": "run.regard"}
            job = (await client.post("/api/open", json=opening)).json()
            while job["state"] in ("waiting", "running"):
                job = (await client.get(f"/api/jobs/{job['job']}")).json()
            view = job["result"]["view"]
            paths = [
                "/",
                "/app.js",
                "/api/state",
                f"/api/views/{view}/sites/0",
                f"/api/views/{view}/sites/1/heads/1",
                f"/api/jobs/{job['job']}",
                "/api/views/none/sites/0",
                "/nothing",
            ]
            alone = [await client.get(path) for path in paths]
            many = await asyncio.gather(*(client.get(paths[x % len(paths)]) for x in range(200)))
            bad = await asyncio.gather(*(client.get("/api/state", headers={"authorization": "no"}) for _ in range(20)))
            return alone, many, bad

    alone, many, bad = asyncio.run(load())
    assert slow.state == "running", "it went on all the while"
    for x, answer in enumerate(many):
        own = alone[x % len(alone)]
        assert (answer.status_code, answer.headers["content-type"]) == (own.status_code, own.headers["content-type"])
        assert answer.content == own.content
    assert [one.status_code for one in alone] == [200, 200, 200, 200, 200, 200, 404, 404]
    assert {one.status_code for one in bad} == {403}
    slow.stop()


def test_a_slow_job_is_cancelled_from_outside_and_the_next_one_runs(address, state):
    slow = state.jobs.submit("model", ("slow",), "Reading", busy)
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        while client.get(f"/api/jobs/{slow.number}").json()["state"] == "waiting":
            pass
        assert client.get(f"/api/jobs/{slow.number}").json()["state"] == "running"
        job = client.delete(f"/api/jobs/{slow.number}").json()
        while job["state"] == "running":
            job = client.get(f"/api/jobs/{slow.number}").json()
        assert job["state"] == "stopped"
    again = state.jobs.submit("model", ("next",), "Reading", lambda _: 5)
    asyncio.run(again.wait(60))
    assert again.result == 5


def test_a_request_that_never_ends_holds_up_nobody(address):
    host, port = address.removeprefix("http://").split(":")
    lame = [socket.create_connection((host, int(port))) for _ in range(50)]
    for each in lame:
        each.sendall(
            b"POST /api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer the-right-token\r\n"
            b"Content-Length: 1000\r\n\r\nx"
        )
    assert (
        httpx.get(f"{address}/api/state", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60).status_code == 200
    )
    for each in lame:
        each.close()


def said_at(address: str, path: str = "/api/state", within: float = 60) -> int:
    return httpx.get(f"{address}{path}", headers={"authorization": f"Bearer {TOKEN}"}, timeout=within).status_code


def closed(one: socket.socket) -> bool:
    """Whether the server has closed it, waited for."""
    one.settimeout(60)
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


def test_many_connections_that_say_nothing_keep_nobody_out(address):
    """More than the server takes; the oldest of them are closed, and whoever has the token is let in."""
    host, port = address.removeprefix("http://").split(":")
    lame: list[socket.socket] = []
    for place in range(520):
        one = socket.create_connection((host, int(port)))
        if place % 2:
            one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        lame.append(one)
    assert said_at(address) == 200
    assert closed(lame[0]) and closed(lame[1])
    for each in lame:
        each.close()


def test_a_head_that_is_never_complete_is_not_waited_for(state, monkeypatch, request):
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.3)
    address = request.getfixturevalue("address")
    host, port = address.removeprefix("http://").split(":")
    head = f"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    silent, half = (socket.create_connection((host, int(port))) for _ in range(2))
    half.sendall(head)
    assert closed(silent) and closed(half)
    again = socket.create_connection((host, int(port)))  # one that is known may not leave a second one half open either
    again.sendall(head + b"\r\n")
    assert again.recv(1 << 20).startswith(b"HTTP/1.1 200")
    again.sendall(head)
    again.settimeout(60)
    while again.recv(1 << 20):
        pass
    slow = state.jobs.submit("model", ("slow",), "Reading", busy)  # an answer may take longer than a head
    assert said_at(address, f"/api/jobs/{slow.number}") == 200
    slow.stop()


def test_of_many_addresses_the_oldest_connections_go(monkeypatch):
    class Transport:
        open = True

        def abort(self):
            self.open = False

    class One:
        def __init__(self, address):
            self.client, self.transport = (address, 1), Transport()

    unauthenticated = connections.Connections()
    first = [One("10.0.0.1") for _ in range(connections.MAX_PER_ADDRESS)]
    others = [One(f"10.1.{place}.1") for place in range(connections.MAX_UNAUTHENTICATED - len(first))]
    for one in first + others:
        unauthenticated.add(one)
    assert all(one.transport.open for one in first + others)
    unauthenticated.discard(first[0])  # it has shown the token
    for one in (One("10.0.0.1"), One("10.0.0.1"), One("10.9.9.9")):
        unauthenticated.add(one)
    assert [one.transport.open for one in first[:4]] == [True, False, False, True] and others[0].transport.open


def test_the_token_is_in_no_argument_of_the_browser(tmp_path, folder):
    """Programs and their arguments are listed to everybody; the page that leads on is its owner's alone, and goes."""
    room, heard = tmp_path / "room", tmp_path / "heard"
    room.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {heard}.part && mv {heard}.part {heard}\n')
    browser.chmod(0o755)
    env = {"BROWSER": f"{browser} %s", "DISPLAY": ":0"}
    server = begin("--folder", str(folder), temp=room, start=[one for one in START if one != "--no-browser"], **env)
    try:
        url = server.stdout.readline().strip()
        token = url.partition("token=")[2]
        deadline = time.monotonic() + 60
        while not heard.exists():
            assert time.monotonic() < deadline, "the browser was never started"
            time.sleep(0.02)
        told = heard.read_text().strip()
        assert token not in told and told.startswith("file:")
        page = Path(url2pathname(urlsplit(told).path))
        assert url in page.read_text()
        assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
        assert httpx.get(url, timeout=60).status_code == 200
        assert not page.exists(), "it has been used"
    finally:
        server.kill()
        server.communicate(timeout=60)


def test_an_export_is_the_page_and_the_record_of_what_is_seen(call, folder, tmp_path):
    seen = call.done("POST", "/api/open", json={"from": "folder", "name": "run.regard"})
    rec = regard.load(folder / "run.regard")
    for kind, sites in (("page", None), ("page", [next(iter(rec.maps))]), ("record", None)):
        made = call.done("POST", "/api/export", json={"view": seen["view"], "kind": kind, "sites": sites})
        answer = call("GET", f"/api/exports/{made['job']}")
        assert (
            answer.headers["content-disposition"]
            == f'attachment; filename="run.{"html" if kind == "page" else "regard"}"'
        )
        if kind == "record":
            assert answer.content == (folder / "run.regard").read_bytes()
        else:
            expected = rec.save_html(tmp_path / "x.html", title="run.regard", sites=sites and (lambda x: x in sites))  # noqa: B023
            assert answer.content == expected.read_bytes()
