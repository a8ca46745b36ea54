"""Registry of backends and of map readers, and dispatch: core knows their protocol and order, not their code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch import Tensor

from .alignments import RowState
from .arguments import shown
from .arguments.synonyms import BACKENDS_ELSEWHERE, near, spelled
from .errors import Refused

if TYPE_CHECKING:
    from .lowering.blocks import Problem
    from .lowering.support import Support
    from .maps.lazy import LazyMap
    from .plan import Plan

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class BackendResult:
    """Result of a backend: out (B, H, n, d_v); the row state if available; samples and state."""

    out: Tensor
    state: RowState | None = None
    index: Tensor | None = None  # selected keys, (g, n, ...), where the map computes the rest of the state
    log_prob: Tensor | None = None
    entropy: Tensor | None = None
    weights: Tensor | None = None  # stored by stepwise mechanisms alone
    last: Tensor | None = None  # state of a stepwise mechanism for the next step


CompiledRun = Callable[[Tensor, Tensor, Tensor], BackendResult]  # a call from q, k, v (B, H, n, d) alone


class Backend(Protocol):
    """Protocol of a backend. The methods with a body are optional for subclasses."""

    name: str
    support: "Support | None" = None  # of kernels that read kernel forms (core/lowering/support.py)

    def refusals(self, plan: "Plan") -> list[str]:
        """Why this backend does not run this plan, as sentences; empty if it does."""

    def part_refusals(self, plan: "Plan") -> list[str]:
        """Why it does not support the parts of a plan, regardless of device, precision and sizes."""
        return self.refusals(plan) if self.support is None else self.support.refusals(plan)

    def defers(self, plan: "Plan") -> bool:
        """Whether "auto" defers to a later backend that runs this plan faster."""

    def run(self, plan: "Plan") -> BackendResult: ...

    def fast_path(self, plan: "Plan") -> CompiledRun | None:
        """How to run calls with the shapes, types and constants of this plan without planning them, or None: such a
        call must give the same bits as `run`. Called for plans whose parts all have a plan_key (core/plan_cache)."""
        return None

    def plain_because(self) -> str | None:
        """Why this backend never takes its fast path here, as a sentence: for example an untested version."""
        return None


_backends: list[Backend] = []


def enlist(backend: Backend) -> None:
    """Registers a backend; "auto" tries them in the order in which they register."""
    _backends.append(backend)


def backends() -> list[Backend]:
    return _backends


class MapReader(Protocol):
    """Kernels that read lazy maps faster than band by band; None where there is no kernel. g counts a map's heads."""

    def tau(self, problem: "Problem") -> Tensor | None:
        """(g, [F,] n) of every head, if tau is the whole row state."""

    def cells(self, amap: "LazyMap", cell: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """mass, peak and count of the finest level of a pyramid, (g, [F,] rows of cells, columns of cells); count
        has no feature axis."""

    def entropy(self, amap: "LazyMap") -> Tensor | None:
        """(g, [F,] n)"""

    def mass(self, amap: "LazyMap") -> Tensor | None:
        """(g, [F,] m)"""

    def band(self, amap: "LazyMap", rows: slice, cols: slice) -> Tensor | None:
        """The weights of some rows and columns, (g, [F,] r, c)."""

    def within(self, amap: "LazyMap", places: Tensor, cell: int) -> Tensor | None:
        """The weights of some cells, (count, cell, cell); places (count, 3) are their head, row and column."""


readers: list[MapReader] = []
RowStatistics = Callable[["Problem"], tuple[Tensor, Tensor, Tensor]]
_row_statistics: list[RowStatistics] = []


def enlist_row_statistics(function: RowStatistics) -> None:
    """Registers what computes the largest logit, the entropy and the log-sum-exp of each row, (g, [F,] n)."""
    _row_statistics.append(function)


def row_statistics(problem: "Problem") -> tuple[Tensor, Tensor, Tensor]:
    return _row_statistics[-1](problem)


def first(ask: Callable[[MapReader], T | None]) -> T | None:
    """The result of the first reader that has a kernel for it."""
    return next((result for reader in readers if (result := ask(reader)) is not None), None)


def choose(plan: "Plan", name: str) -> Backend:
    """The named backend or an error with its reasons; "auto" takes the first that does not refuse."""
    if not isinstance(name, str):
        raise TypeError(f'backend= got {shown(name)}, expected "auto" or the name of a backend.')
    if name == "auto":
        willing = None
        for backend in () if plan.part_refusals else _backends:  # in order; the first that neither refuses nor defers
            if not backend.refusals(plan):
                if not backend.defers(plan):
                    return backend
                willing = willing or backend
        if willing is not None:
            return willing
        reasons = "\n".join(f"  {b.name}: {' '.join(b.refusals(plan))}" for b in _backends)
        raise Refused(f"No backend runs this attention:\n{reasons}")
    for backend in _backends:
        if backend.name == name:
            reasons_list = plan.part_refusals or backend.refusals(plan)
            if reasons_list:
                raise Refused(
                    f"backend={name!r} does not run this attention: {' '.join(reasons_list)} "
                    'backend="auto" picks one that does.'
                )
            return backend
    names = ", ".join(repr(b.name) for b in _backends)
    hint = BACKENDS_ELSEWHERE.get(spelled(name)) if isinstance(name, str) else None
    if hint is not None:
        raise ValueError(f'backend={name!r}: {hint}. Backends here are "auto", {names}.')
    hint = near(name, [b.name for b in _backends]) if isinstance(name, str) else ""
    hint = f": {hint} Expected" if hint else "; expected"
    raise ValueError(f'backend={shown(name)} is unknown{hint} "auto" or one of {names}.')
