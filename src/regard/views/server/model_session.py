"""A loaded model that runs on a text, plain and with attention interventions."""

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from regard.core.errors import Refused
from regard.recording.decomposition.why import traced
from regard.recording.interventions.edits import EditedCall
from regard.recording.interventions.intervene import intervene
from regard.recording.interventions.interventions import Here, Intervention, MaskTokens, Uniform
from regard.recording.pretrained import record_run
from regard.recording.record import Record

from ..payload.site_payload import join_steps
from .jobs import Job
from .output_diff import ModelOutput, model_output
from .why_answer import cut_shift, why_answer

log = logging.getLogger("regard.serve")

CACHED_RUNS = 12  # runs
MAX_CHANGES = 64  # per run
MAX_PREPARED = 2048  # tokens of a run that is taken apart unasked


@dataclass(frozen=True)
class Change:
    """An intervention: a token masked in every layer, a head made uniform, or a writer cut from a query or key of it.

    cut   (row, column, side, writer)
    """

    token: int | None = None
    site: str | None = None
    head: int | None = None
    cut: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class SessionRun:
    """One run of the model on a text: record and output."""

    rec: Record
    output: ModelOutput
    notes: tuple[str, ...]


class ModelSession:
    """A loaded model, with a cache of its last runs."""

    def __init__(self, name: str, model: Any, tokenizer: Any):
        self.name, self.model, self.tokenizer = Path(name).name or name, model, tokenizer
        self._runs: OrderedDict[tuple[str, tuple[Change, ...]], SessionRun] = OrderedDict()

    def about(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

    def run(self, text: str, changes: tuple[Change, ...], job: Job) -> tuple[SessionRun, SessionRun | None]:
        """Plain and intervened run; the job can be cancelled between any two modules of the model."""
        runs = sum((text, some) not in self._runs for some in {(), changes})
        with self._reporting_progress(job, runs):
            before = self._run(text, (), None)
            return before, self._run(text, changes, before.rec) if changes else None

    def why(self, rec: Record, site: str, head: int, row: int, column: int) -> dict[str, Any]:
        """Why a cell has its weight; one run at a time is kept taken apart."""
        self._forget_others(rec)
        return why_answer(rec, site, head, row, column)

    def prepare(self, rec: Record, job: Job) -> None:
        """Take a run apart before it is asked for, where that is possible and its text is not long."""
        if max((amap.n for amap in rec.maps.values()), default=0) > MAX_PREPARED:
            return
        self._forget_others(rec)
        with self._reporting_progress(job, 1), suppress(Refused):
            traced(rec)

    def _forget_others(self, rec: Record) -> None:
        for each in self._runs.values():
            if each.rec is not rec:
                each.rec.__dict__.pop("_traced", None)

    def _run(self, text: str, changes: tuple[Change, ...], plain: Record | None) -> SessionRun:
        found = self._runs.get((text, changes))
        if found is None:
            notes: list[str] = []
            if plain is None:
                rec, ran = record_run(self.model, self.tokenizer, text, self.name, tell=notes.append)
                for note in notes:
                    log.warning(note)  # in the terminal and on the page
            else:
                with intervene(self.model, interventions_of(changes, plain)):
                    rec, ran = record_run(self.model, self.tokenizer, text, self.name, tell=notes.append)
            found = SessionRun(rec, model_output(self.model, self.tokenizer, ran), tuple(notes))
            while len(self._runs) >= CACHED_RUNS:
                self._runs.popitem(last=False)
            self._runs[text, changes] = found
        self._runs.move_to_end((text, changes))
        return found

    @contextmanager
    def _reporting_progress(self, job: Job, runs: int) -> Iterator[None]:
        """Report progress to the job, and check for cancellation, before every module."""
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


class _AtCalls(Intervention):
    """An intervention on one head, or at some calls of a module only."""

    def __init__(self, inner: Intervention, calls: "frozenset[int] | None", head: int | None = None):
        self.inner, self.calls, self.head = inner, calls, head

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        if self.calls is not None and here.site.call not in self.calls:
            return now
        after = self.inner.apply(now, here)
        return after if self.head is None else now.mixed(after, now.selected([self.head], None))


def interventions_of(changes: tuple[Change, ...], plain: Record) -> dict[str, list[Intervention]]:
    """Interventions by module path, in order; the sites are those of the plain run."""
    made: dict[str, list[Intervention]] = {}
    source = source_tokens(plain)
    groups = join_steps(plain.maps)
    for change in changes:
        if change.token is not None:
            if not 0 <= change.token < len(source):
                raise IndexError(
                    f"token {change.token}: this text has {len(source)} tokens, expected 0 to {len(source) - 1}."
                )
            reads = [
                path
                for path, amaps in maps_by_path(plain).items()
                if all(_reads_source(amap, source) for amap in amaps)
            ]
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
            if change.cut is not None:
                shift = cut_shift(plain, str(group[0].site), change.head, *change.cut)
                made.setdefault(escape(path), []).append(_AtCalls(shift, frozenset([_call_number(group[0].site)])))
                continue
            alone = sum(re.sub(r":\d+$", "", name) == path for name in groups) == 1
            calls = None if alone else frozenset(_call_number(amap.site) for amap in group)
            made.setdefault(escape(path), []).append(_AtCalls(Uniform(), calls, change.head))
    return made


def source_tokens(rec: Record) -> list[str]:
    """Tokens of the input text."""
    axes = rec.labels.runs[0].get("source", []) if rec.labels.runs else []
    return list(axes[0].names) if axes else []


def maps_by_path(rec: Record) -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = {}
    for name, amap in rec.maps.items():
        made.setdefault(re.sub(r":\d+$", "", name), []).append(amap)
    return made


def _reads_source(amap: Any, source: list[str]) -> bool:
    """Whether its keys are the input tokens, possibly followed by generated ones."""
    columns = amap[0].columns if len(amap.lead) > 1 else amap.columns
    return columns is not None and list(columns)[: len(source)] == list(source)


def _call_number(site: str | None) -> int:
    last = (site or "").rpartition(":")[2]
    return int(last) if last.isdigit() else 0
