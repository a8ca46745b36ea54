"""Starting the server, and ending it."""

import html
import json
import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from .app import application
from .app_state import Desk
from .connections import HEAD, protocol
from .security_middleware import LOCAL, SecurityMiddleware

CONNECTIONS = 512
DOOR = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Regard</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={url}"></head>
<body><p><a href="{url}">Regard</a></p><script>location.replace({text})</script></body></html>"""


class Server(uvicorn.Server):
    """Tells its address once it listens; when it is to end, first stops what requests wait for."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], ends: Callable[[], None]):
        super().__init__(config)
        self._tell, self._ends = started, ends

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._ends()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._tell()


def serve(
    records: "list[Path]",
    folder: Path,
    model: str | None = None,
    *,
    trust: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl-C. tell(sentence) hears the address and what is to be known."""
    token = secrets.token_urlsafe(32)
    sock = _listening(host, port)
    url = f"http://{_shown(host)}:{sock.getsockname()[1]}/?token={token}"
    try:
        desk = Desk(folder, records, model, trust)
    except BaseException:
        sock.close()
        raise
    if host not in LOCAL:
        tell(
            f"Warning: {host} can be reached by other machines. Who has the address below can run the model and read "
            "the records of this folder, and the network between can read along."
        )

    door = desk.room / "open.html"

    def started() -> None:
        tell(url)
        if browser:
            webbrowser.open(redirect(door, url).as_uri())

    config = configured(
        SecurityMiddleware(application(desk), token, host, entered=lambda: door.unlink(missing_ok=True))
    )
    try:
        Server(config, started, lambda: desk.jobs.stop(lambda job: True)).run([sock])
    except KeyboardInterrupt:
        pass
    finally:
        desk.close()
        sock.close()


def configured(app: Any, lifespan: Any = "on") -> uvicorn.Config:
    """How the server speaks: nothing that it leaves open to who has not shown the token is without a limit."""
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        http=protocol(),
        h11_max_incomplete_event_size=HEAD,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        lifespan=lifespan,
    )


def redirect(path: Path, url: str) -> Path:
    """A page that leads to an address, for its owner's eyes: what a browser is started with, everybody can list."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(DOOR.format(url=html.escape(url), text=json.dumps(url).replace("<", "\\u003c")))
    return path


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, so that the port is known and is ours."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as problem:
        made.close()
        why = problem.strerror or problem
        raise OSError(
            f"Cannot listen on {host}:{port}: {why}. Leave out --port for a free one, and --host for this "
            "machine alone."
        ) from None
    return made


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
