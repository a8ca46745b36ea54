"""attend_sharded: attention over a sequence that is sharded across processes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...core.alignments import Alignment, ReLU, Sigmoid, Softmax, Uniform, alignment_of
from ...core.arguments import number
from ...core.errors import Refused, values_are_checked
from ...core.modifiers import Activation, Clamp, Modified, SoftCap
from ...core.scores import Score, score_of
from ...core.structures import Full, Structure, structure_of
from ...nn.attention import Attention
from .exchange import Group
from .gathered import run_gathered
from .layout import check_layout, spans
from .ring import Ring, run_ring

WAYS = ("auto", "ring", "gather")
POINTWISE = (SoftCap, Activation, Clamp)  # modifiers independent of positions


@dataclass(eq=False)
class ShardedAttended:
    """out (..., H, n / P, d_v) of the local queries; `way` describes the algorithm in a sentence.

    log_mass (..., H, n / P): log-sum-exp of a row's scores over all keys (softmax); None if keys were gathered.
    """

    out: Tensor
    way: str
    log_mass: Tensor | None = None

    def __iter__(self) -> Iterator[object]:
        return iter((self.out, self.way))

    @property
    def map(self) -> None:
        raise AttributeError(
            "A sharded sequence has no map: no process has all keys. Gather the rows of interest, "
            "attend(q[rows], unshard(k, group), unshard(v, group)).map."
        )


def attend_sharded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score" = "scaled_dot",
    align: "str | Alignment" = "softmax",
    over: Structure | None = None,
    *,
    group: Any = None,
    way: str = "auto",
    layout: str = "zigzag",
    timeout: float = 300.0,
    backend: str = "auto",
) -> ShardedAttended:
    """Exact, differentiable attention over a sequence sharded across processes.

        out = attend(all q, all k, all v, ...).out, the rows of this process

    q (..., H, n / P, d), k (..., H_k, m / P, d), v (..., H_k, m / P, d_v): what `shard` gives; parts of one size

    over      the structure of the whole sequence: its n and m, its lengths, ids and masks
    group     a ProcessGroup, a DeviceMesh of one dimension, or None for all processes
    way       "ring": keys and values circulate, O((n + m) / P) memory; softmax, uniform, ReLU, sigmoid with a bias
              "gather": all keys and values on every process, O(m); every alignment
              "auto": the one with less memory; "gather" if the alignment needs whole rows
    layout    "zigzag" (balanced under Causal) or "contiguous"; that of `shard`
    timeout   seconds that one exchange may take before a TimeoutError names the process that did not answer

    Gradients of q, k, v are those of one process. Gradients of a score's parameters are partial: sum
    them over the group. Dropout, sinks and positional scores are refused. Liu et al. 2023.
    """
    where = Group.of(group, number(timeout, "attend_sharded", "timeout", 1e-3))
    ring = _ring(where, q, k, v, score, align, over, layout, backend)
    cannot = _why_not_ring(ring)
    if way not in WAYS:
        raise ValueError(f'attend_sharded(way={way!r}): expected "auto", "ring" or "gather".')
    if way == "ring" and cannot:
        raise Refused(f'attend_sharded(way="ring"): {cannot} Use way="gather".')
    chosen, why = _chosen(ring, q, k, v, way, cannot)
    if chosen == "gather":
        return ShardedAttended(run_gathered(ring, q, k, v), f"gather: {why}")
    out, mass = run_ring(ring, q, k, v)
    return ShardedAttended(out, f"ring: {why}", None if ring.adds_up else mass)


def _ring(
    where: Group,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score",
    align: "str | Alignment",
    over: Structure | None,
    layout: str,
    backend: str,
) -> Ring:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.ndim < 3:
            raise TypeError(f"attend_sharded: {name} is no tensor (..., heads, positions, width).")
    layout, chunks = check_layout(layout), 2 if layout == "zigzag" else 1
    for name, x in (("q", q), ("k", k)):
        if x.shape[-2] % chunks:
            raise ValueError(
                f"attend_sharded: {name} has {x.shape[-2]} positions here, expected an even number (layout="
                '"zigzag" holds two chunks on each process): as from shard(x, group).'
            )
    _check_alike(where, q, k, v)
    made, n, m = score_of(score), q.shape[-2] * where.size, k.shape[-2] * where.size
    _check_score(made)
    structure, normalised = structure_of(over), alignment_of(align)
    if isinstance(normalised, Sigmoid) and normalised.bias is None and isinstance(structure, Full):
        normalised = Sigmoid(bias=-math.log(max(1, m)))  # its default, which depends on the total number of keys
    return Ring(where, layout, made, normalised, structure, n, m, backend)


def _check_alike(where: Group, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Checks that parts have equal sizes on all processes (on a CPU, or with REGARD_CHECK=1)."""
    if not values_are_checked(q):
        return
    mine = torch.tensor([q.shape[-2], k.shape[-2], v.shape[-2]], device=q.device)
    parts = where.gather(mine)
    if any(not torch.equal(part, mine) for part in parts):
        sizes = ", ".join(f"rank {rank} {tuple(part.tolist())}" for rank, part in enumerate(parts))
        raise ValueError(f"attend_sharded: parts (queries, keys, values) differ in size: {sizes}. Use shard(x, group).")


