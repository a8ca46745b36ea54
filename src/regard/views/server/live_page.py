"""The live page of a monitor: statistics of attention while a model trains, at an address of this machine alone.

A thread serves it beside the run; the page asks for its content every two seconds. Host, token and headers are checked
by the same middleware as `regard serve`.
"""

import secrets
import threading
from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from ..html_shell import template_text
from ..monitor_page import monitor_content
from .security_middleware import SecurityMiddleware
from .serve import Server, _listening_socket, server_config

if TYPE_CHECKING:
    from regard.recording import Monitor

SHELL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Attention while it trains</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/monitor.css"></head>
<body><main class="band" id="content" aria-live="off">The first step has not ended yet.</main>
<noscript>This page renews itself with JavaScript.</noscript><script src="/monitor.js"></script></body></html>"""


class LivePage:
    """Serves the page of a monitor until `close`; `url` has the token."""

    def __init__(self, monitor: "Monitor", port: int = 0):
        token = secrets.token_urlsafe(32)
        self._socket = _listening_socket("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/?token={token}"
        config = server_config(SecurityMiddleware(application(monitor), token), lifespan="off")
        listening = threading.Event()
        self._server = Server(config, listening.set, lambda: None)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="regard-live-page", daemon=True
        )
        self._thread.start()
        listening.wait(10.0)

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(5.0)
        self._socket.close()


def application(monitor: "Monitor") -> FastAPI:
    """The page, its style and script, and its content."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    style = template_text("frame.css") + template_text("monitor.css")
    script = files("regard.views").joinpath("static/monitor.js").read_bytes()

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse(SHELL)

    @app.get("/monitor.css")
    def css() -> Response:
        return Response(style, media_type="text/css")

    @app.get("/monitor.js")
    def javascript() -> Response:
        return Response(script, media_type="text/javascript")

    @app.get("/api/monitor")
    def content() -> HTMLResponse:
        return HTMLResponse(monitor_content(monitor))

    return app
