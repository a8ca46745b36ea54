"""Interventions: what replaces the attention weights at a site while `regard.intervene` is active."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Mask, Structure

from ..capture.module_stack import Site
from .edits import EditedCall
from .weight_ops import Apart, seeded

__all__ = [
    "DropHeads",
    "Freeze",
    "Here",
    "Intervention",
    "KnockOut",
    "MaskTokens",
    "Patch",
    "Permute",
    "Replace",
    "Shift",
    "Uniform",
    "ZeroValue",
]


@dataclass(frozen=True, eq=False)
class Here:
    """Where an intervention stands: the site, and the call; here.q, here.k, here.v and the like are the call's."""

    site: Site
    call: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.call, name)


class Intervention:
    """What becomes of one attention. One of your own defines `apply(now, here)` from the operations of `now`.

    now   what the call is so far: now.weights() (B, H, n, m), now.given(weights), now.uniform(), now.without(...), ...
    """

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        raise TypeError(f"{type(self).__name__} has no apply(now, here): an intervention of your own defines it.")

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_short(value)}" for name, value in vars(self).items())
        return f"{type(self).__name__}({inside})"


class Uniform(Intervention):
    """Uniform weights over the allowed keys: attention without its scores.

        w_ij = 1 / count_i

    Causality, windows and padding stay; a row without a key stays empty. O(n) memory.
    """

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.uniform()


class Permute(Intervention):
    """Each row's weights, permuted among its allowed keys.

    Drawn by (seed, site, item, head, row, key): the same seed gives the same order, whatever else is in the batch.
    Jain & Wallace 2019.
    """

    def __init__(self, seed: int = 0):
        if not isinstance(seed, int):
            raise TypeError(f"Permute(seed={seed!r}): expected a whole number.")
        self.seed = seed

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.permuted(seeded(self.seed, here.site.path))


class Freeze(Intervention):
    """The weights of a recorded map instead of those of the current queries and keys; the values are the current ones.

    source   a record (each site and call takes its own map from it), or one map for every site that fits
    A model's own record reproduces its outputs; one of keep="topk" has 0 beside the weights that it kept. No gradient
    leads into the map. O(n) memory.
    """

    def __init__(self, source: Any):
        if not isinstance(source, AttentionMap) and not isinstance(_maps(source), Mapping):
            raise TypeError(
                f"{type(self).__name__} got a {type(source).__name__}, expected a record (of "
                "regard.record) or an AttentionMap; weights as a tensor go in by Replace(weights)."
            )
        self.source = source

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        amap = self.found(here.site)
        if not now.fits(amap):
            raise ValueError(
                f"{type(self).__name__}: the map {amap.site or ''} has shape {amap.shape}, but attention "
                f"at {str(here.site)!r} is {now.shape} = {now.axes}: record inputs of the same sizes"
                ", or choose sites with sites of that shape."
            )
        return now.frozen(amap)

    def found(self, site: Site) -> AttentionMap:
        return self.source if isinstance(self.source, AttentionMap) else self._of_record(str(site))

    def _of_record(self, name: str) -> AttentionMap:
        maps = _maps(self.source)
        found: AttentionMap | None = dict(maps).get(name)
        if found is not None:
            return found
        path = name.rpartition(":")[0] or name
        near = [known for known in maps if known == path or known.startswith(f"{path}:")]
        if near:
            raise KeyError(
                f"{type(self).__name__}: the record has {len(near)} calls of {path!r}, and this is "
                f"{name!r}: record as many steps as are run."
            )
        known = ", ".join(list(maps)[:6]) or "nothing; record with keep='qk' or keep='weights'"
        raise KeyError(
            f"{type(self).__name__}: the record has no site {name!r}; it has {known}{', ...' if len(maps) > 6 else ''}."
        )


class Patch(Freeze):
    """The weights that another run had: at the same site and call, or at `site` of that run.

    record   of the other run, over inputs of the same sizes
    site     a site of that run: Patch(record, "encoder.layer.2.attention.self") puts layer 2's weights elsewhere
    """

    def __init__(self, record: Any, site: str | None = None):
        super().__init__(record)
        if isinstance(record, AttentionMap):
            raise TypeError("Patch(record) got one map, expected a record; one map goes in by Freeze(map).")
        self.site = site

    def found(self, site: Site) -> AttentionMap:
        return self._of_record(str(site) if self.site is None else self.site)


