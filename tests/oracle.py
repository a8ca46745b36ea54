"""The oracle: every backend against the reference, over score x alignment x structure x sizes x precision x gradient.

    fp64         the backend equals the reference to within fp64 rounding
    fp32, bf16   error(backend) <= 2 error(reference in the same precision) + 2 ulp, both against the reference in fp64

The second is FlashAttention's rule: no tolerance is picked by hand, the arithmetic that the reference itself does in
that precision says how much may be lost. An ulp is the spacing of the type at the largest number of its kind (the
outputs, or all gradients of the call: a parameter's gradient sums terms that cancel, so its own size says nothing).

Hard, top-k and straight-through weights jump where two scores are close, and the gradients of sparsemax and ReLU jump
where a score is at the threshold; there two precisions may rightly differ. Such rows are found from the fp64 scores
and get no say: their output gradient is zero, and where the output itself jumps it is not compared either.
`Case.decided` has the margin.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

import torch
from hypothesis import strategies as st
from tests.catalogue import ALIGNMENTS, SCORES, STRUCTURES, Room
from torch import Tensor

from regard import Attended, Edges, Entmax, Gumbel, Hard, ReLU, TopK, attend
from regard.core.alignments import Alignment
from regard.core.alignments.sparse import threshold
from regard.core.lowering import blocks
from regard.core.lowering import score_kernels as cores
from regard.core.lowering.tiles import Tile
from regard.core.plan import Plan, make_plan
from regard.core.scores import Modified, Score
from regard.core.structures import Structure
from regard.core.structures.edges import neighbours_of

SIZES: dict[str, tuple[int, int]] = {
    "n=m": (6, 6),
    "n<m": (3, 8),
    "n>m": (9, 4),
    "n=1": (1, 7),
    "m=1": (5, 1),
    "m=0": (4, 0),
    "n=0": (0, 5),
    "odd": (17, 33),
    "odd, n=m": (11, 11),
}
HEADS: dict[str, tuple[int, int]] = {"2": (2, 2), "4 on 2": (4, 2), "3 on 1": (3, 1)}  # queries' heads on keys' heads
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
BATCH = 2
SMALL_BLOCKS = "chunked in small blocks"

# In fp64 a sum of some hundred terms is off by about 1e-14 of its largest, a wrong formula by 1e-3 or more.
# A quarter of the bits apart from either end: what passes is rounding, what fails is not.
FP64_SLACK = 2.0**20 * torch.finfo(torch.float64).eps


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    score: Score
    align: Alignment
    over: Structure

    def leaves(self) -> dict[str, Tensor]:
        """All that a gradient is taken for, by name."""
        named = {"q": self.q, "k": self.k, "v": self.v}
        for part in self.over.parts():
            if isinstance(part, Edges):
                named |= {f"edge {name}": x for name, x in (("key", part.key), ("value", part.value)) if x is not None}
        named |= {f"score.{name}": p for name, p in self.score.named_parameters()}
        return named | {f"align.{name}": p for name, p in self.align.named_parameters()}


@dataclass(frozen=True)
class Case:
    """One cell of the product. Its repr builds it again."""

    score: str = "scaled dot"
    align: str = "softmax"
    over: str = "full"
    size: str = "n=m"
    heads: str = "2"
    dropout: float = 0.0
    seed: int = 0

    @property
    def exists(self) -> bool:
        """Some structures need particular sizes, some scores do not go with edges."""
        return STRUCTURES[self.over](self._room) is not None and not self.plan(torch.float64).refusals["reference"]

    @property
    def _number(self) -> int:
        return crc32(repr(self).encode())

    @property
    def _room(self) -> Room:
        n, m = SIZES[self.size]
        part = SCORES[self.score]
        return Room(BATCH, HEADS[self.heads][0], n, m, part.d_k, part.d_v, torch.Generator().manual_seed(self._number))

    def inputs(self, dtype: torch.dtype) -> Inputs:
        """The same numbers in each precision: all of them are representable in bf16."""
        room, part, way = self._room, SCORES[self.score], ALIGNMENTS[self.align]
        over = STRUCTURES[self.over](room)
        assert over is not None
        over = over if not isinstance(over, Edges) else _in_precision(over, dtype)
        heads, n, m, random = room.heads, room.n, room.m, room.random
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._number)
            score, align = part.make(heads, m), way.make(heads, part.d_q, part.d_k)
        with torch.no_grad():
            for p in (*score.parameters(), *align.parameters()):
                p += 0.3 * torch.randn(p.shape, generator=random)  # nothing starts at zero
        sizes = ((heads, n, part.d_q), (HEADS[self.heads][1], m, part.d_k), (HEADS[self.heads][1], m, part.d_v))
        q, k, v = (torch.randn(BATCH, *size, generator=random).bfloat16().to(dtype).requires_grad_() for size in sizes)
        return Inputs(q, k, v, score.bfloat16().to(dtype), align.bfloat16().to(dtype), over)

    @property
    def options(self) -> dict[str, object]:
        sample = ALIGNMENTS[self.align].sample
        return {"dropout": self.dropout, "sample": sample, "seed": 7 if self.dropout or sample else None}

    def plan(self, dtype: torch.dtype) -> Plan:
        return make_plan(*self.inputs(dtype), **self.options)  # type: ignore[arg-type]

    def ways(self, dtype: torch.dtype) -> list[str]:
        """What else runs this case."""
        willing = [name for name, reasons in self.plan(dtype).refusals.items() if not reasons and name != "reference"]
        return [*willing, SMALL_BLOCKS] if "chunked" in willing else willing

    def decided(self, dtype: torch.dtype) -> Tensor:
        """(B, H, n, 1 or F): rows whose choice is the same in this precision, for any scores that keep the rule."""
        true = self.plan(torch.float64)
        s = true.score(true.q, true.k_by_head).detach()
        if dtype == torch.float64:
            slack = FP64_SLACK * s.abs().amax() if s.numel() else s.new_zeros(())
        else:
            low = self.plan(dtype)
            error = (low.score(low.q, low.k_by_head).double() - s).abs()
            slack = 2 * error.amax() + 2 * ulp(s, dtype) if s.numel() else s.new_zeros(())
        if true.edge_key is not None:  # scores of pairs are not those of edges: jumps are compared in fp64 alone
            jumps = _margin(true, s).isfinite()
            return (~jumps if dtype != torch.float64 else torch.ones_like(jumps)).all().expand(*s.shape[:2], true.n, 1)
        margin = _margin(true, s)  # what the threshold may move, a score may move too: twice the slack
        return (margin > 2 * slack).movedim(2, -1) if margin.ndim == 4 else (margin > 2 * slack)[..., None]

    def outcome(self, dtype: torch.dtype, way: str, say: Tensor) -> "Outcome":
        """Outputs and gradients of one run."""
        inputs = self.inputs(dtype)
        with small_blocks() if way == SMALL_BLOCKS else _as_it_is():
            backend = "chunked" if way == SMALL_BLOCKS else way
            result = attend(*inputs, backend=backend, **self.options)  # type: ignore[arg-type]
            outputs = _outputs(result)
            leaves = inputs.leaves()
            random = torch.Generator().manual_seed(self._number)
            pull = [say * torch.randn(x.shape, generator=random).bfloat16().to(x.dtype) for x in outputs.values()]
            ends = [(x, pulled) for x, pulled in zip(outputs.values(), pull, strict=True) if x.requires_grad]
            found = torch.autograd.grad(
                [x for x, _ in ends], list(leaves.values()), [g for _, g in ends], allow_unused=True
            )
        gradients = {
            name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), found, strict=True)
        }
        for name, x in {**outputs, **gradients}.items():
            assert x.dtype == dtype or name in ("log_prob", "entropy"), f"{name} is {x.dtype}, inputs are {dtype}"
        jumps = isinstance(inputs.align, (Hard, TopK, Gumbel))
        return Outcome({name: x.detach() * say if jumps else x.detach() for name, x in outputs.items()}, gradients)


def _in_precision(graph: Edges, dtype: torch.dtype) -> Edges:
    key, value = (None if x is None else x.bfloat16().to(dtype).requires_grad_() for x in (graph.key, graph.value))
    return replace(graph, key=key, value=value)


class Outcome(NamedTuple):
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]

    def kinds(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        yield "output", self.outputs
        yield "gradient of", self.gradients


def _outputs(result: Attended) -> dict[str, Tensor]:
    """out, and what a draw adds to each row."""
    found = {"out": result.out}
    if result.sample is not None and result.sample.log_prob.ndim == 3:
        found |= {"log_prob": result.sample.log_prob[..., None], "entropy": result.sample.entropy[..., None]}
    return found


def ulp(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The spacing of a type at the largest number of x."""
    return torch.finfo(dtype).eps * (x.abs().amax().double() if x.numel() else torch.zeros((), dtype=torch.float64))


