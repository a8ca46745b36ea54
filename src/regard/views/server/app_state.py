"""State of the web application: record repository, open views, model session, jobs, exports."""

import re
import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.recording.pretrained import load_model
from regard.recording.record import Record

from ..page import distinct_names, html_of, write_file
from .jobs import Busy, Job, Jobs
from .model_session import Change, ModelSession, source_tokens
from .output_diff import output_diff
from .record_repository import RecordRepository, decoded_name
from .wire_format import View

MAX_VIEWS = 48  # open at once; the oldest are closed
MAX_EXPORTS = 8  # exported files that wait to be downloaded


class AppState:
    """The state of one server: records, open views, model session and jobs."""

    def __init__(
        self,
        folder: Path,
        given: Sequence[Path] = (),
        model: str | None = None,
        trust: bool = False,
        device: str = "cpu",
        dtype: "torch.dtype | None" = None,
    ):
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
                "model",
                ("load", model),
                f"Loading {Path(model).name}",
                lambda _: self._load(model, trust, device, dtype),
            )

    def close(self) -> None:
        self.jobs.close()
        shutil.rmtree(self.work_dir, ignore_errors=True)

    def _load(self, name: str, trust: bool, device: str, dtype: "torch.dtype | None") -> dict[str, Any]:
        self.session = ModelSession(name, *load_model(name, trust, device, dtype))
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

    def open(self, origin: str, name: str, beside: "tuple[str, str] | None" = None) -> Job:
        """Open a record; with `beside`, as the difference from another one."""

        def work(job: Job) -> dict[str, Any]:
            rec = self.records.open(origin, name, job.check)
            if beside is None:
                return self._open_view(View(rec, name, (origin, name)))
            other = self.records.open(*beside, job.check)
            return self._open_view(View(rec, name, None, other, distinct_names(name, beside[1])))

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

    def run_model(self, text: str, changes: tuple[Change, ...], page: str = "", second: str | None = None) -> Job:
        if second is not None and changes:
            raise ValueError("Interventions are on one text: send either changes or second.")

        def work(job: Job) -> dict[str, Any]:
            if self.session is None:
                problem = self.loading.error if self.loading is not None else ""
                raise ValueError(problem or "No model was loaded: start with regard serve --model minilm.")
            before, after = self.session.run(text, changes, job)
            other = None if second is None else self.session.run(second, (), job)[0]
            job.says = "Preparing the maps"
            job.notes += before.notes
            name = self.session.name
            if other is not None:
                job.notes += tuple(note for note in other.notes if note not in before.notes)
                shown = View(before.rec, name, None, other.rec, ("first", "second"))
            elif after is not None:
                shown = View(after.rec, name, None, before.rec)
            else:
                shown = View(before.rec, name)
            if other is None:  # the first question of why then finds its run taken apart
                key = ("trace", page, secrets.token_hex(4))
                with suppress(Busy):
                    self.jobs.submit("model", key, "Taking the run apart", partial(self._prepare, before.rec))
            return {
                "maps": self._open_view(shown),
                "output": output_diff(before.output, None if after is None else after.output),
                "tokens": source_tokens(before.rec),
                "notes": list(before.notes),
            }

        if self.loading is None:
            raise ValueError("No model was loaded: start with regard serve --model minilm.")
        # the previous run of the same page
        self.jobs.stop(lambda job: job.key[:2] in (("read", page), ("trace", page)))
        return self.jobs.submit("model", ("read", page, secrets.token_hex(4)), "Running the model", work)

    def _prepare(self, rec: Record, job: Job) -> None:
        if self.session is not None:
            self.session.prepare(rec, job)

    def why(self, number: str, site: int, head: int, row: int, column: int) -> Job:
        """Why a cell of the live model's run has its weight; of a run with interventions, of the plain one."""
        view = self.views[number]

        def work(job: Job) -> dict[str, Any]:
            if self.session is None:
                raise ValueError("Only a model that runs here can say why: start with regard serve --model minilm.")
            if not site < len(view.names):
                raise IndexError(f"site {site}: this view has {len(view.names)} sites.")
            rec = view.rec if view.beside is None else view.beside
            name = view.names[site]
            return self.session.why(rec, name if name in rec.maps else f"{name}:0", head, row, column)

        return self.jobs.submit("model", ("why", number, secrets.token_hex(4)), "Looking for what wrote it", work)

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
                        names=view.compared,
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
