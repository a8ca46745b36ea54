"""Limits on unauthenticated connections (slow-loris protection).

A connection counts before its first request has arrived, so a few hundred silent ones would lock everybody else out.
They have HEAD_TIMEOUT seconds to complete a request head; MAX_PER_ADDRESS may be open per address and
MAX_UNAUTHENTICATED in total. Beyond that the oldest is closed: a client with the token presents it at once.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_TIMEOUT = 10.0  # seconds until the head of a request is complete
MAX_PER_ADDRESS = 64  # unauthenticated connections per address
MAX_UNAUTHENTICATED = 256  # and in total
MAX_HEAD = 1 << 16  # bytes of a request head
AUTHENTICATED = "regard.authenticated"  # ASGI scope key of the callback to call after authentication


class Connections:
    """Unauthenticated connections of one server, oldest first, with their addresses."""

    def __init__(self) -> None:
        self._unauthenticated: dict[Connection, str] = {}

    def add(self, one: "Connection") -> None:
        address = one.client[0] if one.client else ""
        self._unauthenticated[one] = address
        counts = Counter(self._unauthenticated.values())
        if counts[address] > MAX_PER_ADDRESS:
            self._close(next(other for other, whose in self._unauthenticated.items() if whose == address))
        elif len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            self._close(next(iter(self._unauthenticated)))

    def discard(self, one: "Connection") -> None:
        self._unauthenticated.pop(one, None)

    def _close(self, one: "Connection") -> None:
        self.discard(one)
        one.transport.abort()


def protocol_class() -> type["Connection"]:
    """A protocol class with a connection registry of its own."""
    return type("Connection", (Connection,), {"unauthenticated": Connections()})


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol, with a timeout for the head of a request."""

    unauthenticated: Connections  # of the server

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._timeout: asyncio.TimerHandle | None = None
        inner = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            with suppress(h11.LocalProtocolError):  # the client has closed its side, and no answer can be sent
                await inner({**scope, AUTHENTICATED: self._authenticated}, receive, send)

        self.app = app

    def _authenticated(self) -> None:
        self.unauthenticated.discard(self)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.unauthenticated.add(self)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self.unauthenticated.discard(self)
        self._cancel_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # the head of a request is complete
            self._cancel_timeout()
        elif (self.cycle is None or self.cycle.response_complete) and self._timeout is None:
            self._start_timeout()  # the next request has begun

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(HEAD_TIMEOUT, self.transport.abort)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
