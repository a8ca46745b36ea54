"""What the server has at hand: the shelf of records, the views that are open, the model, the jobs."""

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

from ..page import html_of, write
from .jobs import Job, Jobs
from .model_session import Change, Live, read_by
from .output_diff import told
from .record_repository import Shelf, spelt
from .wire_format import NAMES, View

VIEWS = 48  # that are open; the oldest are let go
EXPORTS = 8  # files that wait to be fetched


class Desk:
    """The state of one server: records, open views, model session and jobs."""

    def __init__(self, folder: Path, given: Sequence[Path] = (), model: str | None = None, trust: bool = False):
        self.room = Path(tempfile.mkdtemp(prefix="regard-serve-"))
        try:
            self.shelf = Shelf(folder, list(given), self.room)
        except BaseException:
            shutil.rmtree(self.room, ignore_errors=True)
            raise
        self.jobs = Jobs()
        self.views: OrderedDict[str, View] = OrderedDict()
        self.exports: OrderedDict[str, Path] = OrderedDict()
        self.live: Live | None = None
        self._lock = threading.Lock()  # jobs of several lanes open views
        self.loading: Job | None = None
        if model is not None:
            self.loading = self.jobs.ask(
                "model", ("load", model), f"Loading {Path(model).name}", lambda _: self._load(model, trust)
            )

    def close(self) -> None:
        self.jobs.close()
        shutil.rmtree(self.room, ignore_errors=True)

    def _load(self, name: str, trust: bool) -> dict[str, Any]:
        self.live = Live(name, *load_model(name, trust))
        return self.live.about()

    def state(self) -> dict[str, Any]:
        model = None if self.loading is None else self.loading.about()
        return {
            "folder": spelt(self.shelf.folder.name or str(self.shelf.folder)),
            "records": self.shelf.listing(),
            "model": model,
            "jobs": [job.about() for job in self.jobs.active()],
        }

    # records

    def open(self, origin: str, name: str) -> Job:
        def work(job: Job) -> dict[str, Any]:
            return self._look(View(self.shelf.open(origin, name, job.check), name, (origin, name)))

        return self.jobs.ask("files", ("open", origin, name, secrets.token_hex(4)), f"Opening {name}", work)

    def admit(self, name: str, draft: Path) -> Job:
        def work(job: Job) -> dict[str, Any]:
            own = self.shelf.admit(name, draft, job.check)
            rec = self.shelf.open("sent", own, job.check)
            return {"from": "sent", "name": own} | self._look(View(rec, own, ("sent", own)))

        return self.jobs.ask("files", ("admit", str(draft)), "Checking the record", work)

    def _look(self, view: View) -> dict[str, Any]:
        number = secrets.token_hex(8)
        view.after_others = lambda job: self.jobs.wait_for("heads", job)
        with self._lock:
            self.views[number] = view
            old = list(self.views)[:-VIEWS]
        for each in old:
            self.leave(each)
        return {"view": number, "about": view.about()}

    def leave(self, number: str) -> None:
        """A view that nobody looks at any more: what is being made for it stops."""
        self.views.pop(number, None)
        self.jobs.stop(lambda job: job.key[:2] == ("view", number))

    # what a view shows

    def cut(self, number: str, site: int, head: int) -> Job:
        view = self.views[number]
        key = ("view", number, site, head if view.large[site] else None)
        return self.jobs.ask("heads", key, f"Head {head} of {view.names[site]}", lambda _: view.cut(site, head))

    def whole(self, number: str) -> Job:
        return self.jobs.ask("heads", ("view", number, "whole"), "Drawing the graph", self.views[number].whole)

    def glance(self, number: str, site: int) -> Job:
        view = self.views[number]
        key = ("view", number, site, "glance")
        return self.jobs.ask("glances", key, f"The heads of {view.names[site]}", lambda job: view.glance(site, job))

    # the model

    def read(self, text: str, changes: tuple[Change, ...], page: str = "") -> Job:
        def work(job: Job) -> dict[str, Any]:
            if self.live is None:
                problem = self.loading.error if self.loading is not None else ""
                raise ValueError(problem or "No model was loaded: start with regard serve --model minilm.")
            before, after = self.live.read(text, changes, job)
            job.says = "Drawing"
            job.notes += before.notes
            shown = (
                View(before.rec, self.live.name) if after is None else View(after.rec, self.live.name, None, before.rec)
            )
            return {
                "seen": self._look(shown),
                "told": told(before.said, None if after is None else after.said),
                "tokens": read_by(before.rec),
                "notes": list(before.notes),
            }

        if self.loading is None:
            raise ValueError("No model was loaded: start with regard serve --model minilm.")
        self.jobs.stop(lambda job: job.key[:2] == ("read", page))  # what was typed there before
        return self.jobs.ask("model", ("read", page, secrets.token_hex(4)), "Reading", work)

    # what leaves

    def export(self, number: str, kind: str, sites: "list[str] | None" = None) -> Job:
        view = self.views[number]

        def work(job: Job) -> dict[str, Any]:
            name = f"{view.title.removesuffix('.regard') or 'view'}.{'html' if kind == 'page' else 'regard'}"
            name = re.sub(r"[/\\\\]", "_", name)
            target = self.room / f"{secrets.token_hex(8)}-{kind}"
            if kind == "page":
                chosen = None if sites is None else set(sites)
                keep = None if chosen is None else lambda site: site in chosen
                write(
                    html_of(view.rec, title=view.title, sites=keep, beside=view.beside, names=NAMES, progress=job.step),
                    target,
                )
            elif view.origin is not None:
                shutil.copyfile(self.shelf.find(*view.origin), target)
            else:
                view.rec.save(target, job.step)
            self.exports[job.number] = target
            while len(self.exports) > EXPORTS:
                self.exports.popitem(last=False)[1].unlink(missing_ok=True)
            return {"file": name, "bytes": target.stat().st_size, "job": job.number}

        return self.jobs.ask("files", ("export", secrets.token_hex(4)), "Writing the file", work)
