"""Hostile requests, byte by byte: no secret is given, nothing breaks, the server goes on serving."""

import json
import random
import socket
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import torch
import uvicorn

import regard
from regard.views.server.app import application
from regard.views.server.app_state import AppState
from regard.views.server.security_middleware import SecurityMiddleware
from regard.views.server.serve import server_config

TOKEN = "t" * 43
SECRET = "a secret that lies beside the served folder"
PATHS = (
    "/",
    "/api/state",
    "/api/open",
    "/api/read",
    "/api/export",
    "/api/upload?name=x.regard",
    "/api/jobs/1",
    "/app.js",
    "/api/exports/../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/../secret.txt",
    "/api/views/1/sites/1/heads/-1",
    "/api/views/" + "x" * 3000,
    "//evil.example/",
    "/api/open/../state",
    "/\x00",
    "/api/jobs/%00",
    "/api/views/a/whole",
    "/?token=" + "t" * 42,
    "/?token[]=",
    "/api/upload?name=" + "%2e%2e%2f" * 20 + "x.regard",
)
BODIES = (
    b"",
    b"{}",
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"null",
    b"\xff\xfe",
    b'{"from":"folder","name":"../secret.txt"}',
    b'{"from":"folder","name":"/etc/passwd"}',
    b'{"from":"upload","name":"..\\\\..\\\\x"}',
    b'{"text":"a","changes":[{"token":-1}]}',
    b'{"text":"a","changes":[{"token":99999999999999999999}]}',
    b'{"view":"x","kind":"page","sites":["' + b"y" * 90_000 + b'"]}',
    json.dumps({"text": "a" * 300_000}).encode(),
    json.dumps({"text": "\ud800", "changes": []}).encode(),
    b"x" * 2_000_000,
    b'{"text":NaN}',
    b'{"from":"folder","from":"folder","name":"run.regard\\u0000"}',
)
HEADERS = (
    "Host: evil.example",
    "Host: 127.0.0.1",
    "Host:",
    "Origin: https://evil.example",
    "Origin: null",
    "Origin: {origin}",
    "Authorization: Bearer {token}",
    "Authorization: Bearer wrong",
    "Authorization: Basic eDp5",
    "Cookie: regard=" + "z" * 43,
    "Cookie: " + "a=b; " * 2000,
    "X-Long: " + "q" * 70_000,
    "Content-Length: -1",
    "Content-Length: 99999999999",
    "Content-Length: 5\r\nContent-Length: 6",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked, chunked",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "Range: bytes=0-99999999",
    "X-Forwarded-Host: evil.example",
    "X-Bad\x00: y",
    "Bad Header: z",
    ": empty",
    "Content-Type: application/json",
    "Content-Type: application/x-www-form-urlencoded",
    "Content-Encoding: gzip",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "X" * 300, "GE T", "")


class Serving:
    """A server in a thread of this process, on a folder with one record, beside a file that nobody may read."""

    def __enter__(self) -> "Serving":
        self.room = tempfile.TemporaryDirectory()
        place = Path(self.room.name)
        (place / "records").mkdir()
        (place / "secret.txt").write_text(SECRET)
        with regard.record() as rec:
            q = torch.randn(1, 2, 4, 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        rec.save(place / "records" / "run.regard")
        self.state = AppState(place / "records")
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        app = SecurityMiddleware(application(self.state), TOKEN)
        self.server = uvicorn.Server(server_config(app, lifespan="off"))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.socket.close()
        self.state.close()
        self.room.cleanup()

    def send(self, raw: bytes, wait: float = 30.0, half: bool = False) -> bytes:
        """What the server answers to these bytes; what it has said when it closes, or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as link:
            try:
                link.sendall(raw)
                if half:
                    link.shutdown(socket.SHUT_WR)  # a client that says that it sends no more
            except OSError:
                pass  # it has refused and closed already
            found = b""
            try:
                while part := link.recv(65536):
                    found += part
            except OSError:
                pass
        return found

    def serves(self) -> bool:
        """Whether someone with the token is still served."""
        lines = ("GET /api/state HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {TOKEN}")
        raw = "\r\n".join((*lines, "Connection: close\r\n\r\n"))
        return b" 200 " in self.send(raw.encode()).split(b"\r\n")[0] + b" "


def request(draw: random.Random, port: int) -> tuple[bytes, bool]:
    """A request, and whether it carries the right token."""
    method, path = draw.choice(METHODS[:4] * 4 + METHODS), draw.choice(PATHS)
    lines = [f"{method} {path} {draw.choice(('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/9.9', ''))}"]
    lines += [f"Host: 127.0.0.1:{port}"] * draw.choice((1, 1, 1, 0, 2))
    chosen = draw.sample(HEADERS, draw.randint(0, 5))
    right = any("{token}" in one for one in chosen)
    lines += [one.replace("{token}", TOKEN).replace("{origin}", f"http://127.0.0.1:{port}") for one in chosen]
    body = draw.choice(BODIES)
    if draw.random() < 0.7:
        lines.append(f"Content-Length: {len(body)}")
    raw = ("\r\n".join(lines) + "\r\nConnection: close\r\n\r\n").encode("utf-8", "surrogatepass") + body
    if draw.random() < 0.15:
        raw = draw.randbytes(draw.randint(1, 400)) if draw.random() < 0.3 else raw[: draw.randrange(len(raw))]
    return raw, right


def attack(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Send `count` requests; answers by status, and what should not have been."""
    draw, counts, through = random.Random(seed), Counter[str](), list[str]()
    with Serving() as server:
        for case in range(count):
            raw, right = request(draw, server.port)
            answer = server.send(raw, 0.5, draw.random() < 0.3)
            status = (
                answer.split(b" ", 2)[1][:3].decode("ascii", "replace") if answer.startswith(b"HTTP/") else "closed"
            )
            counts[status] += 1
            if status.startswith("5") and status != "503":
                through.append(f"case {case}: {status} to {raw[:160]!r}")
            if SECRET.encode() in answer or b"root:x:0" in answer:
                through.append(f"case {case}: a file outside the folder to {raw[:160]!r}")
            if status == "200" and not right and b"/api/" in raw.split(b"\r\n")[0]:
                through.append(f"case {case}: 200 without the token to {raw[:160]!r}")
            if case % 200 == 199 and not server.serves():
                through.append(f"after case {case} it serves no more")
        if not server.serves():
            through.append("it serves no more")
    return counts, through
