"""Pointwise modifiers of a score, joined with |: ScaledDot() | SoftCap(50.0) | ALiBi(heads=8).

A modifier is a function of one score and of where its pair stands (head, query, key). Order matters and is kept.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..activations import activation, check_activation, derivative
from ..arguments import SMALLEST, flag, number, shown, sizes, whole
from ..errors import check_heads
from ..lowering.score_kernels import Grads
from ..lowering.serialization import Spec
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of


class Modifier(nn.Module, Spec):
    """s'_ij = modify(s_ij, head, i, j).

    `forward(s, tile)` sees s (g, r, c), or (g, F, r, c), and the tile's indices. A modifier of your own defines it
    alone; its gradient is then taken by torch. Built-in ones know theirs (`closed`), so that custom operators run them.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    closed = False
    shifts = False  # s' = s + something: a constant added to a row passes through

    def __init_subclass__(cls, **options: Any) -> None:
        """A new definition does not have an inherited gradient: without one of its own, torch takes it."""
        super().__init_subclass__(**options)
        own = cls.__dict__
        if "forward" in own and "vjp" not in own and "closed" not in own:
            cls.vjp = Modifier.vjp  # type: ignore[method-assign]
            cls.closed, cls.shifts = False, bool(own.get("shifts", False))

    def check(self, heads: int) -> None:
        """Refuses a number of heads that its parameters were not built for."""

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no forward(s, tile): a modifier of your own defines it.")

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


def spread(bias: Tensor, s: Tensor) -> Tensor:
    """A pair bias (g, r, c) beside scores that may have a feature axis (g, F, r, c)."""
    return bias.unsqueeze(1) if s.ndim == 4 else bias


def gathered_sum(ds: Tensor) -> Tensor:
    """(g, [F,] r, c) -> (g, r, c): what a bias shared by all features receives."""
    return ds.sum(1) if ds.ndim == 4 else ds


class SoftCap(Modifier):
    """Scores bend before they explode.

        s' = cap * tanh(s / cap),   |s'| < cap

    Also known as: soft capping, logit soft-capping, tanh clipping.
    Shen et al. 2018 (DiSAN); Gemma 2, 2024.
    """

    kept = ("cap",)
    closed = True

    def __init__(self, cap: float):
        super().__init__()
        self.cap = number(cap, "SoftCap", "cap", SMALLEST, hint=", a bound for the scores such as 50.0")

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return self.cap * torch.tanh(s / self.cap)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        return ds * (1 - (out / self.cap).square())


class Clamp(Modifier):
    """Scores are cut; outside the bound there is no gradient.

        s' = min(max(s, -bound), bound)

    Also known as: logit clipping.
    Dwivedi & Bresson 2020.
    """

    kept = ("bound",)
    closed = True

    def __init__(self, bound: float):
        super().__init__()
        self.bound = number(bound, "Clamp", "bound", SMALLEST, hint=", a bound for the scores such as 5.0")

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s.clamp(-self.bound, self.bound)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        return ds * (s.abs() <= self.bound)


