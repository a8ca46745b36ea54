"""EditedCall: what a call becomes when its weights are changed.

Every kind of call offers the same few operations, and each gives another altered call, so that interventions compose.
The kinds: `altered_pairs` (queries and keys) and `altered_edges` (graphs). `Mixed` is one of two by head and row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.stored import StoredMap
from regard.core.structures import Structure

from .weight_ops import MixedMap, marked, permuted

Copy = Callable[[Tensor], Tensor]
Vectors = dict[tuple[int, int, int], Tensor]  # by (item, head, token)


class EditedCall:
    """One attention call, edited or not yet. weights (B, H, n, m), or (H, [F,] E) on the edges of a graph."""

    axes = "(batch, heads, queries, keys)"

    @property
    def shape(self) -> tuple[int, ...]:
        raise TypeError(f"{type(self).__name__} has no shape.")

    @property
    def expected(self) -> tuple[int, ...]:
        """The shape that replacement weights must broadcast to."""
        return self.shape

    @property
    def heads(self) -> int:
        return self.shape[1]

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of queries and keys, (n, m)."""
        return self.shape[-2], self.shape[-1]

    def weights(self) -> Tensor:
        """All weights; gradients flow to their inputs."""
        raise TypeError(f"{type(self).__name__} has no weights().")

    def allowed(self) -> Tensor | None:
        """The allowed pairs, bool, broadcasting to the weights; None if all are."""
        raise TypeError(f"{type(self).__name__} has no allowed().")

    def uniform(self) -> "EditedCall":
        """The same weight for each allowed key."""
        raise TypeError(f"{type(self).__name__} has no uniform().")

    def permuted(self, seed: int) -> "EditedCall":
        """Each row's weights, permuted among its allowed keys."""
        weights, keep = self.weights(), self.allowed()
        return self.given(permuted(weights, keep, seed))

    def without(self, open_pairs: Structure, renormalise: bool = True) -> "EditedCall":
        """Only the pairs that are open."""
        raise TypeError(f"{type(self).__name__} has no without().")

    def silenced(self, keys: Tensor) -> "EditedCall":
        """The values of these keys are 0: keys (batch or 1, m), bool."""
        raise TypeError(f"{type(self).__name__} has no silenced().")

    def shifted(
        self, query: "dict[tuple[int, int, int], Tensor]", key: "dict[tuple[int, int, int], Tensor]"
    ) -> "EditedCall":
        """Vectors added to queries and keys, by (item, head, token)."""
        raise TypeError(
            "Shift changes queries and keys, and here they are not known (a graph, weights that the model wrote out or "
            "that were put in): use Replace(weights)."
        )

    def given(self, weights: Tensor) -> "EditedCall":
        """Other weights, in the shape of these."""
        raise TypeError(f"{type(self).__name__} has no given().")

    def broadcast(self, weights: Tensor) -> Tensor:
        """Weights of the user's in the shape of these; an error of torch's where they do not fit."""
        if weights.ndim == 0:
            raise RuntimeError("a number is no row of weights")
        return weights.to(self.device).expand(self.shape)

    def fits(self, amap: AttentionMap) -> bool:
        """Whether a map has weights for these pairs; a batch or heads of one serve all."""
        lead = reversed(self.shape[:-2])
        return (
            amap.shape[-2:] == self.shape[-2:]
            and len(amap.shape) <= len(self.shape)
            and all(a in (1, b) for a, b in zip(reversed(amap.lead), lead, strict=False))
        )

    def frozen(self, amap: AttentionMap) -> "EditedCall":
        """The weights of a map."""
        return self.given(amap.weights().to(self.device))

    def nothing(self) -> "EditedCall":
        """All weights 0."""
        raise TypeError(f"{type(self).__name__} has no nothing().")

    def selected(self, heads: "list[int] | None", rows: "list[int] | None") -> Tensor:
        """Bool that broadcasts to weights and output: (1, H, n, 1)."""
        n, device = self.sizes[0], self.device
        chosen = torch.ones((1, self.heads, n, 1), dtype=torch.bool, device=device)
        if heads is not None:
            chosen = chosen & marked(heads, self.heads, device)[:, None, None]
        return chosen if rows is None else chosen & marked(rows, n, device)[:, None]

    def mixed(self, after: "EditedCall", where: Tensor) -> "EditedCall":
        return PartialEdit(self, after, where)

    @property
    def device(self) -> torch.device:
        raise TypeError(f"{type(self).__name__} has no device.")

    def out(self) -> Tensor:
        """What call.give takes: the output (B, H, n, d_v), or weights where the model's own product follows."""
        raise TypeError(f"{type(self).__name__} has no out().")

    def map(self) -> AttentionMap:
        weights = self.weights()
        return StoredMap(tuple(weights.shape[:2]), weights.flatten(0, 1))

    def snapshot(self, copy: Copy) -> AttentionMap:
        """The map, with tensors of its own."""
        weights = self.weights()
        return StoredMap(tuple(weights.shape[:2]), copy(weights.detach()).flatten(0, 1), rooted=False)


@dataclass(frozen=True, eq=False)
class PartialEdit(EditedCall):
    """`after` where (1, H, n, 1) says so, else `before`."""

    before: EditedCall
    after: EditedCall
    where: Tensor

    def both(self, change: Callable[[EditedCall], EditedCall]) -> EditedCall:
        return replace(self, before=change(self.before), after=change(self.after))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.before.shape

    def fits(self, amap: AttentionMap) -> bool:
        return self.before.fits(amap)

    @property
    def device(self) -> torch.device:
        return self.before.device

    def weights(self) -> Tensor:
        return torch.where(self.where, self.after.weights(), self.before.weights())

    def allowed(self) -> Tensor | None:
        before, after = (
            torch.ones((), dtype=torch.bool, device=self.device) if keep is None else keep
            for keep in (self.before.allowed(), self.after.allowed())
        )
        return torch.where(self.where, after, before)

    def uniform(self) -> EditedCall:
        return self.both(lambda side: side.uniform())

    def without(self, open_pairs: Structure, renormalise: bool = True) -> EditedCall:
        return self.both(lambda side: side.without(open_pairs, renormalise))

    def silenced(self, keys: Tensor) -> EditedCall:
        return self.both(lambda side: side.silenced(keys))

    def given(self, weights: Tensor) -> EditedCall:
        return self.both(lambda side: side.given(weights))

    def frozen(self, amap: AttentionMap) -> EditedCall:
        return self.both(lambda side: side.frozen(amap))

    def nothing(self) -> EditedCall:
        return self.both(lambda side: side.nothing())

    def out(self) -> Tensor:
        before = self.before.out()
        return torch.where(self.where, self.after.out().to(before.dtype), before)

    def map(self) -> AttentionMap:
        return MixedMap(self.before.map(), self.after.map(), self.where)

    def snapshot(self, copy: Copy) -> AttentionMap:
        before, after = self.before.snapshot(copy), self.after.snapshot(copy)
        return MixedMap(before, after, copy(self.where))


def joined(one: Tensor | None, two: Tensor) -> Tensor:
    return two if one is None else one | two
