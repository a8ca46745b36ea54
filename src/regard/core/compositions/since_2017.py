"""Mechanisms since 2017: the parts of each, as a call is written, and the backends that run them.

A composition is a description and small calls of `attend` with its parts. Which backends run it follows from these
calls by what parts and backends declare (`Backend.part_refusals`), on any machine. A recurrence
runs as `linear_attend`, in chunks of torch operations on any device. `regard taxonomy --since 2017` and the table of
docs/mechanisms/since_2017.md are made from this list.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..alignments import Alignment, Sigmoid
from ..modifiers import FIRE, ALiBi, Clamp, ForgettingGate, Kerple, PairBias, SharedPairBias, Sink, SoftCap, T5Bias
from ..plan import Plan, make_plan
from ..registry import backends
from ..scores import ConvolvedDot, CoPE, Cosine, Dot, LinearKernel, RelativeBias, ScaledDot, Score
from ..structures import (
    Axial,
    Causal,
    Full,
    Neighbourhood,
    PastBlocks,
    Selected,
    ShiftedWindows,
    Structure,
    Window,
)

HEADS, N, D = 2, 4, 16
RECURRENT = ("linear_attend",)  # not a backend of attend: chunks of torch operations on any device
GRID = (2, 2)


class Composition(NamedTuple):
    """parts as a call is written; `calls` that have them, none of a recurrence."""

    parts: str
    calls: tuple[Callable[[], Plan], ...] = ()

    @property
    def backends(self) -> tuple[str, ...]:
        """The names of those that run every call, in the order of "auto"."""
        if not self.calls:
            return RECURRENT
        plans = [call() for call in self.calls]
        return tuple(one.name for one in backends() if not any(one.part_refusals(plan) for plan in plans))


def _call(
    score: "Callable[[], Score | Any]" = ScaledDot,
    align: "str | Alignment" = "softmax",
    over: "Callable[[], Structure]" = Causal,
    widths: tuple[int, int] = (D, D),
    keys: tuple[int, int] = (HEADS, N),
    batch: int = 1,
) -> Callable[[], Plan]:
    """A plan of q (batch, HEADS, N, d), k (batch, *keys, d), v (batch, *keys, d_v), with no numbers in them."""

    def made() -> Plan:
        q, k, v = torch.zeros(batch, HEADS, N, widths[0]), *(torch.zeros(batch, *keys, width) for width in widths)
        return make_plan(q, k, v, score(), align, over())

    return made


def _blocks(block: int) -> Callable[[], Structure]:
    return lambda: Selected(torch.zeros(1, 1, N, 1, dtype=torch.long), block) & Causal()


def _biased() -> Score:
    return ScaledDot() | SharedPairBias(_zeros(1, HEADS, N, N), 2)


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(shape)


_dot, _causal = _call(over=Full), _call()
_grouped = _call(keys=(1, N))

COMPOSITIONS: dict[str, Composition] = {
    # positions
    "alibi": Composition("ScaledDot | ALiBi, over Causal", (_call(lambda: ScaledDot() | ALiBi(HEADS)),)),
    "relative_bias": Composition("ScaledDot | RelativeBias", (_call(lambda: ScaledDot() | RelativeBias(HEADS, 2)),)),
    "t5_bias": Composition("Dot | T5Bias", (_call(lambda: Dot() | T5Bias(HEADS), over=Full),)),
    "kerple": Composition("ScaledDot | Kerple, over Causal", (_call(lambda: ScaledDot() | Kerple(HEADS)),)),
    "fire": Composition("ScaledDot | FIRE, over Causal", (_call(lambda: ScaledDot() | FIRE(HEADS)),)),
    "cope": Composition("CoPE, over Causal", (_call(lambda: CoPE(D, HEADS)),)),
    "rotary": Composition("Rotary on q and k, ScaledDot", (_causal,)),
    "position_interpolation": Composition('Rotary(stretch="linear") on q and k, ScaledDot', (_causal,)),
    "ntk_rotary": Composition('Rotary(stretch="ntk") on q and k, ScaledDot', (_causal,)),
    "yarn": Composition('Rotary(stretch="yarn") on q and k, ScaledDot', (_causal,)),
    "partial_rotary": Composition("Rotary(turned=) on q and k, ScaledDot", (_causal,)),
    "grid_rotary": Composition("GridRotary on q and k, ScaledDot", (_dot,)),
    "no_positions": Composition("ScaledDot, over Causal", (_causal,)),
    # memory along the keys
    "forgetting_gate": Composition(
        "ScaledDot | ForgettingGate, over Causal", (_call(lambda: ScaledDot() | ForgettingGate(_zeros(HEADS, N))),)
    ),
    "stick_breaking": Composition(
        "ScaledDot, align StickBreaking, over Window(n, -1)",
        (_call(align="stick_breaking", over=lambda: Window(N, -1)),),
    ),
    # scores and alignments
    "soft_cap": Composition("ScaledDot | SoftCap", (_call(lambda: ScaledDot() | SoftCap(50.0)),)),
    "clamp": Composition("ScaledDot | Clamp", (_call(lambda: ScaledDot() | Clamp(5.0), over=Full),)),
    "pair_bias": Composition("ScaledDot | PairBias", (_call(lambda: ScaledDot() | PairBias(_zeros(N, N)), over=Full),)),
    "query_key_norm": Composition("Cosine(sharpness)", (_call(lambda: Cosine(10.0)),)),
    "sink": Composition("ScaledDot | Sink, over Causal", (_call(lambda: ScaledDot() | Sink(HEADS)),)),
    "softmax1": Composition(
        "ScaledDot | Sink(zeros), or align SoftmaxOne", (_call(lambda: ScaledDot() | Sink(_zeros(HEADS))),)
    ),
    "softpick": Composition("ScaledDot, align Softpick", (_call(align="softpick"),)),
    "sigmoid": Composition("ScaledDot, align Sigmoid", (_call(align="sigmoid"),)),
    "sigmoid_schedule": Composition("ScaledDot, align Sigmoid(rate=)", (_call(align=Sigmoid(rate=0.5)),)),
    "multi_token": Composition("ConvolvedDot, over Causal", (_call(lambda: ConvolvedDot(HEADS)),)),
    "multi_token_layer": Composition(
        "ConvolvedDot over Causal, values of a group side by side, weights mixed, norm",
        (_call(lambda: ConvolvedDot(HEADS), widths=(D, 2 * D)),),
    ),
    # selected pairs and grids
    "window": Composition("ScaledDot, over Causal(window=)", (_call(over=lambda: Causal(window=2)),)),
    "selected": Composition("ScaledDot, over Selected & Causal", (_call(over=_blocks(2)),)),
    "mixture_of_blocks": Composition("ScaledDot, over Selected.top_blocks & Causal", (_call(over=_blocks(2)),)),
    "indexed": Composition("LightningIndexer, ScaledDot, over Selected(block=1) & Causal", (_call(over=_blocks(1)),)),
    "native_sparse": Composition(
        "ScaledDot over PastBlocks, Selected & Causal, and Causal(window=), summed by gates",
        (
            _call(over=lambda: PastBlocks(2), keys=(HEADS, N // 2)),
            _call(over=_blocks(2)),
            _call(over=lambda: Causal(window=2)),
        ),
    ),
    "past_blocks": Composition("ScaledDot over PastBlocks", (_call(over=lambda: PastBlocks(2), keys=(HEADS, N // 2)),)),
    "shifted_windows": Composition(
        "ScaledDot | RelativeBias on a grid, over ShiftedWindows", (_call(over=lambda: ShiftedWindows(GRID, 2, 1)),)
    ),
    "neighbourhood": Composition("ScaledDot, over Neighbourhood", (_call(over=lambda: Neighbourhood(GRID, 1)),)),
    "axial": Composition("ScaledDot, over Axial, by row and by column", (_call(over=lambda: Axial(GRID, "row")),)),
    # values and outputs
    "grouped_queries": Composition("ScaledDot, keys (..., kv_heads, m, d)", (_grouped,)),
    "gated": Composition("ScaledDot, sigmoid gate on the output", (_causal,)),
    "differential": Composition("ScaledDot twice, a difference of two outputs and maps", (_causal,)),
    "talking_heads": Composition(
        "Dot of joined heads, values joined, mixed after", (_call(Dot, over=Full, widths=(HEADS * D, HEADS * D)),)
    ),
    "latent": Composition(
        "Dot of [c; rope] and c, one head of keys: the absorbed form",
        (_call(Dot, widths=(512 + 64, 512), keys=(1, N)),),
    ),
    "tensor_product": Composition("q, k, v of outer products, ScaledDot", (_causal,)),
    "cross_layer": Composition("ScaledDot, k and v of the layer below", (_grouped,)),
    # recurrences
    "linear_kernel": Composition("LinearKernel, over Causal", (_call(LinearKernel),)),
    "causal_linear": Composition("linear_attend(phi(q), phi(k), [v, 1], log_decay=), divided by its last feature"),
    "retention": Composition("Rotary on q and k, linear_attend(log_decay= a constant a head)"),
    "lightning": Composition("silu(q, k, v), linear_attend(log_decay= a constant a head)"),
    "gated_linear": Composition("linear_attend(log_decay= each feature of a token)"),
    "mamba2": Composition("short convolution, linear_attend(C, dt B, x, log_decay= dt A)"),
    "delta": Composition("linear_attend(beta=), keys of length 1"),
    "gated_delta": Composition("linear_attend(beta=, log_decay= each token), keys of length 1"),
    "kimi_delta": Composition("linear_attend(beta=, log_decay= each feature of a token), keys of length 1"),
    # biology
    "triangle": Composition(
        "ScaledDot | SharedPairBias, each row of pairs by itself, sigmoid gate",
        (_call(_biased, over=Full, batch=2),),
    ),
    "msa_row": Composition(
        "ScaledDot | SharedPairBias, each sequence by itself, sigmoid gate", (_call(_biased, over=Full, batch=2),)
    ),
    "msa_column": Composition("ScaledDot, each column by itself, sigmoid gate", (_dot,)),
}


@cache
def runs_on(name: str) -> tuple[str, ...]:
    """The backends that run a mechanism; () without a composition."""
    found = COMPOSITIONS.get(name)
    return () if found is None else found.backends
