"""What becomes of attention between queries and keys, in O(n) memory where the change allows it.

`Scores` still follow from queries and keys, `Written` from weights that the model wrote out, `Dense` and `Frozen` are
weights that were put in, `Nothing` is a head that is gone.
"""

import math
from copy import copy as shallow
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import Alignment, Softmax
from regard.core.attend import Attended, attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.plan import make_plan
from regard.core.scores import Modified, PairBias, Score
from regard.core.structures import Structure

from ..capture.calls import ScoredCall, WeightedCall
from ..capture.mask_structure import LOW, closing
from ..capture.snapshot import copied
from .edits import Copy, EditedCall, joined
from .weight_ops import AsItIs, Open, allowed, closed


class OnPairs(EditedCall):
    """What calls over pairs share: closing pairs changes the structure, silencing keys the values."""

    over: Structure
    silent: Tensor | None
    own: bool

    def without(self, open_pairs: Structure, renormalise: bool = True) -> EditedCall:
        if renormalise:
            return self.closed_to(open_pairs)
        return self.given(closed(self.weights(), open_pairs, False))

    def closed_to(self, open_pairs: Structure) -> Any:
        return self._with(over=self.over & open_pairs)

    def silenced(self, keys: Tensor) -> Any:
        return self._with(silent=joined(self.silent, keys))

    def given(self, weights: Tensor) -> EditedCall:
        itself: Any = self  # Scores or Written
        return Dense(itself, weights)

    def _with(self, **changed: Any) -> Any:
        itself: Any = self
        return replace(itself, own=False, **changed)


