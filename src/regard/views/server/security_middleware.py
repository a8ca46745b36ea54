"""Security checks, as one ASGI middleware around the application.

Host      must name this server (DNS rebinding)
token     in the printed URL, then a session cookie (SameSite=Strict, HttpOnly); or "Authorization: Bearer TOKEN"
Origin    of state-changing requests must be this server (CSRF)
limits    body size, counted while it arrives; time between chunks
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

from .connections import AUTHENTICATED

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 1_000_000  # bytes of a request body
MAX_UPLOAD = 1 << 30  # bytes of an uploaded record
BODY_TIMEOUT = 30.0  # seconds between two chunks of a body
LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}
HOST = re.compile(r"(?:\[(?P<number>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ERROR_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Regard</title>
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"></head>
<body style="font: 1.05rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 4rem auto; padding: 0 1rem">
<h1>{title}</h1><p>{text}</p></body></html>"""


class Refusal(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, title: str, text: str):
        self.status, self.title, self.text = status, title, text


class SecurityMiddleware:
    """The application behind the checks. `host` is the address listened on, `token` the secret of the printed URL."""

    def __init__(self, app: Any, token: str, host: str = "127.0.0.1", on_login: Callable[[], None] = lambda: None):
        """on_login() is called when the token of the URL was accepted."""
        self.app, self.token, self.host, self._on_login = app, token, host.lower(), on_login
        self.session = secrets.token_urlsafe(32)
        self.cookie = f"regard-{secrets.token_hex(4)}"  # cookies are not bound to a port: two servers need two names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        guard = _GuardedExchange(receive, send, MAX_UPLOAD if scope["path"] == "/api/upload" else MAX_BODY)
        try:
            self._check_host(headers)
            if self._check_token(scope, headers):
                cookie = f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict"
                guard.extra.append((b"set-cookie", cookie.encode()))
                self._on_login()
            scope.get(AUTHENTICATED, lambda: None)()
            self._check_origin(scope, headers)
            guard.check_content_length(headers)
        except Refusal as refusal:
            await _refuse(send, refusal, scope["path"].startswith("/api"))
        else:
            await self.app(scope, guard.receive, guard.send)

    def _check_host(self, headers: dict[str, str]) -> None:
        found = HOST.fullmatch(headers.get("host", ""))
        if (
            found is None
            or int(found["port"] or 0) > 65535
            or not self.is_own_host((found["number"] or found["name"]).lower())
        ):
            raise Refusal(
                403,
                "403: unexpected Host header",
                "The Host header names another server. Open the URL that regard serve printed.",
            )

    def is_own_host(self, name: str) -> bool:
        """Whether a host name means this server. IP addresses are safe from DNS rebinding."""
        if name in LOCAL_HOSTS or name == self.host:
            return True
        if self.host in LOCAL_HOSTS:
            return False
        try:
            return ip_address(name) is not None
        except ValueError:
            return name == socket.gethostname().lower()

    def _check_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Check the credentials; True if the token was in the URL, so that a session cookie is to be set."""
        given = headers.get("authorization", "")
        if given.startswith("Bearer ") and _same_secret(given.removeprefix("Bearer "), self.token):
            return False
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            cookie = None
        if cookie is not None and _same_secret(cookie.value, self.session):
            return False
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and _same_secret(asked, self.token):
            return True
        raise Refusal(
            403,
            "403: token required",
            "Open the whole URL that regard serve printed in the terminal; it ends in ?token=... . A restarted server "
            "has a new token.",
        )

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        if scope["method"] in ("GET", "HEAD"):
            return
        origin, own = headers.get("origin"), headers["host"].lower()
        if origin is None and headers.get("authorization"):
            return  # a program, authenticated by its bearer token
        if origin is None or origin.lower() not in (f"http://{own}", f"https://{own}"):
            raise Refusal(
                403,
                "403: unexpected Origin header",
                "State-changing requests are accepted from Regard's own page only.",
            )


class _GuardedExchange:
    """Limits the size and pace of a request body; adds the security headers to the response."""

    def __init__(self, receive: Receive, send: Send, limit: int):
        self._receive, self._send, self.limit = receive, send, limit
        self.seen = 0
        self.refusal: Refusal | None = None
        self.extra: list[tuple[bytes, bytes]] = []
        self.started = self.ended = False

    def check_content_length(self, headers: dict[str, str]) -> None:
        claim = headers.get("content-length", "0")
        if not claim.isdigit() or int(claim) > self.limit:
            raise self._large()

    def _large(self) -> Refusal:
        return Refusal(
            413, "413: request too large", f"The body of this request may have at most {self.limit:,} bytes."
        )

    async def receive(self) -> MutableMapping[str, Any]:
        if self.ended:  # only a disconnect can follow
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), BODY_TIMEOUT)
        except TimeoutError:
            self.refusal = Refusal(408, "408: request timeout", f"No data arrived for {BODY_TIMEOUT:.0f} seconds.")
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


def _same_secret(given: str, expected: str) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(given.encode(), expected.encode())


async def _refuse(send: Send, refusal: Refusal, plain: bool) -> None:
    if plain:
        kind, body = "application/json", json.dumps({"error": refusal.text})
    else:
        kind = "text/html; charset=utf-8"
        body = ERROR_PAGE.format(title=html.escape(refusal.title), text=html.escape(refusal.text))
    raw = body.encode()
    headers = {**HEADERS, "content-type": kind, "content-length": str(len(raw)), "connection": "close"}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": raw})
