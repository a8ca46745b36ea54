"""Start and stop the server."""

import html
import json
import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import uvicorn

from .app import application
from .app_state import AppState
from .connections import MAX_HEAD, protocol_class
from .security_middleware import LOCAL_HOSTS, SecurityMiddleware

MAX_CONNECTIONS = 512
REDIRECT_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Regard</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={url}"></head>
<body><p><a href="{url}">Regard</a></p><script>location.replace({text})</script></body></html>"""


class Server(uvicorn.Server):
    """Calls on_started once it listens; cancels running jobs before it shuts down."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None], on_exit: Callable[[], None]):
        super().__init__(config)
        self._on_started, self._on_exit = on_started, on_exit

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._on_exit()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()


def serve(
    records: "list[Path]",
    folder: Path,
    model: str | None = None,
    *,
    trust: bool = False,
    device: str = "cpu",
    dtype: "torch.dtype | None" = None,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl-C. tell(sentence) reports the URL and warnings."""
    token = secrets.token_urlsafe(32)
    sock = _listening_socket(host, port)
    url = f"http://{_url_host(host)}:{sock.getsockname()[1]}/?token={token}"
    try:
        state = AppState(folder, records, model, trust, device, dtype)
    except BaseException:
        sock.close()
        raise
    if host not in LOCAL_HOSTS:
        tell(
            f"Warning: {host} is reachable from other machines. Whoever has the URL below can run the model and read "
            "the records of this folder, and the traffic is not encrypted (HTTP)."
        )

    redirect_file = state.work_dir / "open.html"

    def started() -> None:
        tell(url)
        if browser:
            webbrowser.open(write_redirect(redirect_file, url).as_uri())

    config = server_config(
        SecurityMiddleware(application(state), token, host, on_login=lambda: redirect_file.unlink(missing_ok=True))
    )
    try:
        Server(config, started, lambda: state.jobs.stop(lambda job: True)).run([sock])
    except KeyboardInterrupt:
        pass
    finally:
        state.close()
        sock.close()


def server_config(app: Any, lifespan: Any = "on") -> uvicorn.Config:
    """uvicorn settings, with limits on everything that an unauthenticated client can use."""
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        ws="none",
        http=protocol_class(),
        h11_max_incomplete_event_size=MAX_HEAD,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        lifespan=lifespan,
    )


def write_redirect(path: Path, url: str) -> Path:
    """A redirect page that only its owner can read: command-line arguments of a browser are visible to all users."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        file.write(REDIRECT_PAGE.format(url=html.escape(url), text=json.dumps(url).replace("<", "\\u003c")))
    return path


def _listening_socket(host: str, port: int) -> socket.socket:
    """A bound socket, so that the port is known before the server starts."""
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


def _url_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
