"""Base class of modifiers, and a score with modifiers, joined with |: ScaledDot() | SoftCap(50.0) | ALiBi(heads=8).

A modifier is a function of one score and its indices (head, query, key). Modifiers apply in order.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import check_scores
from ..lowering.kernel_forms import PAIR_BIAS, ModifierForm
from ..lowering.score_kernels import Grads
from ..lowering.serialization import Spec
from ..lowering.tiles import Tile
from ..scores.score import Lowered, Score


class Modifier(nn.Module, Spec):
    """s'_ij = modify(s_ij, head, i, j).

    `forward(s, tile)` gets s (g, r, c), or (g, F, r, c), and the tile's indices. User-defined modifiers implement only
    this; autograd computes the gradient. Built-in ones have it in closed form (`closed`, `vjp`), so that custom
    operators run them.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    closed = False
    shifts = False  # additive, s' = s + bias: a shift of a row is preserved
    multiplies = False  # s' = s + log factor of exp(s): needs a shift-invariant alignment
    sink: "Tensor | None" = None  # logits of a sink, which leaves the scores of pairs unchanged

    def __init_subclass__(cls, **options: Any) -> None:
        """A subclass that overrides forward does not inherit vjp: autograd is used unless it defines its own."""
        super().__init_subclass__(**options)
        own = cls.__dict__
        if "forward" in own and "vjp" not in own and "closed" not in own:
            cls.vjp = Modifier.vjp  # type: ignore[method-assign]
            cls.closed, cls.shifts = False, bool(own.get("shifts", False))
        if "forward" in own and "kernel_form" not in own:
            cls.kernel_form = Modifier.kernel_form  # type: ignore[method-assign]
        if "forward" in own and "key_bias" not in own:
            cls.key_bias = Modifier.key_bias  # type: ignore[method-assign]

    def check(self, heads: int) -> None:
        """Raises if the number of heads does not match its parameters."""

    def kernel_form(self) -> ModifierForm | None:
        """The modifier's kernel form; None without one. Not inherited by subclasses that override forward."""
        return ModifierForm(PAIR_BIAS) if self.shifts else None

    def kernel_tensor(self) -> Tensor | None:
        """What a form says that it holds: slopes, a table of distances, a bias."""
        return None

    def key_bias(self, batch: int, heads: int, m: int) -> Tensor | None:
        """(batch heads, m), if it equals a key bias under shift-invariant alignments."""
        return None

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no forward(s, tile): define it.")

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        """The gradient for s, from the gradient ds of the output; adds those of the parameters to `grads`."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        with torch.enable_grad():
            s = s.detach().requires_grad_()
            found = torch.autograd.grad(self(s, tile), [s, *parameters], ds, allow_unused=True)
        for target, value in zip(parameters, found[1:], strict=True):
            if value is not None:
                grads.of(target).add_(value)
        return torch.zeros_like(ds) if found[0] is None else found[0]

    def after(self, score: Score) -> "Modified":
        """score | modifier"""
        return Modified(score, self)


class Modified(Score):
    """A score followed by modifiers; made by score | modifier."""

    def __init__(self, score: Score, modifier: Modifier):
        super().__init__()
        inner = score if isinstance(score, Modified) else None
        self.score: Score = inner.score if inner is not None else score
        self.modifiers: nn.ModuleList = nn.ModuleList([*(inner.modifiers if inner is not None else []), modifier])
        sinks = [m for m in self.modifiers if m.sink is not None]
        if len(sinks) > 1:
            raise ValueError(
                "score | Sink(...) | Sink(...): a score takes one Sink; give it one logit a head, Sink(heads)."
            )
        self.features = self.score.features
        self.stepwise = self.score.stepwise
        if self.stepwise:
            raise ValueError(
                f"{type(self.score).__name__} runs step by step and takes no modifiers: use another score."
            )

    def check(self, q: Tensor, k: Tensor) -> None:
        self.score.check(q, k)
        for modifier in self.modifiers:
            modifier.check(q.shape[1])  # type: ignore[operator]

    def feature_count(self, q: Tensor) -> int | None:
        return self.score.feature_count(q)

    @property
    def sink(self) -> Tensor | None:
        for modifier in self.modifiers:
            if modifier.sink is not None:
                return modifier.sink  # type: ignore[return-value]
        return None

    def pointwise(self) -> tuple[Modifier, ...]:
        return tuple(m for m in self.modifiers if not m.sink is not None)  # type: ignore[misc]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.score(q, k)
        check_scores(self.score, s, q, k, self.score.feature_count(q))
        lead, heads = q.shape[:-3], q.shape[-3]
        batch = 1
        for size in lead:
            batch *= size
        tile = Tile.whole(batch, heads, q.shape[-2], k.shape[-2], q.device)
        tail = s.shape[len(lead) + 1 :]
        s = s.reshape(batch * heads, *tail)
        for modifier in self.pointwise():
            s = modifier(s, tile)
        return s.reshape(*lead, heads, *tail)

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        return self.score.edge_part(key, join)

    def lower(self, q: Tensor, k: Tensor) -> Lowered | None:
        inner = self.score.lower(q, k)
        if inner is None:
            return None
        sink = self.sink
        if sink is not None:
            sink = sink.expand(q.shape[0], q.shape[1]).reshape(-1)
        return Lowered(inner.core, inner.key_bias, inner.row_bias, (*inner.modifiers, *self.pointwise()), sink)

    def row_bias(self, q: Tensor) -> Tensor | None:
        return self.score.row_bias(q)

    def shares_keys(self) -> bool:
        """As the score's are, but where a modifier is a number of each key, by head."""
        own = any(type(modifier).key_bias is not Modifier.key_bias for modifier in self.pointwise())
        return self.score.shares_keys() and not own


