"""A model that reads what is typed, as it is and with some of its attention changed."""

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from regard.recording.interventions.edits import EditedCall
from regard.recording.interventions.intervene import intervene
from regard.recording.interventions.interventions import Here, Intervention, MaskTokens, Uniform
from regard.recording.pretrained import record_run
from regard.recording.record import Record

from ..payload import joined
from .jobs import Job
from .output_diff import Said, said

log = logging.getLogger("regard.serve")

KEPT = 12  # readings
CHANGES = 64  # at a time


@dataclass(frozen=True)
class Change:
    """A token that nobody sees, or a head whose weights are all equal."""

    token: int | None = None
    site: str | None = None
    head: int | None = None


@dataclass(frozen=True)
class SessionRun:
    """One run of the model on a text: its attention, and what it gave."""

    rec: Record
    said: Said
    notes: tuple[str, ...]


class Live:
    """A loaded model. Its last readings are kept: going back to one costs nothing."""

    def __init__(self, name: str, model: Any, tokenizer: Any):
        self.name, self.model, self.tokenizer = Path(name).name or name, model, tokenizer
        self._kept: OrderedDict[tuple[str, tuple[Change, ...]], SessionRun] = OrderedDict()

    def about(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

    def read(self, text: str, changes: tuple[Change, ...], job: Job) -> tuple[SessionRun, SessionRun | None]:
        """As it is, and changed; the job stops between any two modules of the model."""
        runs = sum((text, some) not in self._kept for some in {(), changes})
        with self._followed(job, runs):
            before = self._reading(text, (), None)
            return before, self._reading(text, changes, before.rec) if changes else None

    def _reading(self, text: str, changes: tuple[Change, ...], plain: Record | None) -> SessionRun:
        found = self._kept.get((text, changes))
        if found is None:
            notes: list[str] = []
            if plain is None:
                rec, ran = record_run(self.model, self.tokenizer, text, self.name, tell=notes.append)
                for note in notes:
                    log.warning(note)  # in the terminal, as on the page
            else:
                with intervene(self.model, placed(changes, plain)):
                    rec, ran = record_run(self.model, self.tokenizer, text, self.name, tell=notes.append)
            found = SessionRun(rec, said(self.model, self.tokenizer, ran), tuple(notes))
            while len(self._kept) >= KEPT:
                self._kept.popitem(last=False)
            self._kept[text, changes] = found
        self._kept.move_to_end((text, changes))
        return found

    @contextmanager
    def _followed(self, job: Job, runs: int) -> Iterator[None]:
        """The job hears of every module that starts, and may stop there."""
        own, of, count = threading.get_ident(), runs * sum(1 for _ in self.model.modules()), 0

        def starts(*_: Any) -> None:
            nonlocal count
            if threading.get_ident() == own:
                count += 1
                job.step(min(count, of), of)

        hook = register_module_forward_pre_hook(starts)
        try:
            yield
        finally:
            hook.remove()


class _Only(Intervention):
    """An intervention at some of the times that a module runs, on some of its heads."""

    def __init__(self, inner: Intervention, calls: "frozenset[int] | None", head: int | None = None):
        self.inner, self.calls, self.head = inner, calls, head

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        if self.calls is not None and here.site.call not in self.calls:
            return now
        after = self.inner.apply(now, here)
        return after if self.head is None else now.mixed(after, now.selected([self.head], None))


def placed(changes: tuple[Change, ...], plain: Record) -> dict[str, list[Intervention]]:
    """Interventions by module path, in order; where each belongs is read from the run without them."""
    made: dict[str, list[Intervention]] = {}
    source = read_by(plain)
    groups = joined(plain.maps)
    for change in changes:
        if change.token is not None:
            if not 0 <= change.token < len(source):
                raise IndexError(
                    f"token {change.token}: this text has {len(source)} tokens, expected 0 to {len(source) - 1}."
                )
            reads = [path for path, amaps in by_path(plain).items() if all(_of(amap, source) for amap in amaps)]
            for path in reads:
                made.setdefault(escape(path), []).append(MaskTokens([change.token]))
        else:
            group = groups.get(change.site or "")
            if group is None:
                raise ValueError(f"There is no site {str(change.site)[:80]!r} in this model.")
            if change.head is None or not 0 <= change.head < group[0].heads:
                raise IndexError(
                    f"head {change.head}: {change.site} has {group[0].heads} heads, expected 0 to {group[0].heads - 1}."
                )
            path = re.sub(r":\d+$", "", str(change.site))
            alone = sum(re.sub(r":\d+$", "", name) == path for name in groups) == 1
            calls = None if alone else frozenset(_call(amap.site) for amap in group)
            made.setdefault(escape(path), []).append(_Only(Uniform(), calls, change.head))
    return made


def read_by(rec: Record) -> list[str]:
    """The tokens of the text that was read."""
    axes = rec.labels.runs[0].get("source", []) if rec.labels.runs else []
    return list(axes[0].names) if axes else []


def by_path(rec: Record) -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = {}
    for name, amap in rec.maps.items():
        made.setdefault(re.sub(r":\d+$", "", name), []).append(amap)
    return made


def _of(amap: Any, source: list[str]) -> bool:
    """Whether its keys are the text that was read, and perhaps what was written after it."""
    columns = amap[0].columns if len(amap.lead) > 1 else amap.columns
    return columns is not None and list(columns)[: len(source)] == list(source)


def _call(site: str | None) -> int:
    last = (site or "").rpartition(":")[2]
    return int(last) if last.isdigit() else 0
