"""Ours beside a peer: both are seen to compute the same, then they are timed by turns; the bound stands beside them."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.attend import Attended, attend
from regard.core.plan import plan

from ..measure import BenchResult, captured, extra_mib, gpu_times, single_call

Run = Callable[[], Tensor]
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"
NEAR = {torch.float32: 1e-3, torch.bfloat16: 3e-2}  # |x - y| / |y|: other mathematics would be far outside


class Disagree(ArithmeticError):
    """The two sides of a benchmark compute different things, so that their times say nothing."""


@dataclass(frozen=True)
class Bar:
    """What is aimed at; of what is given, everything counts."""

    times: float | None = None  # of the peer's
    ms: float | None = None
    mib: float | None = None  # of memory beyond the inputs

    def __str__(self) -> str:
        words = []
        if self.times is not None:
            words.append(
                f"{1 / self.times:g} times faster"
                if self.times < 1
                else "not slower"
                if self.times == 1
                else f"at most {self.times:g} times"
            )
        if self.ms is not None:
            words.append(f"at most {self.ms:g} ms")
        if self.mib is not None:
            words.append(f"under {self.mib:g} MiB")
        return ", ".join(words) or "none"

    def held(self, mine: float, theirs: float | None, mib: float | None = None) -> bool | None:
        """None where there is no bar, or nothing to compare with."""
        if self == Bar() or (self.times is not None and theirs is None):
            return None
        kept = [
            self.times is None or mine <= self.times * (theirs or 0.0),
            self.ms is None or mine <= self.ms,
            self.mib is None or (mib is not None and mib < self.mib),
        ]
        return all(kept)


@dataclass(frozen=True)
class BenchSetting:
    """Where it runs. On a GPU: our kernels, compiled peers, bursts of calls. On a CPU: small, whatever runs there.

    warm: everything is compiled and compared, nothing is timed; a second run then starts from what is on the disk.
    """

    device: str = "cuda"
    warm: bool = False

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"

    def made(self, *shapes: Sequence[int], dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
        torch.manual_seed(0)
        return [torch.randn(*shape, device=self.device).to(dtype).requires_grad_() for shape in shapes]

    def attended(self, *call: Any, backend: str = "triton-dense") -> Attended:
        return attend(*call, backend=backend if self.gpu else "chunked")

    def attend(self, *call: Any, backend: str = "triton-dense") -> Tensor:
        return self.attended(*call, backend=backend).out

    def compiled(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """By torch.compile for these sizes alone: sizes met before would make it a kernel for any, which is slower."""
        if not self.gpu:
            return formula
        torch.compiler.reset()
        made: Callable[..., Any] = torch.compile(formula, dynamic=False)
        return made

    def times(self, *runs: Callable[[], Any]) -> list[float]:
        """Milliseconds a call."""
        if self.gpu and not self.warm:
            return gpu_times(*runs)
        return [clocked(run) for run in runs]

    def single(self, run: Callable[[], Any]) -> float:
        """Milliseconds of one call that is waited for, what the processor does before it included."""
        return single_call(run) if self.gpu and not self.warm else clocked(run)

    def memory(self, run: Callable[[], Any]) -> float | None:
        return extra_mib(run) if self.gpu else None

    def graph(self, run: Callable[[], Any]) -> Callable[[], Any]:
        return captured(run) if self.gpu else run

    def least(self, call: Sequence[Any], way: str, backend: str = "triton-dense") -> dict[str, float]:
        """What `regard.plan` predicts: no faster than this; nothing where the plan cannot tell."""
        made = plan(*call, backend=backend if self.gpu else "chunked")
        parts = {FORWARD: (made.bound,), BACKWARD: (made.backward_bound,), BOTH: (made.bound, made.backward_bound)}[way]
        known = [part.seconds for part in parts if part is not None]
        return {"bound_ms": sum(known) * 1e3} if len(known) == len(parts) else {}


@dataclass(frozen=True)
class PeerPair:
    """Ours and a peer over the same tensors.

    call    what `regard.plan` is asked for the bound: q, k, v, score, align, over
    leaves  what gradients are taken of
    truth   what both must agree with; without it, ours must agree with the peer
    unlike  the peer computes something else: a bar may compare two mechanisms
    """

    setting: BenchSetting
    name: str
    ours: Run
    peer: Run | None
    peer_name: str
    call: Sequence[Any]
    leaves: Sequence[Tensor]
    truth: Run | None = None
    unlike: bool = False
    backend: str = "triton-dense"

    def measured(self, way: str, bar: Bar, memory: bool = False, graph: bool = False) -> BenchResult:
        """One row: agreement, times, what one call takes with the processor's part, memory, the bound."""
        apart = self.apart(way)
        inside = {} if graph else self.kernels(way)  # before a gradient keeps its forward, which no graph may meet
        mine, theirs = (None if run is None else _way(run, way, self.leaves) for run in (self.ours, self.peer))
        assert mine is not None
        extra = self.setting.memory(mine) if memory or bar.mib is not None else None
        notes: dict[str, Any] = {**apart, **self.setting.least(self.call, way, self.backend)}
        notes["single_ms"] = self.setting.single(mine)
        if theirs is not None:
            notes["peer_single_ms"] = self.setting.single(theirs)
            if memory and self.setting.gpu:
                notes["peer_extra_mib"] = self.setting.memory(theirs)
        if extra is not None:
            notes["extra_mib"] = extra
        if graph:
            mine, theirs = self.setting.graph(mine), None if theirs is None else self.setting.graph(theirs)
        notes |= inside
        took = self.setting.times(*(run for run in (mine, theirs) if run is not None))
        other = took[1] if theirs is not None else None
        if "bound_ms" in notes and took[0] > 0:
            notes["of_bound"] = notes["bound_ms"] / took[0]
        name = f"{self.name}, {way}" + (", in a CUDA graph" if graph else "")
        return BenchResult(name, "ms", took[0], other, self.peer_name, str(bar), bar.held(took[0], other, extra), notes)

    def kernels(self, way: str) -> dict[str, Any]:
        """What both sides take in a CUDA graph, where the processor has no part; why not, where one cannot be kept.

        A gradient by itself belongs to the stream of its forward: there it is the difference of two graphs.
        """
        found: dict[str, Any] = {}
        for name, run in (("graph_ms", self.ours), ("peer_graph_ms", self.peer)):
            if run is None:
                continue
            ways = (BOTH, FORWARD) if way == BACKWARD else (way,)
            try:
                took = [self.setting.times(self.setting.graph(_way(run, one, self.leaves)))[0] for one in ways]
            except Exception as problem:  # a peer may wait for the card, or compile when it is called
                found[name.replace("_ms", "_refused")] = f"{type(problem).__name__}: {problem}"[:200]
            else:
                found[name] = took[0] - sum(took[1:])
        return found

    def apart(self, way: str) -> dict[str, float]:
        """How far ours and the peer lie from what they should be, |x - y| / |y| at most; an error where that is far."""
        true = self._made(self.truth or self.peer, way)
        near = NEAR[self.leaves[0].dtype] * (1 if way == FORWARD else 2)
        sides: dict[str, tuple[Run | None, float]] = {"apart": (self.ours, near)}
        if self.truth is not None and not self.unlike:  # a peer may be coarser than ours, but must mean the same
            sides["peer_apart"] = (self.peer, 3 * near)
        found = {name: _apart(self._made(run, way), true) for name, (run, _) in sides.items() if run is not None}
        for name, far in found.items():
            if not far <= sides[name][1]:
                side = "ours" if name == "apart" else self.peer_name
                other = self.peer_name if self.truth is None else "the formula"
                raise Disagree(
                    f"{self.name}, {way}: {side} and {other} differ by {far:.2g} of their size, expected "
                    f"{sides[name][1]:g} at most."
                )
        return found

    def _made(self, run: Run | None, way: str) -> list[Tensor]:
        """The output, or the gradients; the same is pulled on every side."""
        assert run is not None, "a benchmark without a peer needs a truth"
        if way == FORWARD:
            with torch.no_grad():
                return [run()]
        out = run()
        pull = torch.randn(out.shape, generator=torch.Generator(out.device).manual_seed(1), device=out.device)
        return list(torch.autograd.grad(out, self.leaves, pull.to(out.dtype)))