def _margin(plan: Plan, s: Tensor) -> Tensor:
    """How far each row is from deciding otherwise, (B, H, [F,] n), from fp64 scores of all pairs (B, H, [F,] n, m)."""
    align = plan.align
    jumps = isinstance(align, (Hard, TopK, ReLU)) or (isinstance(align, Gumbel) and align.straight_through)
    if not jumps and not (isinstance(align, Entmax) and align.fixed >= 2):
        return s.new_full(s.shape[:-1], float("inf"))
    s, keep, noise, own = _seen(plan, s)
    if isinstance(plan.score, Modified) and plan.score.sink is not None:
        column = plan.score.sink.detach().reshape(-1, *(1 for _ in range(s.ndim - 2))).expand(*s.shape[:-1], 1)
        s, noise = torch.cat([s, column], -1), torch.cat([noise, own.expand(*noise.shape[:-1], 1)], -1)
        keep = torch.cat([keep, keep.any(-1, keepdim=True)], -1)
    s = (s + noise).masked_fill(~keep, float("-inf"))
    if isinstance(align, ReLU):
        return s.abs().amin(-1) if s.shape[-1] else s.new_full(s.shape[:-1], float("inf"))
    if isinstance(align, Entmax):
        gap = (s - threshold(s, align.fixed)[..., None]).abs().masked_fill(~keep, float("inf"))
        return gap.amin(-1) if s.shape[-1] else s.new_full(s.shape[:-1], float("inf"))
    k = align.k if isinstance(align, TopK) else 1
    if s.shape[-1] <= k:
        return s.new_full(s.shape[:-1], float("inf"))
    best = s.topk(k + 1, -1).values
    gap = best[..., k - 1] - best[..., k]
    return gap.masked_fill(best[..., k] == float("-inf"), float("inf"))