@dataclass(frozen=True, eq=False)
class LazyWeights(OnPairs):
    """Weights that follow from queries and keys: nothing of n x m is written."""

    call: ScoredCall
    over: Structure
    silent: Tensor | None = None  # (B or 1, m)
    own: bool = True  # nothing has changed yet: the kernel's own output stands

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.call.q.shape[:3], self.call.k.shape[2])

    @property
    def device(self) -> torch.device:
        return self.call.q.device

    def shifted(
        self, query: "dict[tuple[int, int, int], Tensor]", key: "dict[tuple[int, int, int], Tensor]"
    ) -> EditedCall:
        call, heads = self.call, self.call.heads
        q, k, v = call.q.clone(), call.k, call.v
        if key:  # of grouped keys, one head's alone: each has its own from here on
            k = k.repeat_interleave(heads // k.shape[1], 1).clone()
            v = v.repeat_interleave(heads // v.shape[1], 1)
        for tensor, vectors in ((q, query), (k, key)):
            for (item, head, token), vector in vectors.items():
                tensor[item, head, token] += vector.to(tensor.device, tensor.dtype)
        return replace(self, call=replace(call, q=q, k=k, v=v), own=False)

    @property
    def plan(self) -> Any:
        """Of our own attend, which may have another score and alignment."""
        return getattr(self.call, "plan", None)

    @property
    def parts(self) -> dict[str, Any]:
        """Score, alignment and structure, for attend and for the map."""
        score: Score = self.call.score
        if self.call.kernel == "flex_attention":
            score = score | AsItIs()
        align: Alignment = Softmax() if self.plan is None else self.plan.align
        return {"score": score, "align": align, "over": self.over}

    @property
    def open_pairs(self) -> Structure:
        """The structure, less what a bias or a score function closes."""
        call = self.call
        biases = [] if call.bias is None else [call.bias]
        if self.plan is not None and isinstance(self.plan.score, Modified):
            biases += [part.bias for part in self.plan.score.pointwise() if isinstance(part, PairBias)]
        beside: list[Any] = []
        for bias in biases:  # a number that stands in the whole row closes none of its pairs
            beside += [PairBias(bias.detach()), PairBias(-bias.detach().amax(-1, keepdim=True))]
        low = LOW if call.bias is None else closing(call.q, call.k, call.scale)
        low = LOW if math.isnan(low) else low
        beside += call.modifiers
        return self.over & Open(tuple(beside), low) if beside else self.over

    @cached_property
    def attended(self) -> Attended:
        call = self.call
        return attend(call.q, call.k, self.values, **self.parts)

    def weights(self) -> Tensor:
        call = self.call
        tensors = (call.q, call.k, call.bias, call.sink)
        live = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        return self.map().weights(grad=live)

    def allowed(self) -> Tensor | None:
        return allowed(self.open_pairs, self.shape, self.device)

    def uniform(self) -> EditedCall:
        call = self.call  # the softmax of scores that are all 0, which fused kernels run
        q, k = (x.new_zeros((*x.shape[:-1], 1)) for x in (call.q, call.k))
        level = ScoredCall(q, k, call.v, 1.0, self.open_pairs, give=call.give, kernel=call.kernel)
        return LazyWeights(level, level.over, self.silent, own=False)

    def frozen(self, amap: AttentionMap) -> EditedCall:
        return Frozen(self, amap)

    def nothing(self) -> EditedCall:
        return Nothing(self)

    def out(self) -> Tensor:
        if self.own and self.call.own is not None:
            made: Tensor = self.call.own()
            return made.reshape(*self.call.q.shape[:3], self.call.v.shape[-1])
        return self.attended.out

    @property
    def values(self) -> Tensor:
        v = self.call.v
        return v if self.silent is None else v.masked_fill(self.silent[:, None, :, None], 0.0)

    def product(self, weights: Tensor) -> Tensor:
        """weights (B, H, r, m) over the values, (B, H, r, d_v)."""
        return replace(self.call, v=self.values).output(weights)

    def empty(self) -> Tensor:
        v = self.call.v
        return v.new_zeros((*self.shape[:3], v.shape[-1]))

    def map(self) -> AttentionMap:
        call = self.call
        if self.own:
            return call.map()
        if self.plan is not None:
            return self.attended.map
        return LazyMap.of_plan(make_plan(call.q, call.k, call.v, **self.parts), None, None)

    def snapshot(self, copy: Copy) -> AttentionMap:
        if self.plan is not None:
            return self.call.snapshot(copy).map() if self.own else copied(self.map(), copy)
        made = self.call.snapshot(copy)
        return replace(self, call=made, over=self.over.to(made.q.device)).map()


@dataclass(frozen=True, eq=False)
class Written(OnPairs):
    """Weights that the model wrote out; its own product with the values runs again. Weights of 0 were not allowed."""

    call: WeightedCall
    over: Structure
    silent: Tensor | None = None
    own: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.call.weights.shape)

    @property
    def device(self) -> torch.device:
        return self.call.weights.device

    def weights(self) -> Tensor:
        return closed(self.call.weights, self.over)

    def allowed(self) -> Tensor | None:
        return self.weights() != 0

    def uniform(self) -> EditedCall:
        weights = self.weights()
        keep = weights != 0
        return self.given((keep / keep.sum(-1, keepdim=True).clamp_min(1)).to(weights.dtype))

    def nothing(self) -> EditedCall:
        return Nothing(self)

    def out(self) -> Tensor:
        used = self.call.used
        return used if self.own and used is not None else self.product(self.weights())

    def product(self, weights: Tensor) -> Tensor:
        return weights if self.silent is None else weights.masked_fill(self.silent[:, None, None, :], 0.0)

    def empty(self) -> Tensor:
        return torch.zeros_like(self.call.weights)


@dataclass(frozen=True, eq=False)
class Instead(EditedCall):
    """A replacement for a call's own weights; everything else is the call's."""

    base: LazyWeights | Written

    @property
    def shape(self) -> tuple[int, ...]:
        return self.base.shape

    @property
    def device(self) -> torch.device:
        return self.base.device

    def allowed(self) -> Tensor | None:
        return self.base.allowed()

    def uniform(self) -> EditedCall:
        return self.base.uniform()

    def given(self, weights: Tensor) -> EditedCall:
        return self.base.given(weights)

    def frozen(self, amap: AttentionMap) -> EditedCall:
        return self.base.frozen(amap)


@dataclass(frozen=True, eq=False)
class Dense(Instead):
    """Replacement weights."""

    put: Tensor

    def weights(self) -> Tensor:
        return self.put.expand(self.shape)

    def without(self, open_pairs: Structure, renormalise: bool = True) -> EditedCall:
        weights = closed(self.weights(), open_pairs, renormalise)
        base = self.base.closed_to(open_pairs) if renormalise else self.base
        return base.given(weights)

    def silenced(self, keys: Tensor) -> EditedCall:
        return replace(self, base=self.base.silenced(keys))

    def nothing(self) -> EditedCall:
        return Nothing(self.base)

    def out(self) -> Tensor:
        return self.base.product(self.weights())


@dataclass(frozen=True, eq=False)
class Frozen(Dense):
    """The weights of a map, met with the values band by band."""

    base: LazyWeights
    put: AttentionMap  # type: ignore[assignment] # read when it is needed

    def weights(self) -> Tensor:
        return self.put.weights().to(self.device).expand(self.shape)

    def out(self) -> Tensor:
        lead = self.put.lead
        parts = [self.base.product(w.reshape(*lead, *w.shape[1:]).to(self.device)) for _, w in self.put.bands()]
        return torch.cat(parts, -2).expand(*self.shape[:3], -1) if parts else self.base.empty()

    def map(self) -> AttentionMap:
        return shallow(self.put) if self.put.shape == self.shape else super().map()

    def snapshot(self, copy: Copy) -> AttentionMap:
        return shallow(self.put) if self.put.shape == self.shape else super().snapshot(copy)


@dataclass(frozen=True, eq=False)
class Nothing(Instead):
    """Ablated heads: weights 0 and output 0."""

    def weights(self) -> Tensor:
        return torch.zeros((), device=self.device).expand(self.shape)

    def permuted(self, seed: int) -> EditedCall:
        return self

    def without(self, open_pairs: Structure, renormalise: bool = True) -> EditedCall:
        return Nothing(self.base.closed_to(open_pairs)) if renormalise else self

    def silenced(self, keys: Tensor) -> EditedCall:
        return Nothing(self.base.silenced(keys))

    def nothing(self) -> EditedCall:
        return self

    def out(self) -> Tensor:
        return self.base.empty()

    def snapshot(self, copy: Copy) -> AttentionMap:
        return self.map()