def _apart(mine: list[Tensor], true: list[Tensor]) -> float:
    """Of the output, or of each gradient of q, k and v; those of parameters, some of which all but cancel, together."""
    groups = [[i] for i in range(len(true[:3]))] + ([list(range(3, len(true)))] if len(true) > 3 else [])
    found = []
    for group in groups:
        x, y = (torch.cat([side[i].flatten().float() for i in group]) for side in (mine, true))
        found.append(float((x - y).norm() / y.norm().clamp_min(1e-30)))
    return max(found)


def _way(run: Run, way: str, leaves: Sequence[Tensor]) -> Callable[[], Any]:
    if way == FORWARD:
        return torch.no_grad()(run)
    if way == BACKWARD:
        out = run()
        held = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, leaves, held, retain_graph=True)
    pull = torch.randn_like(run())
    return lambda: torch.autograd.grad(run(), leaves, pull)


def clocked(run: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


@contextlib.contextmanager
def kernels_compiled() -> Iterator[list[str]]:
    """The names of Triton's kernels that are compiled, or read from the disk, within."""
    from triton import knobs

    names: list[str] = []

    def heard(**told: Any) -> None:
        names.append(str(told["repr"]).split("[", 1)[0])

    before = knobs.runtime.jit_post_compile_hook
    knobs.runtime.jit_post_compile_hook = heard
    try:
        yield names
    finally:
        knobs.runtime.jit_post_compile_hook = before
