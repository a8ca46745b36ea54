"""Who may come in: the token, the host, the origin, the size."""

import asyncio

import pytest
from tests.views.server.conftest import ORIGIN, TOKEN, Caller

from regard.views.server import security_middleware
from regard.views.server.app import application
from regard.views.server.security_middleware import SecurityMiddleware

ALONE = {"authorization": None}


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/state", "/api/views/x/sites/0", "/nothing"])
@pytest.mark.parametrize(
    "given", [None, "Bearer ", "Bearer the-wrong-token", "Bearer the-right-token2", "the-right-token"]
)
def test_nothing_is_answered_without_the_token(call, path, given):
    answer = call("GET", path, headers={"authorization": given})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers and TOKEN not in answer.text


def test_a_wrong_token_in_the_address_gives_a_page_that_says_what_to_do(call):
    answer = call("GET", "/?token=wrong", headers=ALONE)
    assert answer.status_code == 403 and answer.headers["content-type"].startswith("text/html")
    assert "regard serve" in answer.text and "terminal" in answer.text


def test_the_token_in_the_address_becomes_a_cookie_that_lets_in(call):
    answer = call("GET", f"/?token={TOKEN}", headers=ALONE)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    name, _, value = cookie.partition(";")[0].partition("=")
    assert call("GET", "/api/state", headers=ALONE | {"cookie": f"{name}={value}"}).status_code == 200
    assert call("GET", "/api/state", headers=ALONE | {"cookie": f"{name}={value}x"}).status_code == 403
    assert call("GET", "/api/state", headers=ALONE | {"cookie": f"other={value}"}).status_code == 403
    assert call("GET", "/api/state", headers=ALONE | {"cookie": 'a="\x01;;;=='}).status_code == 403


def test_the_token_in_an_address_opens_the_page_alone(call):
    assert call("GET", f"/api/state?token={TOKEN}", headers=ALONE).status_code == 403
    assert call("POST", f"/?token={TOKEN}", headers=ALONE).status_code == 403


FOREIGN = [
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "",
    "[::2]",
    "[oops",
    "192.168.1.5:8000",
    "127.0.0.1@evil.example",
    "[::1].evil.example",
    "[::1].evil.example:8000",
    "[::1]evil",
    "evil@127.0.0.1",
    "127.0.0.1:8000.evil",
    "127.0.0.1:",
    "127.0.0.1:99999",
    "127.0.0.1:80:80",
    "localhost/",
    "localhost?x",
    "localhost#x",
    " localhost",
    "localhost ",
    "local host",
    "::1",
    "[localhost]",
    "[127.0.0.1",
    "127.0.0.1]",
    "127.0.0.1\\.evil",
    "localhost.",
]


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_refused_even_with_the_token(call, host):
    assert call("GET", "/api/state", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9999", "[::1]:8000", "LOCALHOST"])
def test_this_machine_by_its_own_names_is_known(call, host):
    assert call("GET", "/api/state", headers={"host": host}).status_code == 200


def test_a_server_for_others_is_known_by_numbers_and_its_own_name_only(state):
    made = SecurityMiddleware(application(state), TOKEN, host="0.0.0.0")
    assert made.is_own_host("10.0.0.7") and made.is_own_host("localhost")
    assert SecurityMiddleware(application(state), TOKEN, host="MyMachine").is_own_host("mymachine")
    assert not made.is_own_host("evil.example") and not made.is_own_host("")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:8001",
        "http://localhost:8000",
        "file://",
        "http://127.0.0.1:8000.evil.example",
    ],
)
def test_what_changes_something_is_refused_from_another_origin(call, origin):
    for method, path in (
        ("POST", "/api/open"),
        ("POST", "/api/upload"),
        ("POST", "/api/read"),
        ("DELETE", "/api/jobs/x"),
    ):
        assert call(method, path, headers={"origin": origin}).status_code == 403


def test_a_cookie_without_an_origin_changes_nothing(call):
    cookie = call("GET", f"/?token={TOKEN}", headers=ALONE).headers["set-cookie"].partition(";")[0]
    asked = ALONE | {"cookie": cookie, "origin": None}
    assert call("POST", "/api/open", headers=asked, json={"from": "folder", "name": "run.regard"}).status_code == 403
    own = asked | {"origin": ORIGIN}
    assert call("POST", "/api/open", headers=own, json={"from": "folder", "name": "run.regard"}).status_code == 200


def test_every_answer_forbids_scripts_of_others_and_frames(call):
    for path in ("/", "/app.js", "/api/state", "/nothing"):
        headers = call("GET", path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert "<script>" not in call("GET", "/").text


def test_a_claim_of_too_many_bytes_is_refused_before_any_is_read(call):
    big = {"content-length": str(security_middleware.MAX_UPLOAD + 1)}
    assert call("POST", "/api/upload", headers=big, content=b"x").status_code == 413
    assert call("POST", "/api/read", headers={"content-length": "1000001"}, content=b"x").status_code == 413
    assert call("POST", "/api/read", headers={"content-length": "many"}, content=b"x").status_code == 413


def test_bytes_are_counted_while_they_come(call, state, monkeypatch):
    monkeypatch.setattr(security_middleware, "MAX_UPLOAD", 10_000)
    taken = 0

    async def pieces():
        nonlocal taken
        for _ in range(1000):
            taken += 1000
            yield bytes(1000)

    answer = call("POST", "/api/upload", content=pieces())
    assert answer.status_code == 413 and "10,000" in answer.json()["error"]
    assert taken <= 20_000, "the rest was read although it was too much"
    assert list(state.work_dir.iterdir()) == []


def test_a_sender_that_falls_silent_is_not_waited_for(call, state, monkeypatch):
    monkeypatch.setattr(security_middleware, "BODY_TIMEOUT", 0.2)

    async def pieces():
        yield b"x"
        await asyncio.sleep(2)
        yield b"y"

    assert call("POST", "/api/upload", content=pieces()).status_code == 408
    assert list(state.work_dir.iterdir()) == []


def test_a_fault_of_ours_is_told_without_its_trace(state, monkeypatch):
    monkeypatch.setattr(state, "summary", lambda: 1 / 0)
    answer = Caller(SecurityMiddleware(application(state), TOKEN))("GET", "/api/state")
    assert answer.status_code == 500
    assert "terminal" in answer.json()["error"] and "Zero" not in answer.text and "Traceback" not in answer.text


def test_no_page_of_the_framework_is_served(call):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert call("GET", path).status_code == 404


def test_a_socket_of_another_kind_is_closed(state):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": []}
    asyncio.run(SecurityMiddleware(application(state), TOKEN)(scope, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"text": 3}',
        b'{"text": "a", "changes": [{"token": -1}]}',
        b'{"text": "a", "changes": 5}',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
def test_requests_that_are_not_as_expected_are_told_so(call, body):
    answer = call("POST", "/api/read", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422) and answer.json()["error"]
