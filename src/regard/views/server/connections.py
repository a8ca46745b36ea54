"""Connections that have not shown the token: few, and not for long.

A connection counts before its first request is there, so a few hundred of them that send nothing would take the place
of everybody else. They have `PATIENCE` seconds for the lines before a body; of one address `FROM_ONE`, of all `WAITING`
may stand open, and where there are more, the oldest is closed: whoever has the token shows it at once.
"""

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0  # seconds until a request's head is complete
FROM_ONE = 64  # connections of one address that have not shown the token
WAITING = 256  # of all addresses
HEAD = 1 << 16  # bytes of a request's head
ADMITTED = "regard.admitted"  # in a scope: to be called once the token was right


class Connections:
    """Those of one server that have not shown the token, the oldest first, with their addresses."""

    def __init__(self) -> None:
        self._strangers: dict[Connection, str] = {}

    def add(self, one: "Connection") -> None:
        address = one.client[0] if one.client else ""
        self._strangers[one] = address
        counts = Counter(self._strangers.values())
        if counts[address] > FROM_ONE:
            self._close(next(other for other, whose in self._strangers.items() if whose == address))
        elif len(self._strangers) > WAITING:
            self._close(next(iter(self._strangers)))

    def discard(self, one: "Connection") -> None:
        self._strangers.pop(one, None)

    def _close(self, one: "Connection") -> None:
        self.discard(one)
        one.transport.abort()


def protocol() -> type["Connection"]:
    """What a server speaks, with a count of its own."""
    return type("Connection", (Connection,), {"strangers": Connections()})


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a limit to how long a request's head may take."""

    strangers: Connections  # of the server

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._late: asyncio.TimerHandle | None = None
        inner = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, ADMITTED: self._admitted}, receive, send)

        self.app = app

    def _admitted(self) -> None:
        self.strangers.discard(self)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.strangers.add(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.strangers.discard(self)
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # the head of a request is complete
            self._wait_no_more()
        elif (self.cycle is None or self.cycle.response_complete) and self._late is None:
            self._wait()  # it has begun another

    def _wait(self) -> None:
        self._late = self.loop.call_later(PATIENCE, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