def _seen(plan: Plan, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, allowed pairs and noise, (B, H, [F,] n, c), c keys or slots of the row with most edges; sink noise."""
    graph, g = neighbours_of(plan.over), (plan.batch, plan.heads)
    if graph is None:
        tile = Tile.whole(*g, plan.n, plan.m, s.device)
        columns = plan.m
    else:
        rows = torch.arange(plan.n)
        source, edge = graph.padded(rows)
        flat = torch.arange(plan.batch * plan.heads)[:, None, None]
        tile = Tile(
            flat // plan.heads, flat % plan.heads, rows[None, :, None], source[None], plan.n, plan.m, None, edge[None]
        )
        s, columns = s[..., rows[:, None], source], source.shape[1]
    shape = (plan.batch * plan.heads, plan.n, columns)
    keep = plan.over.allowed(tile)
    keep = (torch.ones(shape, dtype=torch.bool) if keep is None else keep.expand(shape)).unflatten(0, g)
    draws = plan.sample and plan.align.samples
    noise = (tile.gumbel(plan.seed).expand(shape) if draws else torch.zeros(shape)).unflatten(0, g)
    own = (tile.gumbel_of_sink(plan.seed) if draws else torch.zeros(*shape[:2], 1)).unflatten(0, g)
    if s.ndim == 4:
        return s, keep, noise, own
    return s, keep.unsqueeze(2).expand(s.shape), noise.unsqueeze(2).expand(s.shape), own.unsqueeze(2)


@contextmanager
def small_blocks(scores: int = 40, pairs: int = 24) -> Iterator[None]:
    """Blocks so small that a few rows already make several slabs, row blocks and column tiles."""
    before = blocks.BLOCK_BUDGET, cores.PAIR_BUDGET
    blocks.BLOCK_BUDGET, cores.PAIR_BUDGET = scores, pairs
    try:
        yield
    finally:
        blocks.BLOCK_BUDGET, cores.PAIR_BUDGET = before


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


class Loss(NamedTuple):
    """How far one tensor is from the truth, how far the reference in the same precision is, and the truth's ulp."""

    error: float
    own: float
    ulp: float

    @property
    def bound(self) -> float:
        return 2 * self.own + 2 * self.ulp

    @property
    def broken(self) -> bool:
        return not self.error <= self.bound  # NaN breaks it too


def disagreements(case: Case, dtypes: tuple[torch.dtype, ...] = DTYPES) -> list[str]:
    """A sentence for each number that breaks the rule; empty where every backend keeps it.

    Rounding errors of a few numbers are a matter of luck: what breaks the rule in fp32 or bf16 must break it in the
    mean over eight draws of the inputs as well.
    """
    found = []
    for dtype in dtypes:
        losses = losses_of(case, dtype)
        broken = [name for name, loss in losses.items() if loss.broken]
        if broken and dtype != torch.float64:
            more = [losses, *(losses_of(replace(case, seed=case.seed + draw), dtype) for draw in range(1, 8))]
            losses = {name: Loss(*(sum(x) for x in zip(*(one[name] for one in more), strict=True))) for name in broken}
        for name in broken:
            if losses[name].broken:
                found.append(f"{name} in {dtype} is off by {losses[name].error:.3g}, allowed {losses[name].bound:.3g}")
    return found


def losses_of(case: Case, dtype: torch.dtype) -> dict[str, Loss]:
    """By backend and tensor."""
    say = case.decided(dtype)
    truth = case.outcome(torch.float64, "reference", say)
    own = truth if dtype == torch.float64 else case.outcome(dtype, "reference", say)
    found = {}
    for way in case.ways(dtype):
        given = case.outcome(dtype, way, say)
        for (kind, mine), (_, true), (_, low) in zip(given.kinds(), truth.kinds(), own.kinds(), strict=True):
            largest = max((x.abs().amax().item() for x in true.values() if x.numel()), default=0.0)
            spacing = largest * (FP64_SLACK / 2 if dtype == torch.float64 else torch.finfo(dtype).eps)
            for name in mine:
                error, lost = (_far(x[name], true[name]) for x in (mine, low))
                found[f"{kind} {name} of {way}"] = Loss(error, lost, spacing)
    return found


def _far(x: Tensor, true: Tensor) -> float:
    return (x.double() - true).abs().amax().item() if x.numel() else 0.0


def plans() -> st.SearchStrategy[Case]:
    """Cells of the product, simplest first."""
    return st.builds(
        Case,
        score=st.sampled_from(list(SCORES)),
        align=st.sampled_from(list(ALIGNMENTS)),
        over=st.sampled_from(list(STRUCTURES)),
        size=st.sampled_from(list(SIZES)),
        heads=st.sampled_from(list(HEADS)),
        dropout=st.sampled_from([0.0, 0.0, 0.3]),
    ).filter(lambda case: case.exists)


def every_case(score: str, align: str) -> Iterator[Case]:
    """All structures and sizes of one score and alignment; heads and dropout take turns."""
    turn = 0
    for over in STRUCTURES:
        for size in SIZES:
            turn += 1
            case = Case(score, align, over, size, list(HEADS)[turn % 3], 0.3 if turn % 4 == 0 else 0.0)
            if case.exists:
                yield case