class Activation(Modifier):
    """Scores are bent by an activation.

        s' = act(s + b)

    b one number a head, act by name; "log" makes a kernel a score. Ma et al. 2017 (activated general).
    """

    kept = ("name", "slope", "bias")
    closed = True

    def __init__(self, name: str, bias: int | None = None, slope: float = 0.2):
        super().__init__()
        check_activation(name, "name")
        self.name, self.slope = name, number(slope, "Activation", "slope")
        (bias,) = sizes("Activation", bias=bias)
        self.bias = nn.Parameter(torch.zeros(bias)) if bias is not None else None

    def check(self, heads: int) -> None:
        if self.bias is not None:
            check_heads(self, self.bias.shape[0], heads)

    def on(self, s: Tensor) -> Tensor:
        """The same on scores laid out (..., H, n, m)."""
        shifted = s if self.bias is None else s + self.bias.to(s.dtype)[:, None, None]
        return activation(shifted.clone(), self.name, self.slope)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return activation(self._shifted(s, tile).clone(), self.name, self.slope)

    def _shifted(self, s: Tensor, tile: Tile) -> Tensor:
        return s if self.bias is None else s + spread(_by_head(self.bias.to(s.dtype), tile), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        ds = ds * derivative(self._shifted(s, tile), out, self.name, self.slope)
        if self.bias is not None:
            _add_by_head(grads.of(self.bias), tile, gathered_sum(ds).sum((1, 2)))
        return ds


def _by_head(values: Tensor, tile: Tile) -> Tensor:
    """(H,) or (1,) -> (g, 1, 1), one for each head of the tile."""
    return values[tile.head] if values.shape[0] > 1 else values[torch.zeros_like(tile.head)]


def _add_by_head(total: Tensor, tile: Tile, value: Tensor) -> None:
    """Sums over the batch without atomics: one-hot heads times the values."""
    if total.shape[0] == 1:
        total += value.sum(0, keepdim=True)
    else:
        one_hot = tile.head.flatten()[None, :] == torch.arange(total.shape[0], device=total.device)[:, None]
        total += one_hot.to(value.dtype) @ value


class ALiBi(Modifier):
    """Farther is weaker, by head.

        s' = s - slope_h |i - j|,   slopes 2^(-8 h / H) unless given

    Also known as: attention with linear biases.
    Press et al. 2022.
    """

    kept = ("slopes", "align")
    closed = True
    shifts = True

    def __init__(
        self, heads: int | None = None, slopes: Tensor | None = None, learned: bool = False, align: str | None = None
    ):
        super().__init__()
        check_align(align, "ALiBi")
        if (heads is None) == (slopes is None):
            raise ValueError("ALiBi needs heads= (the paper's slopes 2^(-8 h / heads)) or slopes= (one a head).")
        (heads,) = sizes("ALiBi", heads=heads)
        flag(learned, "ALiBi", "learned")
        if slopes is None:
            assert heads is not None
            slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        elif not isinstance(slopes, Tensor) or not slopes.is_floating_point() or slopes.ndim != 1 or not len(slopes):
            raise ValueError(f"ALiBi(slopes={shown(slopes)}): expected a floating-point tensor (heads,).")
        self.slopes: Tensor
        if learned:
            self.slopes = nn.Parameter(slopes)
        else:
            self.register_buffer("slopes", slopes)
        self.align = align

    def check(self, heads: int) -> None:
        check_heads(self, self.slopes.shape[0], heads)

    def _distance(self, tile: Tile) -> Tensor:
        shift = shift_of(self.align, tile.n, tile.m, "ALiBi")
        return (tile.query + shift - tile.key).abs()

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s - spread(_by_head(self.slopes.to(s.dtype), tile) * self._distance(tile), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        _add_by_head(grads.of(self.slopes), tile, -(gathered_sum(ds) * self._distance(tile)).sum((1, 2)))
        return ds


class RelativeBias(Modifier):
    """A learned number for each head and distance.

        s' = s + table_h[clip(j - i, -reach, reach)]

    Also known as: relative position bias, T5 bias, relative positional encoding.
    table (H, 2 reach + 1). Shaw et al. 2018, Raffel et al. 2020 (without T5's logarithmic buckets).
    """

    kept = ("table", "reach", "align")
    closed = True
    shifts = True

    def __init__(self, heads: int, reach: int, align: str | None = None):
        super().__init__()
        check_align(align, "RelativeBias")
        heads, reach = whole(heads, "RelativeBias", "heads"), whole(reach, "RelativeBias", "reach", 0)
        self.table: Tensor = nn.Parameter(torch.zeros(heads, 2 * reach + 1))
        self.reach, self.align = reach, align

    def check(self, heads: int) -> None:
        check_heads(self, self.table.shape[0], heads)

    def _slot(self, tile: Tile) -> Tensor:
        shift = shift_of(self.align, tile.n, tile.m, "RelativeBias")
        return (tile.key - tile.query - shift).clamp(-self.reach, self.reach) + self.reach  # (1, r, c)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        heads = tile.head if self.table.shape[0] > 1 else torch.zeros_like(tile.head)
        return s + spread(self.table.to(s.dtype)[heads, self._slot(tile)], s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        pairs = gathered_sum(ds)  # (g, r, c)
        slots = self._slot(tile).expand(1, *pairs.shape[1:]).flatten()
        by_slot = torch.zeros(self.table.shape[1], pairs.shape[0], dtype=pairs.dtype, device=pairs.device)
        values = pairs.flatten(1).transpose(0, 1)
        if pairs.device.type == "cpu":
            by_slot.index_add_(0, slots, values)
        else:
            by_slot.index_put_((slots,), values, accumulate=True)  # sorted on CUDA: a fixed order
        total = grads.of(self.table)
        if total.shape[0] == 1:
            total += by_slot.sum(1)[None]
        else:
            one_hot = tile.head.flatten()[None, :] == torch.arange(total.shape[0], device=total.device)[:, None]
            total += one_hot.to(by_slot.dtype) @ by_slot.transpose(0, 1)
        return ds


class Sink(Modifier):
    """A place to look at nothing: one more key with a learned logit and no value, for each head.

        w_i = align([s_i1, ..., s_im, logit_h]), without the last

    Also known as: attention sink, learned sink logit, off-by-one softmax.
    The weights of the real keys sum to less than one. Xiao et al. 2024; gpt-oss. logits (H,)
    """

    kept = ("logits",)
    closed = True

    def __init__(self, heads: int, start: float = 0.0):
        super().__init__()
        heads, start = whole(heads, "Sink", "heads"), number(start, "Sink", "start")
        self.logits: Tensor = nn.Parameter(torch.full((heads,), start))

    def check(self, heads: int) -> None:
        check_heads(self, self.logits.shape[0], heads)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s
