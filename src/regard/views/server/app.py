"""HTTP endpoints. They return at once: long work is a job."""

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

from ..html_shell import template_text
from .app_state import AppState
from .jobs import INTERNAL_ERROR, Busy, Job
from .model_session import MAX_CHANGES, Change

log = logging.getLogger("regard.serve")

SHELL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Regard</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css"></head>
<body><regard-app></regard-app><noscript>This page draws attention maps with JavaScript.</noscript>
<script src="/graph.js"></script><script src="/app.js"></script></body></html>"""
LONG_POLL = 20.0  # seconds that a payload request waits before it answers 202 and the page asks again


class AsciiJSONResponse(JSONResponse):
    """JSON with all non-ASCII escaped: file names and labels may contain lone surrogates, which UTF-8 cannot encode."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class FileRequest(BaseModel):
    """A record file: where it comes from, and its name there."""

    origin: Literal["argument", "folder", "upload"] = Field(alias="from")
    name: str = Field(max_length=1000)


class OpenRequest(FileRequest):
    """Request: open a record, alone or compared with another."""

    beside: FileRequest | None = None


class CutRequest(BaseModel):
    """What is cut: a writer's part of the query of a row, or the key of a column."""

    row: int = Field(ge=0, lt=1 << 24)
    column: int = Field(ge=0, lt=1 << 24)
    side: Literal["query", "key"]
    writer: str = Field(max_length=200)


class EditRequest(BaseModel):
    """An intervention: a token masked in every layer, a head of a site made uniform, or a writer cut from a cell."""

    token: int | None = Field(None, ge=0, lt=1 << 24)
    site: str | None = Field(None, max_length=500)
    head: int | None = Field(None, ge=0, lt=1 << 16)
    cut: CutRequest | None = None


class WhyRequest(BaseModel):
    """Request: why a cell of a head has its weight."""

    view: str = Field(max_length=32)
    site: int = Field(ge=0, lt=1 << 16)
    head: int = Field(ge=0, lt=1 << 16)
    row: int = Field(ge=0, lt=1 << 24)
    column: int = Field(ge=0, lt=1 << 24)


class TextRequest(BaseModel):
    """Request: run the model on a text, with edits of its attention."""

    text: str = Field(max_length=200_000)
    changes: list[EditRequest] = Field([], max_length=MAX_CHANGES)
    second: str | None = Field(None, max_length=200_000)  # a text to compare with
    page: str = Field("", max_length=32)  # of the browser: a new run cancels the previous one of the same page


class ExportRequest(BaseModel):
    """Request: export a view as a page or a record."""

    view: str = Field(max_length=32)
    kind: Literal["page", "record"]
    sites: list[str] | None = Field(None, max_length=2000)


def application(state: AppState) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        state.close()

    app = FastAPI(
        title="Regard",
        default_response_class=AsciiJSONResponse,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    scripts = {name: files("regard.views").joinpath(f"static/{name}").read_bytes() for name in ("app.js", "graph.js")}
    frame = template_text("frame.css")

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, problem: HTTPException) -> AsciiJSONResponse:
        return _error(problem.status_code, str(problem.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid_request(_: Request, problem: RequestValidationError) -> AsciiJSONResponse:
        where = ".".join(str(part) for part in problem.errors()[0]["loc"])[:80] if problem.errors() else "the request"
        return _error(422, f"{where} is not valid.")

    @app.exception_handler(Busy)
    async def too_busy(_: Request, problem: Busy) -> AsciiJSONResponse:
        return _error(503, str(problem))

    @app.exception_handler(ValueError)
    async def bad_request(_: Request, problem: ValueError) -> AsciiJSONResponse:
        return _error(400, str(problem))

    @app.exception_handler(LookupError)
    async def not_found(_: Request, problem: LookupError) -> AsciiJSONResponse:
        return _error(404, "Not found: it may have been closed. Reload the page.")

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_: Request, problem: ClientDisconnect) -> AsciiJSONResponse:
        return _error(400, "The client disconnected before the request was complete.")

    @app.exception_handler(Exception)
    async def internal_error(_: Request, problem: Exception) -> AsciiJSONResponse:
        return _error(500, INTERNAL_ERROR)

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
    async def current_state() -> dict[str, Any]:
        return await run_in_threadpool(state.summary)

    @app.post("/api/open")
    async def open_record(which: OpenRequest) -> dict[str, Any]:
        beside = None if which.beside is None else (which.beside.origin, which.beside.name)
        return await _job_state(state.open(which.origin, which.name, beside))

    @app.post("/api/upload")
    async def upload(request: Request, name: Annotated[str, Query(max_length=300)] = "record.regard") -> dict[str, Any]:
        draft = await state.records.receive(name, request.stream())
        return await _job_state(state.accept_upload(name, draft))

    @app.post("/api/read")
    async def read(what: TextRequest) -> dict[str, Any]:
        changes = tuple(
            Change(
                each.token, each.site, each.head, None if each.cut is None else tuple(each.cut.model_dump().values())
            )
            for each in what.changes
        )
        return await _job_state(state.run_model(what.text, changes, what.page, what.second))

    @app.post("/api/why")
    async def why(what: WhyRequest) -> dict[str, Any]:
        return await _job_state(state.why(what.view, what.site, what.head, what.row, what.column))

    @app.post("/api/export")
    async def export(what: ExportRequest) -> dict[str, Any]:
        return await _job_state(state.export(what.view, what.kind, what.sites))

    @app.get("/api/exports/{number}")
    async def exported(number: str) -> FileResponse:
        job = state.jobs[number]
        return FileResponse(state.exports[number], filename=job.result["file"], media_type="application/octet-stream")

    @app.get("/api/jobs/{number}")
    async def job(number: str) -> dict[str, Any]:
        return await _job_state(state.jobs[number])

    @app.delete("/api/jobs/{number}")
    async def stop(number: str) -> dict[str, Any]:
        found = state.jobs[number]
        found.stop()
        return await _job_state(found)

    @app.delete("/api/views/{number}")
    async def close_view(number: str) -> dict[str, Any]:
        state.close_view(number)
        return {}

    @app.get("/api/views/{number}/whole")
    async def whole(number: str) -> Response:
        return await _job_bytes(state.graph_payload(number))

    @app.get("/api/views/{number}/sites/{site}")
    async def overview(number: str, site: int) -> Response:
        return await _job_bytes(state.overview(number, site))

    @app.get("/api/views/{number}/sites/{site}/heads/{head}")
    async def head(number: str, site: int, head: int) -> Response:
        return await _job_bytes(state.head_payload(number, site, head))

    return app


async def _job_state(job: Job) -> dict[str, Any]:
    """State of a job, after a short wait in case it ends soon."""
    await job.wait(0.4)
    return job.about()


async def _job_bytes(job: Job) -> Response:
    await job.wait(LONG_POLL)
    if job.state == "done":
        return Response(job.result, media_type="application/octet-stream")
    if job.ended:
        return _error(409 if job.state == "stopped" else 400, job.error or "This was cancelled.")
    return AsciiJSONResponse(job.about(), 202)


def _error(status: int, sentence: str) -> AsciiJSONResponse:
    return AsciiJSONResponse({"error": sentence}, status)
