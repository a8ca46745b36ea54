"""Calls: one attention that a model computed, in the terms of `attend`."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import Softmax
from regard.core.attend import attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.maps.stored import StoredMap
from regard.core.plan import make_plan
from regard.core.scores import PairBias, ScaledDot, Score, Sink, SoftCap
from regard.core.structures import Causal, Full, Structure

from .edges.edge_maps import CapturedEdgeCall
from .mask_structure import read_mask, shared_copy

SOFTMAX = Softmax()


def as_is(out: Tensor) -> Tensor:
    return out


@lru_cache(maxsize=64)
def scaled_dot(scale: float | None) -> ScaledDot:
    """One score for all calls with the same scale: it has no parameters, and building a module is slow."""
    return ScaledDot(scale=scale)


@dataclass(eq=False)
class ScoredCall:
    """Attention whose queries and keys are known: weights follow from them.

    q (B, H, n, d), k (B, H_k, m, d), v (B, H_k, m, d_v); `give` turns an output (B, H, n, d_v) into what the model's
    own kernel would have returned; `own`, while it runs, runs that kernel (once).
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float | None = None
    over: Structure = field(default_factory=Full)
    bias: Tensor | None = None
    cap: float | None = None
    sink: Tensor | None = None
    modifiers: tuple[Any, ...] = ()
    give: Callable[[Tensor], Any] = as_is
    kernel: str = "sdpa"
    own: Callable[[], Any] | None = None
    copied: bool = False  # whether queries and keys are the record's, which nobody changes

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it was computed from."""
        return self.q, self.k, self.v

    @property
    def score(self) -> Score:
        score: Score = scaled_dot(self.scale)
        if self.cap is not None:
            score = score | SoftCap(self.cap)
        if self.bias is not None:
            score = score | PairBias(self.bias)
        for modifier in self.modifiers:
            score = score | modifier
        if self.sink is not None:
            sink = Sink(self.heads)
            del sink.logits
            sink.logits = self.sink  # the model's own
            score = score | sink
        return score

    def map(self) -> AttentionMap:
        """A lazy map of this call; gradients flow back to the model's tensors."""
        plan = make_plan(self.q, self.k, self.v, self.score, SOFTMAX, self.over)
        if not self.copied:
            return LazyMap.of_plan(plan, None, None)
        return LazyMap.of_plan(plan, None, None, watched=())  # nobody else has its tensors

    @property
    def plain(self) -> bool:
        """Whether queries and keys alone determine the weights."""
        bare = self.bias is None and self.sink is None and self.cap is None and not self.modifiers
        return bare and type(self.over) is Full

    def step(self, q: Tensor, keys: Tensor) -> "ScoredCall":
        """The snapshot of a plain call, from queries and keys that are already copies."""
        return ScoredCall(q, keys, keys[..., :0], self.scale, self.over, kernel=self.kernel, copied=True)

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> "ScoredCall":
        """A snapshot: queries and keys are copied by `keep`, values are dropped."""
        with torch.no_grad():
            q = keep(self.q)
            k = keep(_folded(self.k, self.heads)) if keys is None else keys
            sink = None if self.sink is None else keep(self.sink)
            bias = None if self.bias is None else shared_copy(self.bias).to(q.device)
        over = self.over if type(self.over) is Full else self.over.to(q.device)
        return replace(self, q=q, k=k, v=k[..., :0], sink=sink, bias=bias, over=over, give=as_is, copied=True)

    def output(self, weights: Tensor) -> Tensor:
        """weights (B, H, n, m) over the values, (B, H, n, d_v)."""
        v = self.v if self.v.shape[1] == self.heads else self.v.repeat_interleave(self.heads // self.v.shape[1], 1)
        return weights.to(v.dtype) @ v

    def attended(self, **changed: Any) -> Tensor:
        """The output with another score, alignment, structure or values, (B, H, n, d_v), without an n x m matrix."""
        given: dict[str, Any] = {
            "q": self.q,
            "k": self.k,
            "v": self.v,
            "score": self.score,
            "over": self.over,
        } | changed
        return attend(**given).out


@dataclass(eq=False)
class WeightedCall:
    """Attention whose weights the model wrote out itself, (B, H, n, m), before dropout, and the values if known.

    `used` are those weights as they met the values, after dropout; `give` runs that product with others.
    """

    weights: Tensor
    v: Tensor | None = None
    give: Callable[[Tensor], Any] = as_is
    kernel: str = "softmax"
    used: Tensor | None = None
    own: Callable[[], Any] | None = None
    root: Tensor | None = None  # the model's own tensor that met the values; canonical(root) is `used`
    canonical: Callable[[Tensor], Tensor] = as_is
    plain: bool = False  # whether the values are (..., m, d_v), with the leading axes of the weights
    peak: Tensor | None = None  # (B, H, n, 1) the largest score of each row, where a listener wants it

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def device(self) -> torch.device:
        return self.weights.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (self.weights,)

    def map(self) -> AttentionMap:
        return StoredMap(tuple(self.weights.shape[:2]), self.weights.flatten(0, 1))

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> "WeightedCall":
        with torch.no_grad():
            return replace(self, weights=keep(self.weights), v=None, give=as_is, used=None, root=None, canonical=as_is)


Call = ScoredCall | WeightedCall | CapturedEdgeCall


def read_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    **more: Any,
) -> ScoredCall:
    """From the arguments of a kernel: axes before (length, width) are batch and heads, or batch alone."""
    if mask is None and q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] == v.shape[0]:
        heads, groups = q.shape[1], k.shape[1]
        if groups == v.shape[1] and (groups == heads or heads % groups == 0):  # nearly every call: nothing to be done
            return ScoredCall(q, k, v, scale, Causal("start") if causal else Full(), **more)
    lead = _broadcast(q.shape[:-2], _grouped(k, q), _grouped(v, q))
    axes = len(lead)

    def canonical(x: Tensor) -> Tensor:
        x = x if x.shape[:-3] == lead[:-1] else x.expand(*lead[:-1], *x.shape[-3 if axes else -2 :])
        if axes == 2:
            return x
        return x[None, None] if axes == 0 else x[:, None] if axes == 1 else x.flatten(0, -4)

    def give(out: Tensor) -> Tensor:
        return out.reshape(*lead, *out.shape[-2:])

    q, k, v = (canonical(x) for x in (q, k, v))
    over, bias = read_mask(mask, causal, q, k, scale, lead)
    return ScoredCall(q, k, v, scale, over, bias, give=give, **more)