def spread(bias: Tensor, s: Tensor) -> Tensor:
    """A pair bias (g, r, c), broadcast to scores that may have a feature axis (g, F, r, c)."""
    return bias.unsqueeze(1) if s.ndim == 4 else bias


def gathered_sum(ds: Tensor) -> Tensor:
    """(g, [F,] r, c) -> (g, r, c): the gradient of a bias shared by all features."""
    return ds.sum(1) if ds.ndim == 4 else ds


def by_head(values: Tensor, tile: Tile) -> Tensor:
    """(H,) or (1,) -> (g, 1, 1), one for each head of the tile."""
    return values[tile.head] if values.shape[0] > 1 else values[torch.zeros_like(tile.head)]


def add_by_head(total: Tensor, tile: Tile, value: Tensor) -> None:
    """Sums over the batch without atomics: one-hot heads times the values."""
    if total.shape[0] == 1:
        total += value.sum(0, keepdim=True)
    else:
        one_hot = tile.head.flatten()[None, :] == torch.arange(total.shape[0], device=total.device)[:, None]
        total += one_hot.to(value.dtype) @ value


def add_to_table(total: Tensor, tile: Tile, slots: Tensor, pairs: Tensor) -> None:
    """total (H or 1, slots) += the gradients (g, r, c) of pairs that read its slots (1, r, c), in a fixed order."""
    slots = slots.expand(1, *pairs.shape[1:]).flatten()
    by_slot = torch.zeros(total.shape[1], pairs.shape[0], dtype=pairs.dtype, device=pairs.device)
    values = pairs.flatten(1).transpose(0, 1)
    if pairs.device.type == "cpu":
        by_slot.index_add_(0, slots, values)
    else:
        by_slot.index_put_((slots,), values, accumulate=True)  # sorted on CUDA: a fixed order
    if total.shape[0] == 1:
        total += by_slot.sum(1)[None]
    else:
        one_hot = tile.head.flatten()[None, :] == torch.arange(total.shape[0], device=total.device)[:, None]
        total += one_hot.to(by_slot.dtype) @ by_slot.transpose(0, 1)
