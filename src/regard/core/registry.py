"""Where backends enlist. Core knows their shape and their order, never their code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch import Tensor

from .alignments import RowState
from .arguments import shown
from .errors import Refused

if TYPE_CHECKING:
    from .lowering.blocks import Problem
    from .maps.lazy import LazyMap
    from .plan import Plan

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class BackendResult:
    """What a backend hands back: out (B, H, n, d_v); the row state if it has it; what sampling and steps add."""

    out: Tensor
    state: RowState | None = None
    index: Tensor | None = None  # the keys chosen, (g, n, ...), where the rest of the state is left to the map
    log_prob: Tensor | None = None
    entropy: Tensor | None = None
    weights: Tensor | None = None  # stored by stepwise mechanisms alone
    last: Tensor | None = None  # what a stepwise mechanism hands to the next step


CompiledRun = Callable[[Tensor, Tensor, Tensor], BackendResult]  # a call from q, k, v (B, H, n, d) alone


class Backend(Protocol):
    """How a plan runs. The two methods with a body are optional for those who inherit from this class."""

    name: str

    def refusals(self, plan: "Plan") -> list[str]:
        """Why this backend does not run this plan, as sentences; empty if it does."""

    def defers(self, plan: "Plan") -> bool:
        """Whether "auto" defers to a later backend that runs this plan faster."""

    def run(self, plan: "Plan") -> BackendResult: ...

    def fast_path(self, plan: "Plan") -> CompiledRun | None:
        """How to run calls with the shapes, types and constants of this plan without planning them, or None: such a
        call must give the same bits as `run`. Asked of plans whose parts all have a plan_key (core/plan_cache)."""
        return None

    def plain_because(self) -> str | None:
        """Why this backend never takes its fast path here, as a sentence: an untested version, say."""
        return None


_backends: list[Backend] = []


def enlist(backend: Backend) -> None:
    """Backends are tried in the order in which they enlist."""
    _backends.append(backend)


def backends() -> list[Backend]:
    return _backends


class MapReader(Protocol):
    """A faster way to read lazy maps than their bands; None for what it does not know. g counts a map's heads."""

    def tau(self, problem: "Problem") -> Tensor | None:
        """(g, [F,] n) of every head, where that is all of the row state."""

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


def first(ask: Callable[[MapReader], T | None]) -> T | None:
    """What the first reader says that knows."""
    return next((found for reader in readers if (found := ask(reader)) is not None), None)


def choose(plan: "Plan", name: str) -> Backend:
    """The named backend or an error with its reasons; "auto" takes the first that does not refuse."""
    if not isinstance(name, str):
        raise TypeError(f'backend= got {shown(name)}, expected "auto" or the name of a backend.')
    if name == "auto":
        runs = None
        for backend in _backends:  # a later backend is asked only where the earlier ones refuse or defer
            if not backend.refusals(plan):
                if not backend.defers(plan):
                    return backend
                runs = runs or backend
        if runs is not None:
            return runs
        reasons = "\n".join(f"  {b.name}: {' '.join(b.refusals(plan))}" for b in _backends)
        raise Refused(f"No backend runs this attention:\n{reasons}")
    for backend in _backends:
        if backend.name == name:
            reasons_list = backend.refusals(plan)
            if reasons_list:
                raise Refused(
                    f"backend={name!r} does not run this attention: {' '.join(reasons_list)} "
                    'backend="auto" picks one that does.'
                )
            return backend
    known = ", ".join(repr(b.name) for b in _backends)
    raise ValueError(f'backend={shown(name)} is unknown; expected "auto" or one of {known}.')