def _broadcast(*shapes: torch.Size) -> torch.Size:
    """As torch.broadcast_shapes, which imports half a second's worth of symbolic algebra."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    made = []
    for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = {size for size in sizes if size != 1} or {1}
        if len(wide) > 1:
            raise ValueError(f"queries, keys and values do not broadcast: {', '.join(str(tuple(s)) for s in shapes)}")
        made.append(wide.pop())
    return torch.Size(made[::-1])


def _grouped(x: Tensor, q: Tensor) -> torch.Size:
    """Leading axes of grouped keys (GQA), as if the key heads were repeated for each query head."""
    lead = x.shape[:-2]
    if q.ndim > 3 and len(lead) > 1 and lead[-1] not in (1, q.shape[-3]) and q.shape[-3] % lead[-1] == 0:
        return torch.Size((*lead[:-1], q.shape[-3]))
    return lead


def _folded(k: Tensor, heads: int) -> Tensor:
    """Keys without the copies that repeat_kv made for grouped-query attention: (B, H_k, m, d)."""
    if k.shape[1] != heads or heads == 1 or k.numel() == 0:
        return k
    first = k[:, :, 0]
    if not torch.equal(first[:, 0], first[:, 1]):  # the first two heads share their keys in every grouping
        return k
    alike = [True, *(first[:, 1:] == first[:, :-1]).all(-1).all(0).tolist()]  # one token tells most heads apart
    for groups in range(1, heads):
        size = heads // groups
        if heads % groups == 0 and all(alike[h] for h in range(heads) if h % size):
            parts = k.unflatten(1, (groups, size))
            if torch.equal(parts[:, :, :-1], parts[:, :, 1:]):
                return parts[:, :, 0]
    return k
