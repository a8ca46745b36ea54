"""A server in this process, and someone who calls it."""

import asyncio
import socket
import threading
import time

import httpx
import pytest
import torch
import uvicorn

import regard
from regard.views.server.app import application
from regard.views.server.app_state import AppState
from regard.views.server.security_middleware import SecurityMiddleware
from regard.views.server.serve import server_config

TOKEN = "the-right-token"
ORIGIN = "http://127.0.0.1:8000"
WORDS = ["[CLS]", "the", "keeper", "</script><b>x</b>", "lit", "it", "[SEP]"]


def recorded(n: int = len(WORDS), heads: int = 2, layers: int = 2, words=None) -> regard.Record:
    torch.manual_seed(1)
    with regard.record() as rec:
        for _ in range(layers):
            q = 2 * torch.randn(1, heads, n, 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec if words is None else rec.label(tokens=words)


class Caller:
    """Requests as a page of this server makes them, unless told otherwise."""

    def __init__(self, app, **headers: str):
        self.app, self.headers = app, {"authorization": f"Bearer {TOKEN}", "origin": ORIGIN} | headers

    def __call__(self, method: str, path: str, headers=None, base: str = ORIGIN, **how):
        async def call():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                asked = {k: v for k, v in (self.headers | (headers or {})).items() if v is not None}
                return await client.request(method, path, headers=asked, **how)

        return asyncio.run(call())

    def ended(self, answer, within: float = 90.0) -> dict:
        """A job's last word."""
        job, until = answer.json(), time.monotonic() + within
        while job["state"] in ("waiting", "running"):
            assert time.monotonic() < until, "the job never ended"
            job = self("GET", f"/api/jobs/{job['job']}").json()
        return job

    def done(self, method: str, path: str, **how):
        job = self.ended(self(method, path, **how))
        assert job["state"] == "done", job
        return job["result"]


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "records"
    (place / "inner").mkdir(parents=True)
    recorded(words=WORDS).save(place / "run.regard")
    recorded(4).save(place / "inner" / "small.regard")
    recorded(3).save(tmp_path / "secret.regard")  # beside the folder, not in it
    return place


@pytest.fixture
def state(folder):
    made = AppState(folder)
    yield made
    made.close()


@pytest.fixture
def call(state):
    return Caller(SecurityMiddleware(application(state), TOKEN))


@pytest.fixture
def address(state):
    """The server in a thread of this process."""
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(SecurityMiddleware(application(state), TOKEN), lifespan="off"))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    server.should_exit = True
    thread.join(60)
    sock.close()
