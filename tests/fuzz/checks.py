"""What must hold of a random case, by whatever runs it.

    out, gradients   error <= 2 error(reference in the same precision) + 2 ulp, against the reference in fp64
    again            with new numbers, and with those numbers put into the same tensors in place
    either path      the same bits with cached plans and calls past the dispatcher as without (REGARD_FAST_PATH=0)
    the map          out = weights @ v, by the weights that the map says
    memory           what lies around the tensors, NaN, is what it was

A broken sum in less than fp64 may be luck: it must be broken in the mean over eight draws of the numbers too.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from tests.fuzz.case import DTYPES, Fuzzed, tensors_of
from tests.oracle import FP64_SLACK, SMALL_BLOCKS, Inputs, Loss, small_blocks
from torch import Tensor

from regard import Attended, Gumbel, Hard, TopK, attend
from regard.core import fast_path
from regard.core.errors import Refused
from regard.core.maps.lazy import LazyMap

OF_MAP = "the distance of out from map.weights() @ v"
AS_TORCH_IS = ("sdpa", "flex", "auto")  # on a GPU as deterministic as torch is told to be
DRAWS = 8  # of numbers, over which the errors of a case are averaged before it is called wrong
Found = dict[str, Tensor]


@contextmanager
def path(fast: bool) -> Iterator[None]:
    before = fast_path.enabled
    fast_path.enabled = fast and before
    try:
        yield
    finally:
        fast_path.enabled = before


def backends_of(case: Fuzzed) -> list[str]:
    """What runs it, but the reference in fp64; kinds of kernels their backends alone."""
    dtype = DTYPES[case.config.dtype]
    willing = [name for name, reasons in case.plan(dtype).refusals.items() if not reasons]
    if case.kind == "triton":
        return [name for name in willing if name.startswith("triton")]
    willing = [name for name in willing if name != "reference" or dtype != torch.float64]
    return [*willing, "auto", *([SMALL_BLOCKS] if "chunked" in willing else [])]


class Run:
    """One call and its gradients; `pull` is the gradient of each output."""

    def __init__(self, inputs: Inputs, leaves: Found, options: dict[str, object], backend: str, say: Tensor, seed: int):
        scores = max(40, inputs.q.numel() // inputs.q.shape[-1] * inputs.k.shape[-2] // 20)  # some twenty blocks
        blocks = small_blocks(scores, scores // 2) if backend == SMALL_BLOCKS else path(fast_path.enabled)
        backend = "chunked" if backend == SMALL_BLOCKS else backend
        with blocks:
            self.result: Attended = attend(*inputs, backend=backend, **options)  # type: ignore[arg-type]
            outputs = {"out": self.result.out}
            drawn = self.result.sample
            if drawn is not None and drawn.log_prob.ndim == self.result.out.ndim - 1:
                outputs |= {"log_prob": drawn.log_prob[..., None], "entropy": drawn.entropy[..., None]}
            chance = torch.Generator().manual_seed(seed)
            ends = []
            say = say[(0,) * (4 - self.result.out.ndim)] if self.result.out.ndim < 4 else say
            for x in outputs.values():
                g = torch.randn(x.shape, generator=chance).bfloat16().half().to(x.device, x.dtype)
                ends.append((x, g * say.to(x.device, x.dtype)))
            ends = [(x, g) for x, g in ends if x.requires_grad]
            given = list(leaves.values())
            grads = torch.autograd.grad([x for x, _ in ends], given, [g for _, g in ends], allow_unused=True)
        jumps = isinstance(inputs.align, (Hard, TopK, Gumbel))
        self.outputs = {
            name: x.detach() * say.to(x.device, x.dtype) if jumps else x.detach() for name, x in outputs.items()
        }
        self.gradients = {
            name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), grads, strict=True)
        }

        self._inputs, self._dropout = inputs, bool(options["dropout"])

    def of_map(self) -> Tensor | None:
        """map.weights() @ v in fp64, (..., H, n, d_v); None where weights are not all that the values meet."""
        inputs, amap, v = self._inputs, self.result.map, self._inputs.v.detach().double()
        if any(getattr(part, "value", None) is not None for part in inputs.over.parts()):
            return None  # an edge's own value is not among the values
        if not isinstance(amap, LazyMap) or (self._dropout and not amap.replayable):
            return None
        w = amap.weights(dropout=True).double()
        v = torch.where(v.isnan(), 0.0, v)  # of keys that no query may see
        v = v if v.ndim == 2 else v.repeat_interleave(inputs.q.shape[-3] // v.shape[-3], -3)
        return torch.einsum("...fnm,...mf->...nf", w, v) if w.ndim == v.ndim + 1 else w @ v

    def kinds(self) -> Iterator[tuple[str, Found]]:
        yield "", self.outputs
        yield "gradient of ", self.gradients


def _beside_map(run: Run) -> float | None:
    """How far the output is from the values under the weights of its map."""
    found = run.of_map()
    return None if found is None else _far(run.result.out.detach(), found)


class Truth:
    """A case's outputs and gradients in fp64, and how far the reference is from them in the case's precision."""

    def __init__(self, case: Fuzzed):
        self.case, self.dtype = case, DTYPES[case.config.dtype]
        at_home = replace(case, device="cpu")
        self.say = at_home.decided(self.dtype)
        self.true = Run(*at_home.drawn(torch.float64), case.options, "reference", self.say, case.number)
        own = self.true if self.dtype == torch.float64 else self.run("reference")
        self.lost = {kind + name: _far(x, y) for kind, name, x, y in self._pairs(own)}
        self.lost_by_map = _beside_map(own) or 0.0

    def run(self, backend: str) -> Run:
        return Run(*self.case.drawn(self.dtype), self.case.options, backend, self.say, self.case.number)

    def _pairs(self, run: Run) -> Iterator[tuple[str, str, Tensor, Tensor]]:
        for (kind, mine), (_, true) in zip(run.kinds(), self.true.kinds(), strict=True):
            for name, x in mine.items():
                yield kind, name, x, true[name]

    def losses(self, run: Run, with_map: bool = True) -> dict[str, Loss]:
        spacing = {}
        for kind, true in self.true.kinds():
            largest = max((x.abs().amax().item() for x in true.values() if x.numel()), default=0.0)
            eps = FP64_SLACK / 2 if self.dtype == torch.float64 else torch.finfo(self.dtype).eps
            spacing[kind] = largest * eps
        found = {
            kind + name: Loss(_far(x, y), self.lost[kind + name], spacing[kind])
            for kind, name, x, y in self._pairs(run)
        }
        apart = _beside_map(run) if with_map else None
        if apart is not None:
            found[OF_MAP] = Loss(apart, 2 * self.lost["out"] + self.lost_by_map, 2 * spacing[""])
        return found


def wrong_with(case: Fuzzed) -> tuple[list[str], list[str]]:
    """A sentence for each thing that does not hold, and what ran."""
    wrong: list[str] = []
    first, second = Truth(case), Truth(case.other_numbers())
    ways = backends_of(case)
    for way in ways:
        try:
            wrong += [f"{way}: {what}" for what in _wrong_by(way, first, second)]
        except Refused as refusal:
            if way != "auto" and not str(refusal):
                raise
            wrong.append(f"{way}: refused while it ran: {_short(refusal)}")
        except Exception as error:
            wrong.append(f"{way}: {type(error).__name__}: {_short(error)}")
    return wrong, ways


def _wrong_by(way: str, first: Truth, second: Truth) -> Iterator[str]:
    with path(True):
        drawn, other = first.case.drawn(first.dtype), second.case.drawn(first.dtype)
        run = Run(*drawn, first.case.options, way, first.say, first.case.number)
        yield from _too_far(way, first, run, "")
        if first.case.kind != "triton":  # slow; in place, the numbers are new as well
            yield from _too_far(way, second, second.run(way), " with new numbers")
        if _put(drawn, other):
            fast = Run(*drawn, second.case.options, way, second.say, second.case.number)
            yield from _too_far(way, second, fast, " after in-place changes")
        else:
            fast = Run(*drawn, first.case.options, way, first.say, first.case.number)
    with path(False):
        chosen = second if _same_numbers(drawn, other) else first
        plain = Run(*drawn, chosen.case.options, way, chosen.say, chosen.case.number)
    if first.case.device == "cuda" and way in AS_TORCH_IS:
        return
    for (kind, mine), (_, there) in zip(fast.kinds(), plain.kinds(), strict=True):
        for name, x in mine.items():
            if not torch.equal(_bits(x), _bits(there[name])):
                apart = _far(x, there[name])
                yield f"{kind}{name} has other bits by the fast path than by the plain one, {apart:.3g} apart"


def _too_far(way: str, truth: Truth, run: Run, when: str) -> Iterator[str]:
    losses = truth.losses(run, with_map=not when)
    for name, x in {**run.outputs, **run.gradients}.items():
        if x.dtype != truth.dtype and name not in ("log_prob", "entropy"):
            yield f"{name} is {x.dtype}"
    broken = [name for name, loss in losses.items() if loss.broken]
    if broken and truth.dtype != torch.float64 and all(math.isfinite(losses[name].error) for name in broken):
        more = [losses]
        for draw in range(1, DRAWS):
            another = Truth(replace(truth.case, seed=truth.case.seed + draw))
            more.append(another.losses(another.run(way), with_map=OF_MAP in broken))
        losses = {name: _mean([one[name] for one in more]) for name in broken}
    for name in broken:
        if losses[name].broken:
            yield f"{name} is off by {losses[name].error:.3g}, allowed {losses[name].bound:.3g}{when}"


def _mean(losses: list[Loss]) -> Loss:
    return Loss(*(sum(x) / len(losses) for x in zip(*losses, strict=True)))


def _put(drawn: tuple[Inputs, Found], other: tuple[Inputs, Found]) -> bool:
    """The numbers of another call in place of those of this one; False where its tensors are of other shapes."""
    pairs = [(x, other[1][name]) for name, x in drawn[1].items()]
    pairs += [(x, y) for (_, x), (_, y) in zip(tensors_of(drawn[0].over), tensors_of(other[0].over), strict=True)]
    if any(x.shape != y.shape for x, y in pairs):
        return False
    with torch.no_grad():
        for x, y in pairs:
            x.copy_(y)
    return True


def _same_numbers(drawn: tuple[Inputs, Found], other: tuple[Inputs, Found]) -> bool:
    return all(torch.equal(_bits(x), _bits(other[1][name])) for name, x in drawn[1].items())


def _bits(x: Tensor) -> Tensor:
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.detach().contiguous().view(kind)


def _far(x: Tensor, true: Tensor) -> float:
    return (x.double().cpu() - true.double().cpu()).abs().amax().item() if x.numel() else 0.0


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
