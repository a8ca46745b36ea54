"""Who may come in. One ASGI layer around the application, which sees nothing that was refused here.

Host      a name that is ours, so that no foreign name can be pointed at this machine (DNS rebinding)
token     in the address that was printed, then a cookie that other sites cannot send and scripts cannot read;
          or "Authorization: Bearer TOKEN" from a program
Origin    of what changes something: this page and no other
size      of what is sent, counted while it arrives; time between its pieces
"""

import asyncio
import hmac
import html
import json
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from .connections import ADMITTED

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY = 1_000_000  # bytes of a request
UPLOAD = 1 << 30  # bytes of a record that is sent
PATIENCE = 30.0  # seconds between two pieces of a request
LOCAL = {"127.0.0.1", "localhost", "::1"}
HOST = re.compile(r"(?:\[(?P<number>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Regard</title>
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"></head>
<body style="font: 1.05rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem">
<h1>{title}</h1><p>{text}</p></body></html>"""


class Refusal(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, title: str, text: str):
        self.status, self.title, self.text = status, title, text


class SecurityMiddleware:
    """The application, behind the checks. `host` is the address that is listened on, `token` what lets in."""

    def __init__(self, app: Any, token: str, host: str = "127.0.0.1", entered: Callable[[], None] = lambda: None):
        """entered() is called when the token in the address has let somebody in."""
        self.app, self.token, self.host, self._entered = app, token, host.lower(), entered
        self.session = secrets.token_urlsafe(32)
        self.cookie = f"regard-{secrets.token_hex(4)}"  # cookies know no ports: two servers must not share a name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        guard = _Guard(receive, send, UPLOAD if scope["path"] == "/api/upload" else BODY)
        try:
            self._check_host(headers)
            if self._check_token(scope, headers):
                cookie = f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict"
                guard.extra.append((b"set-cookie", cookie.encode()))
                self._entered()
            scope.get(ADMITTED, lambda: None)()
            self._check_origin(scope, headers)
            guard.check_claim(headers)
        except Refusal as refusal:
            await _refuse(send, refusal, scope["path"].startswith("/api"))
        else:
            await self.app(scope, guard.receive, guard.send)

    def _check_host(self, headers: dict[str, str]) -> None:
        found = HOST.fullmatch(headers.get("host", ""))
        if (
            found is None
            or int(found["port"] or 0) > 65535
            or not self.knows((found["number"] or found["name"]).lower())
        ):
            raise Refusal(
                403,
                "This is not my name",
                "This request was meant for another host. Open the address that regard serve printed.",
            )

    def knows(self, name: str) -> bool:
        """Whether a host name means this server. A number cannot be pointed elsewhere by somebody's name server."""
        if name in LOCAL or name == self.host:
            return True
        if self.host in LOCAL:
            return False
        try:
            return ip_address(name) is not None
        except ValueError:
            return name == socket.gethostname().lower()

    def _check_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether a cookie is to be given: the token stood in the address."""
        given = headers.get("authorization", "")
        if given.startswith("Bearer ") and _same(given.removeprefix("Bearer "), self.token):
            return False
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            cookie = None
        if cookie is not None and _same(cookie.value, self.session):
            return False
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and _same(asked, self.token):
            return True
        raise Refusal(
            403,
            "This page needs its key",
            "Regard lets in who has the whole address that regard serve "
            "printed in the terminal; it ends in ?token= and letters. Copy that line and open it. Where "
            "the server was started anew, the address is a new one.",
        )

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        if scope["method"] in ("GET", "HEAD"):
            return
        origin, own = headers.get("origin"), headers["host"].lower()
        if origin is None and headers.get("authorization"):
            return  # a program, which showed the token itself
        if origin is None or origin.lower() not in (f"http://{own}", f"https://{own}"):
            raise Refusal(403, "Another page asked", "Only Regard's own page may change something here.")


class _Guard:
    """What comes in is counted and waited for, but not for ever; what goes out has its headers."""

    def __init__(self, receive: Receive, send: Send, limit: int):
        self._receive, self._send, self.limit = receive, send, limit
        self.seen = 0
        self.refusal: Refusal | None = None
        self.extra: list[tuple[bytes, bytes]] = []
        self.started = self.ended = False

    def check_claim(self, headers: dict[str, str]) -> None:
        claim = headers.get("content-length", "0")
        if not claim.isdigit() or int(claim) > self.limit:
            raise self._large()

    def _large(self) -> Refusal:
        return Refusal(413, "That is too large", f"A request may have {self.limit:,} bytes here.")

    async def receive(self) -> MutableMapping[str, Any]:
        if self.ended:  # only a disconnect can follow
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), PATIENCE)
        except TimeoutError:
            self.refusal = Refusal(408, "That took too long", f"Nothing arrived for {PATIENCE:.0f} seconds.")
            return {"type": "http.disconnect"}
        self.seen += len(message.get("body", b""))
        if self.seen > self.limit:
            self.refusal = self._large()
            return {"type": "http.disconnect"}
        self.ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.refusal is not None and not self.started:
            if message["type"] == "http.response.start":
                await _refuse(self._send, self.refusal, True)
            return
        if message["type"] == "http.response.start":
            self.started = True
            own = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more, *self.extra]}
        await self._send(message)


def _same(given: str, expected: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode(), expected.encode())


async def _refuse(send: Send, refusal: Refusal, plain: bool) -> None:
    if plain:
        kind, body = "application/json", json.dumps({"error": refusal.text})
    else:
        kind = "text/html; charset=utf-8"
        body = PAGE.format(title=html.escape(refusal.title), text=html.escape(refusal.text))
    raw = body.encode()
    headers = {**HEADERS, "content-type": kind, "content-length": str(len(raw)), "connection": "close"}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": raw})
