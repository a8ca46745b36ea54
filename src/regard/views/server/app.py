"""What the server answers. Each answer is quick: what takes long is a job."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ..html_shell import resource
from .app_state import Desk
from .jobs import UNKNOWN, Busy, Job
from .model_session import CHANGES, Change

log = logging.getLogger("regard.serve")

SHELL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Regard</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css"></head>
<body><regard-app></regard-app><noscript>This page draws attention maps with JavaScript.</noscript>
<script src="/graph.js"></script><script src="/app.js"></script></body></html>"""
WAIT = 20.0  # seconds that an answer is waited for before the page asks again


class Ascii(JSONResponse):
    """JSON of ASCII alone: a name of a file, a label or a sentence may have what UTF-8 cannot write."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Opening(BaseModel):
    """Request: open a record."""

    origin: Literal["given", "folder", "sent"] = Field(alias="from")
    name: str = Field(max_length=1000)


class EditRequest(BaseModel):
    """A token that nobody sees, or a head at a site whose weights are all equal."""

    token: int | None = Field(None, ge=0, lt=1 << 24)
    site: str | None = Field(None, max_length=500)
    head: int | None = Field(None, ge=0, lt=1 << 16)


class TextRequest(BaseModel):
    """Request: run the model on a text, with edits of its attention."""

    text: str = Field(max_length=200_000)
    changes: list[EditRequest] = Field([], max_length=CHANGES)
    page: str = Field("", max_length=32)  # which one asks: a new text stops the one before it there


class Export(BaseModel):
    """Request: export a view as a page or a record."""

    view: str = Field(max_length=32)
    kind: Literal["page", "record"]
    sites: list[str] | None = Field(None, max_length=2000)


def application(desk: Desk) -> FastAPI:
    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="Regard", default_response_class=Ascii, docs_url=None, redoc_url=None, openapi_url=None, lifespan=life
    )
    scripts = {name: files("regard.views").joinpath(f"static/{name}").read_bytes() for name in ("app.js", "graph.js")}
    frame = resource("frame.css")

    @app.exception_handler(HTTPException)
    async def known(_: Request, problem: HTTPException) -> Ascii:
        return _error(problem.status_code, str(problem.detail))

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, problem: RequestValidationError) -> Ascii:
        where = ".".join(str(part) for part in problem.errors()[0]["loc"])[:80] if problem.errors() else "the request"
        return _error(422, f"{where} is not as expected.")

    @app.exception_handler(Busy)
    async def busy(_: Request, problem: Busy) -> Ascii:
        return _error(503, str(problem))

    @app.exception_handler(ValueError)
    async def refused(_: Request, problem: ValueError) -> Ascii:
        return _error(400, str(problem))

    @app.exception_handler(LookupError)
    async def missing(_: Request, problem: LookupError) -> Ascii:
        return _error(404, "There is no such thing here (any more): load the page again.")

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, problem: ClientDisconnect) -> Ascii:
        return _error(400, "The request ended before all of it was here.")

    @app.exception_handler(Exception)
    async def broken(_: Request, problem: Exception) -> Ascii:
        return _error(500, UNKNOWN)

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(SHELL)

    @app.get("/app.css")
    async def style() -> Response:
        return Response(frame, media_type="text/css")

    @app.get("/{name}.js")
    async def components(name: str) -> Response:
        return Response(scripts[f"{name}.js"], media_type="text/javascript; charset=utf-8")

    @app.get("/api/state")
    async def state() -> dict[str, Any]:
        return await run_in_threadpool(desk.state)

    @app.post("/api/open")
    async def open_record(which: Opening) -> dict[str, Any]:
        return await _soon(desk.open(which.origin, which.name))

    @app.post("/api/upload")
    async def upload(request: Request, name: Annotated[str, Query(max_length=300)] = "record.regard") -> dict[str, Any]:
        draft = await desk.shelf.receive(name, request.stream())
        return await _soon(desk.admit(name, draft))

    @app.post("/api/read")
    async def read(what: TextRequest) -> dict[str, Any]:
        changes = tuple(Change(each.token, each.site, each.head) for each in what.changes)
        return await _soon(desk.read(what.text, changes, what.page))

    @app.post("/api/export")
    async def export(what: Export) -> dict[str, Any]:
        return await _soon(desk.export(what.view, what.kind, what.sites))

    @app.get("/api/exports/{number}")
    async def exported(number: str) -> FileResponse:
        job = desk.jobs[number]
        return FileResponse(desk.exports[number], filename=job.result["file"], media_type="application/octet-stream")

    @app.get("/api/jobs/{number}")
    async def job(number: str) -> dict[str, Any]:
        return await _soon(desk.jobs[number])

    @app.delete("/api/jobs/{number}")
    async def stop(number: str) -> dict[str, Any]:
        found = desk.jobs[number]
        found.stop()
        return await _soon(found)

    @app.delete("/api/views/{number}")
    async def leave(number: str) -> dict[str, Any]:
        desk.leave(number)
        return {}

    @app.get("/api/views/{number}/whole")
    async def whole(number: str) -> Response:
        return await _bytes(desk.whole(number))

    @app.get("/api/views/{number}/sites/{site}")
    async def glance(number: str, site: int) -> Response:
        return await _bytes(desk.glance(number, site))

    @app.get("/api/views/{number}/sites/{site}/heads/{head}")
    async def head(number: str, site: int, head: int) -> Response:
        return await _bytes(desk.cut(number, site, head))

    return app


async def _soon(job: Job) -> dict[str, Any]:
    """A job as it is, at once where it has ended, a little later where it may end soon."""
    await job.wait(0.4)
    return job.about()


async def _bytes(job: Job) -> Response:
    await job.wait(WAIT)
    if job.state == "done":
        return Response(job.result, media_type="application/octet-stream")
    if job.ended:
        return _error(409 if job.state == "stopped" else 400, job.error or "This was stopped.")
    return Ascii(job.about(), 202)


def _error(status: int, sentence: str) -> Ascii:
    return Ascii({"error": sentence}, status)