class Replace(Intervention):
    """Weights of your own; gradients lead into them, so that they can be optimised.

    weights   a tensor that broadcasts to (batch, heads, queries, keys), taken as it is: rows need not sum to one
              and nothing is masked; or function(weights, here) -> weights, called with those so far
    On a graph they stand on the caller's edges, (heads, edges), or (heads, edges + nodes) with the loops a layer adds.
    """

    def __init__(self, weights: "Tensor | Callable[[Tensor, Here], Tensor]"):
        if not callable(weights) and not (isinstance(weights, Tensor) and weights.is_floating_point()):
            given = f"{weights.dtype} tensor" if isinstance(weights, Tensor) else type(weights).__name__
            raise TypeError(
                f"Replace(weights) got a {given}, expected a floating-point tensor or a function(weights, "
                "here); a recorded map goes in by Freeze(map)."
            )
        self.weights = weights

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        if isinstance(self.weights, Tensor):
            weights, expected = self.weights, now.expected
        else:
            weights, expected = self.weights(now.weights(), here), now.shape
        try:
            return now.given(now.broadcast(weights) if weights is self.weights else weights.expand(now.shape))
        except (RuntimeError, AttributeError):
            given = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            who = "Replace(weights)" if weights is self.weights else "what the function of Replace returned"
            raise ValueError(
                f"At {str(here.site)!r} {who} is {given}, expected weights that broadcast to {expected} = "
                f"{now.axes}: give each site that the pattern fits its own, or a function(weights, here)."
            ) from None


class KnockOut(Intervention):
    """Attention knockout: query i cannot attend to key j.

    pairs         (i, j), ...; or a bool tensor that broadcasts to (batch, heads, queries, keys), True = knocked out
    renormalise   True (unless told): the other weights of the row grow as if the pair's score had been -inf, which is
                  what a mask would do and what the layers above have met; Geva et al. 2023.
                  False: the others stay as they are, so that nothing but the pair's own part leaves the output
    On a row that has no other key the output is 0. O(n) memory with pairs and renormalise.
    """

    def __init__(self, pairs: "Sequence[tuple[int, int]] | Tensor", renormalise: bool = True):
        self.pairs = pairs if isinstance(pairs, Tensor) else torch.tensor(list(pairs), dtype=torch.long)
        if (
            self.pairs.dtype != torch.bool
            and self.pairs.numel()
            and (self.pairs.is_floating_point() or self.pairs.ndim != 2 or self.pairs.shape[-1] != 2)
        ):
            raise ValueError(
                f"KnockOut(pairs) has shape {tuple(self.pairs.shape)} of {self.pairs.dtype}, expected "
                "pairs (query, key) of whole numbers, (count, 2), or a bool tensor (..., queries, keys)."
            )
        self.renormalise = renormalise

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.without(self._open(now, here), self.renormalise)

    def _open(self, now: EditedCall, here: Here) -> Structure:
        pairs, (n, m) = self.pairs.to(now.device), now.sizes
        if pairs.dtype == torch.bool:
            return Mask(keep=~pairs)
        pairs = pairs.reshape(-1, 2)
        for column, size, name in ((0, n, "query"), (1, m, "key")):
            wrong = pairs[(pairs[:, column] < -size) | (pairs[:, column] >= size)]
            if wrong.numel():
                raise IndexError(
                    f"KnockOut(pairs) names the pair {tuple(wrong[0].tolist())}, but {str(here.site)!r} "
                    f"has {n} queries and {m} keys: its {name} must be below {size}."
                )
        return Apart((pairs[:, 0] % n) * m + pairs[:, 1] % m)


