"""What a score is: a function of a query and a key, and its hand-over to the kernels."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from ..arguments.synonyms import SCORES_ALSO
from ..lowering.score_kernels import DotCore, OpaqueCore, PairCore
from ..lowering.serialization import Spec
from ..name_registry import Names, built_for

if TYPE_CHECKING:
    from ..modifiers.modifier import Modifier


@dataclass(frozen=True, eq=False)
class Lowered(Spec):
    """A score in normal form, all leading axes flattened to g = batch x heads.

    s_ij = modifiers(core_ij + key_bias_j + row_bias_i); `sink` is the logit of a key without a value.
    key_bias (g, m) or (g, F, m); row_bias (g, n), not there where the alignment ignores a shift of a row; sink (g,).
    """

    core: DotCore | PairCore | OpaqueCore
    key_bias: Tensor | None = None
    row_bias: Tensor | None = None
    modifiers: "tuple[Modifier, ...]" = ()
    sink: Tensor | None = None

    @property
    def features(self) -> int | None:
        if self.key_bias is not None and self.key_bias.ndim == 3:
            return self.key_bias.shape[1]
        return self.core.features

    @property
    def closed(self) -> bool:
        """Whether every gradient is known in closed form, so that a custom operator can run it."""
        return not isinstance(self.core, OpaqueCore) and all(modifier.closed for modifier in self.modifiers)


SCORES: "Names[Score]" = Names("score", SCORES_ALSO)


class Score(nn.Module):
    """How well a query and a key match: q (..., H, n, d_q), k (..., H, m, d_k) -> s (..., H, n, m).

    `forward` is the definition. A feature-wise score returns (..., H, F, n, m) and says F in `features`.
    A score of your own is a subclass with `forward` alone: it must treat each pair by itself (no look across keys),
    and then runs on the reference and on chunked at once. `lower` hands a score to the kernels; None keeps it as is.

    class Canberra(Score, name="canberra") is known by that name wherever a score is asked for; page= says which page of
    docs/mechanisms is about it, the one of its own name unless told.
    """

    features: int | None = None
    stepwise = False
    one_width = False  # whether queries and keys are compared coordinate by coordinate
    positional = False  # whether forward depends on where a key stands, and so cannot be called on slices
    looks_back = False  # whether a query's scores depend on the queries before it, which a cache of keys has not
    ordered = False  # whether a pair's score depends on the keys before it: edges have no order of keys
    # phi, where s_ij = log(phi(q_i) . phi(k_j)) and phi >= 0: softmax of such a score is linear attention, O(n)
    feature_map: Callable[..., Tensor] | None = None

    def __init_subclass__(
        cls, *, name: "str | tuple[str, ...]" = (), free: bool = True, page: str = "", **options: Any
    ) -> None:
        """A subclass with its own forward does not inherit `lower` and what else is true of another definition."""
        super().__init_subclass__(**options)
        if name:
            SCORES.enlist(cls, name, free=free, page=page)
        own = cls.__dict__
        if "shares_keys" not in own:  # a subclass may make other keys
            cls.shares_keys = Score.shares_keys  # type: ignore[method-assign]
        if "forward" in own and "lower" not in own:
            cls.lower = Score.lower  # type: ignore[method-assign]
        if "forward" in own and "feature_map" not in own:
            cls.feature_map = None
        if ("forward" in own or "lower" in own) and "dot_scale" not in own:
            cls.dot_scale = Score.dot_scale  # type: ignore[method-assign]
        if ("forward" in own or "lower" in own) and "keeps_keys" not in own:
            cls.keeps_keys = Score.keeps_keys  # type: ignore[method-assign]
        if "plan_key" not in cls.__dict__:
            cls.plan_key = Score.plan_key  # type: ignore[method-assign]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no forward(q, k): a score of your own defines it.")

    @classmethod
    def built_for(cls, d_q: int, d_k: int, heads: int = 1) -> Self:
        """The learned form for queries of width d_q and keys of width d_k, with parameters for each head: the
        constructor is given what it takes of d_q, d_k, d and heads."""
        return built_for(cls, d_q, d_k, heads)

    @classmethod
    def takes_features(cls) -> bool:
        """Whether it has a feature-wise form: a constructor with `features`, a switch or their number."""
        return "features" in signature(cls).parameters

    @classmethod
    def built_by_feature(cls, d_q: int, d_k: int) -> Self:
        """The learned form with a score for each of d_k features of the values."""
        switch = isinstance(signature(cls).parameters["features"].default, bool)
        return cls(features=True) if switch else built_for(cls, d_q, d_k, 1, features=d_k)

    def plan_key(self) -> Hashable | None:
        """The constants that, beside the shapes, determine the plan of a call; None where it depends on more, such as
        tensors. Not inherited: a subclass may add state."""
        return None

    def check(self, q: Tensor, k: Tensor) -> None:
        """Refuses queries (B, H, n, d_q) and keys (B, H_k, m, d_k) of the wrong size before anything runs."""
        if self.one_width:
            check_alike(self, q, k)

    def feature_count(self, q: Tensor) -> int | None:
        """F, which must be the width of the values; None where a pair has one weight."""
        return self.features

    def lower(self, q: Tensor, k: Tensor) -> Lowered | None:
        """q (B, H, n, d_q), k (B, H, m, d_k), heads already equal."""
        return None

    def shares_keys(self) -> bool:
        """Grouped-query attention: whether `lower` makes the same of a key for every head of queries, so that heads
        can share it. Not inherited: each class says its own."""
        return False

    def dot_scale(self, q: Tensor) -> float | None:
        """The scale of a score that is the dot product of q and k as they are; None of every other."""
        return None

    def keeps_keys(self) -> bool:
        """Whether `lower` hands k over as it is, so that keys that are the values too are read once."""
        return False

    def project_keys(self, k: Tensor) -> Tensor:
        """Of a stepwise score: what its steps read of the keys, once a call."""
        return k

    def start(self, keep: Tensor) -> Tensor:
        """Of a stepwise score: weights before the first step (B, H, m), from the keys that the first query may see:
        uniform."""
        return keep / keep.sum(-1, keepdim=True).clamp_min(1)

    def step(self, q: Tensor, keys: Tensor, previous: Tensor) -> Tensor:
        """Of a stepwise score: one query q (B, H, d_q), projected keys, previous weights (B, H, m) -> (B, H, m)."""
        raise TypeError(f"{type(self).__name__} has no step(q, keys, previous): a stepwise score defines it.")

    def row_bias(self, q: Tensor) -> Tensor | None:
        """(B, H, n): what a query adds to all its scores beside `lower`. Asked for only where the alignment sees it."""
        return None

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        """What edges add to (or multiply) the keys, (B, H, E, d_k), in the space of the core: (B, H, E, w).

        None where the core is not made of k by a linear map alone; the score then runs by its definition.
        """
        return None

    def __or__(self, modifier: "Modifier") -> "Score":
        if not hasattr(modifier, "after"):
            raise TypeError(
                f"score | {type(modifier).__name__}: expected a modifier, for example "
                "ScaledDot() | SoftCap(50.0) | ALiBi(heads=8)."
            )
        return modifier.after(self)


def check_alike(score: Score, q: Tensor, k: Tensor) -> None:
    """For scores that compare q and k coordinate by coordinate."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"{type(score).__name__} compares q and k in one space, but q has width {q.shape[-1]} and k {k.shape[-1]}: "
            f"project one of them, or use General(d_q={q.shape[-1]}, d_k={k.shape[-1]})."
        )


def flat(x: Tensor) -> Tensor:
    """(B, H, n, d) -> (B H, n, d)."""
    return x.flatten(0, 1)


def per_head(parameter: Tensor, q: Tensor) -> Tensor:
    """A parameter (..., shape) or (H, ..., shape) spread over the flattened batch: (B H, ...).

    The first axis of the parameter is 1 or H.
    """
    batch, heads = q.shape[0], q.shape[1]
    return parameter.expand(batch, heads, *parameter.shape[1:]).reshape(batch * heads, *parameter.shape[1:])


def no_scores(q: Tensor, k: Tensor) -> DotCore:
    """A core that is zero everywhere, for scores that live in the key bias alone."""
    empty = (*q.shape[:2], 0)
    return DotCore(
        q.new_zeros((q.shape[0] * q.shape[1], q.shape[2], 0)), k.new_zeros((empty[0] * empty[1], k.shape[2], 0))
    )


def wide(x: Tensor) -> Tensor:
    """fp32 or better: norms and biases are never computed in half precision."""
    return x if x.dtype == torch.float64 else x.float()
