"""State of the web application: record repository, open views, model session, jobs, exports."""

import re
import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.recording.pretrained import load_model

from ..page import html_of, write_file
from .jobs import Job, Jobs
from .model_session import Change, ModelSession, source_tokens
from .output_diff import output_diff
from .record_repository import RecordRepository, decoded_name
from .wire_format import COMPARED_NAMES, View

MAX_VIEWS = 48  # open at once; the oldest are closed
MAX_EXPORTS = 8  # exported files that wait to be downloaded


class AppState:
    """The state of one server: records, open views, model session and jobs."""

    def __init__(self, folder: Path, given: Sequence[Path] = (), model: str | None = None, trust: bool = False):
        self.work_dir = Path(tempfile.mkdtemp(prefix="regard-serve-"))
        try:
            self.records = RecordRepository(folder, list(given), self.work_dir)
        except BaseException:
            shutil.rmtree(self.work_dir, ignore_errors=True)
            raise
        self.jobs = Jobs()
        self.views: OrderedDict[str, View] = OrderedDict()
        self.exports: OrderedDict[str, Path] = OrderedDict()
        self.session: ModelSession | None = None
        self._lock = threading.Lock()  # jobs of several lanes open views
        self.loading: Job | None = None
        if model is not None:
            self.loading = self.jobs.submit(
                "model", ("load", model), f"Loading {Path(model).name}", lambda _: self._load(model, trust)
            )

    def close(self) -> None:
        self.jobs.close()
        shutil.rmtree(self.work_dir, ignore_errors=True)

    def _load(self, name: str, trust: bool) -> dict[str, Any]:
        self.session = ModelSession(name, *load_model(name, trust))
        return self.session.about()

    def summary(self) -> dict[str, Any]:
        model = None if self.loading is None else self.loading.about()
        return {
            "folder": decoded_name(self.records.folder.name or str(self.records.folder)),
            "records": self.records.listing(),
            "model": model,
            "jobs": [job.about() for job in self.jobs.active()],
        }

    # records

    def open(self, origin: str, name: str) -> Job:
        def work(job: Job) -> dict[str, Any]:
            return self._open_view(View(self.records.open(origin, name, job.check), name, (origin, name)))

        return self.jobs.submit("files", ("open", origin, name, secrets.token_hex(4)), f"Opening {name}", work)

    def accept_upload(self, name: str, draft: Path) -> Job:
        def work(job: Job) -> dict[str, Any]:
            own = self.records.accept_upload(name, draft, job.check)
            rec = self.records.open("upload", own, job.check)
            return {"from": "upload", "name": own} | self._open_view(View(rec, own, ("upload", own)))

        return self.jobs.submit("files", ("upload", str(draft)), "Checking the record", work)

    def _open_view(self, view: View) -> dict[str, Any]:
        number = secrets.token_hex(8)
        view.wait_for_heads = lambda job: self.jobs.wait_for("heads", job)
        with self._lock:
            self.views[number] = view
            old = list(self.views)[:-MAX_VIEWS]
        for each in old:
            self.close_view(each)
        return {"view": number, "about": view.about()}

    def close_view(self, number: str) -> None:
        """Close a view, and cancel its jobs."""
        self.views.pop(number, None)
        self.jobs.stop(lambda job: job.key[:2] == ("view", number))

    # payloads of a view

    def head_payload(self, number: str, site: int, head: int) -> Job:
        view = self.views[number]
        key = ("view", number, site, head if view.large[site] else None)
        return self.jobs.submit(
            "heads", key, f"Head {head} of {view.names[site]}", lambda _: view.head_payload(site, head)
        )

    def graph_payload(self, number: str) -> Job:
        return self.jobs.submit(
            "heads", ("view", number, "whole"), "Laying out the graph", self.views[number].graph_payload
        )

    def overview(self, number: str, site: int) -> Job:
        view = self.views[number]
        key = ("view", number, site, "overview")
        return self.jobs.submit(
            "overviews", key, f"Thumbnails of {view.names[site]}", lambda job: view.overview(site, job)
        )

    # the model

    def run_model(self, text: str, changes: tuple[Change, ...], page: str = "") -> Job:
        def work(job: Job) -> dict[str, Any]:
            if self.session is None:
                problem = self.loading.error if self.loading is not None else ""
                raise ValueError(problem or "No model was loaded: start with regard serve --model minilm.")
            before, after = self.session.run(text, changes, job)
            job.says = "Preparing the maps"
            job.notes += before.notes
            shown = (
                View(before.rec, self.session.name)
                if after is None
                else View(after.rec, self.session.name, None, before.rec)
            )
            return {
                "maps": self._open_view(shown),
                "output": output_diff(before.output, None if after is None else after.output),
                "tokens": source_tokens(before.rec),
                "notes": list(before.notes),
            }

        if self.loading is None:
            raise ValueError("No model was loaded: start with regard serve --model minilm.")
        self.jobs.stop(lambda job: job.key[:2] == ("read", page))  # the previous run of the same page
        return self.jobs.submit("model", ("read", page, secrets.token_hex(4)), "Running the model", work)

    # exports

    def export(self, number: str, kind: str, sites: "list[str] | None" = None) -> Job:
        view = self.views[number]

        def work(job: Job) -> dict[str, Any]:
            name = f"{view.title.removesuffix('.regard') or 'view'}.{'html' if kind == 'page' else 'regard'}"
            name = re.sub(r"[/\\\\]", "_", name)
            target = self.work_dir / f"{secrets.token_hex(8)}-{kind}"
            if kind == "page":
                chosen = None if sites is None else set(sites)
                keep = None if chosen is None else lambda site: site in chosen
                write_file(
                    html_of(
                        view.rec,
                        title=view.title,
                        sites=keep,
                        beside=view.beside,
                        names=COMPARED_NAMES,
                        progress=job.step,
                    ),
                    target,
                )
            elif view.origin is not None:
                shutil.copyfile(self.records.find(*view.origin), target)
            else:
                view.rec.save(target, job.step)
            self.exports[job.number] = target
            while len(self.exports) > MAX_EXPORTS:
                self.exports.popitem(last=False)[1].unlink(missing_ok=True)
            return {"file": name, "bytes": target.stat().st_size, "job": job.number}

        return self.jobs.submit("files", ("export", secrets.token_hex(4)), "Writing the file", work)