class _Keys(Intervention):
    """Some of the keys: their numbers, or a bool tensor (m,) or (batch, m) with True at each."""

    name = "keys"

    def __init__(self, keys: "int | Sequence[int] | Tensor"):
        made = keys if isinstance(keys, Tensor) else torch.tensor([keys] if isinstance(keys, int) else list(keys))
        made = made.long() if made.numel() == 0 and made.dtype != torch.bool else made
        if made.is_floating_point() or made.ndim > (2 if made.dtype == torch.bool else 1):
            raise ValueError(
                f"{type(self).__name__}({self.name}) is {made.dtype} {tuple(made.shape)}, expected a "
                "list of whole numbers, or a bool tensor (keys,) or (batch, keys)."
            )
        setattr(self, self.name, made.reshape(-1) if made.dtype != torch.bool else made)

    def marks(self, now: EditedCall, here: Here) -> Tensor:
        """Bool (batch or 1, m)."""
        keys: Tensor = getattr(self, self.name).to(now.device)
        m, who = now.sizes[1], f"{type(self).__name__}({self.name})"
        if keys.dtype == torch.bool:
            keys = keys if keys.ndim == 2 else keys[None]
            if keys.shape[1] != m or keys.shape[0] not in (1, now.batch):
                raise ValueError(
                    f"{who} has shape {tuple(keys.shape)}, but {str(here.site)!r} has {now.batch} items "
                    f"of {m} keys: expected ({m},) or ({now.batch}, {m})."
                )
            return keys
        wrong = keys[(keys < -m) | (keys >= m)]
        if wrong.numel():
            raise IndexError(
                f"{who} names key {int(wrong[0])}, but {str(here.site)!r} has {m} keys: expected {-m} to "
                f"{m - 1}, or a pattern of sites that have it."
            )
        made = torch.zeros((1, m), dtype=torch.bool, device=now.device)
        made[0, keys] = True
        return made


class ZeroValue(_Keys):
    """The values of some keys are 0: they keep their weights and contribute nothing. O(n) memory.

    keys   their numbers, or a bool tensor (keys,) or (batch, keys). Mohebbi et al. 2023.
    """

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.silenced(self.marks(now, here))


class MaskTokens(_Keys):
    """Masked keys: each row is renormalised over the others, as if their scores were -inf. O(n) memory.

    positions   their numbers, or a bool tensor (keys,) or (batch, keys)
    A row with no other key gives 0.
    """

    name = "positions"

    def __init__(self, positions: "int | Sequence[int] | Tensor"):
        super().__init__(positions)

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.without(Mask(keep=~self.marks(now, here)[:, None, None, :]))


class Shift(Intervention):
    """Vectors added to single queries and keys of single heads; every weight then follows from the changed scores.

        q_i <- q_i + query[item, head, i],    k_j <- k_j + key[item, head, j]

    query, key   by (item, head, token): a vector of the head's width. Of grouped keys, the named head's alone changes
    Path patching needs this: `regard.why(...).cut(writer, run=True)` takes a writer's part away so. O(n) memory.
    """

    def __init__(
        self,
        query: "Mapping[tuple[int, int, int], Tensor] | None" = None,
        key: "Mapping[tuple[int, int, int], Tensor] | None" = None,
    ):
        self.query, self.key = dict(query or {}), dict(key or {})
        for place in [*self.query, *self.key]:
            if not isinstance(place, tuple) or len(place) != 3:
                raise ValueError(f"Shift got {place!r}, expected (item, head, token) as the name of each vector.")

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        return now.shifted(
            {place: self._fitting(vector, now, here) for place, vector in self.query.items()},
            {place: self._fitting(vector, now, here) for place, vector in self.key.items()},
        )

    def _fitting(self, vector: Tensor, now: EditedCall, here: Here) -> Tensor:
        width = here.call.q.shape[-1] if hasattr(here.call, "q") else None
        if width is not None and vector.shape != (width,):
            raise ValueError(
                f"Shift got a vector of {tuple(vector.shape)}, but queries and keys at {str(here.site)!r} have width "
                f"{width}."
            )
        return vector.detach()


class DropHeads(Intervention):
    """Head ablation: weights 0 and output 0. The other heads keep the kernel's output bit for bit. Michel et al. 2019.

    heads   their numbers
    """

    def __init__(self, heads: "int | Sequence[int]"):
        self.heads = [heads] if isinstance(heads, int) else list(heads)

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        heads = numbers(self.heads, now.heads, "DropHeads(heads)", "heads", here)
        return now.mixed(now.nothing(), now.selected(heads, None))


def numbers(index: Any, size: int, who: str, what: str, here: Here) -> "list[int] | None":
    """Heads or rows as whole numbers from 0, or None for all."""
    if index is None:
        return None
    given = list(range(size))[index] if isinstance(index, slice) else [index] if isinstance(index, int) else list(index)
    for i in given:
        if not isinstance(i, int) or not -size <= i < size:
            raise IndexError(
                f"{who} has {i!r}, but {str(here.site)!r} has {size} {what}: expected {-size} to {size - 1}."
            )
    return [i % size for i in given]


def _maps(source: Any) -> Any:
    return getattr(source, "maps", source)


def _short(value: Any) -> str:
    return f"{tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