def _check_score(score: Score) -> None:
    if isinstance(score, Modified):
        others = [type(m).__name__ for m in score.modifiers if not isinstance(m, POINTWISE)]
        if others:
            raise Refused(
                f"attend_sharded: {', '.join(others)} depends on positions or adds to a row, which is not supported "
                "for sharded sequences. SoftCap, Clamp and Activation are."
            )
        score = score.score
    if score.positional or score.stepwise or score.features is not None:
        raise Refused(
            f"attend_sharded: {type(score).__name__} depends on positions, steps or features, which is not supported "
            "for sharded sequences. Dot products, additive, general and similarity scores can be sharded."
        )


def _why_not_ring(ring: Ring) -> str:
    kind = type(ring.align)
    if kind is Sigmoid and ring.align.bias is None:
        return "Sigmoid() divides by the number of keys of each row, which is unknown within a block."
    if kind not in (Softmax, Uniform, ReLU, Sigmoid):
        return f"the weights of {kind.__name__} depend on all keys of a row together."
    return ""


def _chosen(ring: Ring, q: Tensor, k: Tensor, v: Tensor, way: str, cannot: str) -> tuple[str, str]:
    """The algorithm and the reason: memory of a process in addition to its own part."""
    parts = (k.numel() + v.numel()) * k.element_size()
    wide = 8 if q.dtype == torch.float64 else 4
    rows = q.numel() // max(1, q.shape[-1])
    going_round = 2 * parts + rows * (v.shape[-1] + 1) * wide
    everything = ring.where.size * parts
    sizes = f"{_mib(everything)} of gathered keys and values, {_mib(going_round)} in a ring"
    if way != "auto":
        return way, f"asked for by name ({sizes})."
    if cannot:
        return "gather", cannot
    return ("gather" if everything <= going_round else "ring"), f"{sizes}, on each process."


def _mib(count: int) -> str:
    return f"{count / 2**20:.3g} MiB"


class ShardedAttention(nn.Module):
    """An nn.Attention whose sequence is sharded: the same parameters, projections of the local part alone.

        query (..., n / P, dim)  ->  out (..., n / P, out_dim)

    Rotary positions are global. Gradients of the weights are partial: average or sum them over the group
    (DistributedDataParallel averages).
    """

    def __init__(self, attention: Attention, group: Any = None, layout: str = "zigzag", way: str = "auto"):
        super().__init__()
        if not isinstance(attention, Attention):
            raise TypeError(
                f"ShardedAttention(attention) is a {type(attention).__name__}, expected a regard.nn.Attention."
            )
        if attention.dropout:
            raise Refused("ShardedAttention: dropout= is not possible over a sharded sequence: build it with 0.")
        self.attention, self.group, self.layout, self.way = attention, group, check_layout(layout), way

    def forward(self, query: Tensor, key: Tensor | None = None, over: Structure | None = None) -> Tensor:
        inner, key = self.attention, query if key is None else key
        q = inner.q_proj(query).unflatten(-1, (inner.heads, -1)).transpose(-3, -2)
        k = inner.k_proj(key).unflatten(-1, (inner.kv_heads, -1)).transpose(-3, -2)
        v = inner.v_proj(key).unflatten(-1, (inner.kv_heads, -1)).transpose(-3, -2)
        if inner.rotary is not None:
            q, k = self._turned(q), self._turned(k)
        found = attend_sharded(
            q, k, v, inner.score, inner.align, over, group=self.group, layout=self.layout, way=self.way
        )
        out: Tensor = inner.out_proj(found.out.transpose(-3, -2).flatten(-2))
        return out

    def _turned(self, x: Tensor) -> Tensor:
        where, rotary = Group.of(self.group), self.attention.rotary
        assert rotary is not None
        parts = spans(where.rank, where.size, x.shape[-2], self.layout)
        return torch.cat([rotary(x[..., rows, :], start) for rows, start in parts], -2)
