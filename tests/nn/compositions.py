"""Every composition with the sequences it reads: what the contract tests run over."""

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard import Padding
from regard.nn import (
    AlternatingCoAttention,
    Attend,
    AttentionFlow,
    AttentionFree,
    AttentionPooling,
    AttentionViaAttention,
    CapsuleAttention,
    ChannelAttention,
    Composed,
    ConvolutionalBlockAttention,
    DirectionalSelfAttention,
    DiSAN,
    DoubleAttention,
    DualAttention,
    EfficientChannelAttention,
    ExternalAttention,
    InteractiveCoAttention,
    MultiGrainedCoAttention,
    MultiHopAttention,
    NonLocalBlock,
    ParallelCoAttention,
    ReinforcedSelfAttention,
    RotatoryAttention,
    SelfAttention,
    SqueezeExcitation,
    StructuredSelfAttention,
)

D = 4


class Case(NamedTuple):
    """How to build a composition, the sequences it may mask with their widths, and what asks without being masked."""

    make: Callable[..., nn.Module]
    sequences: dict[str, int]
    asks: dict[str, int] = MappingProxyType({})
    rows_of: str | None = None  # the sequence whose positions are the rows of the output
    image: bool = False  # the sequence is an image one pixel high
    takes: tuple[str, ...] = ("score", "align")


PAIR = {"first": D, "second": 3}
ALIKE = {"first": D, "second": D}
ONE = {"features": D}
THREE = {"target": D, "left": 3, "right": 2}

CASES: dict[str, Case] = {
    "attend": Case(lambda **o: _Asked(3, D, **o), ONE, {"query": 3}),
    "alternating": Case(lambda **o: AlternatingCoAttention(D, 3, **o), PAIR),
    "alternating, untied": Case(lambda **o: AlternatingCoAttention(D, 3, tied=False, **o), PAIR),
    "interactive": Case(lambda **o: InteractiveCoAttention(D, 3, **o), PAIR),
    "parallel": Case(lambda **o: ParallelCoAttention(D, 3, width=5, **o), PAIR),
    "parallel, max, sum": Case(lambda **o: ParallelCoAttention(D, reading="max", combine="sum", **o), ALIKE),
    "flow": Case(lambda **o: AttentionFlow(D, **o), ALIKE, rows_of="first"),
    "multi-grained": Case(lambda **o: MultiGrainedCoAttention(D, **o), ALIKE),
    "multi-grained, mgan": Case(lambda **o: MultiGrainedCoAttention(D, form="mgan", **o), ALIKE),
    "rotatory": Case(lambda **o: RotatoryAttention(D, 3, 2, **o), THREE),
    "rotatory, hops": Case(lambda **o: RotatoryAttention(D, 3, 2, hops=3, tied=True, **o), THREE),
    "rotatory, inverse": Case(lambda **o: RotatoryAttention(D, 3, 2, hops=2, inverse=True, **o), THREE),
    "via": Case(lambda **o: AttentionViaAttention(3, D, 2, **o), {"words": D, "chars": 2}, {"query": 3}),
    "pooling": Case(lambda **o: AttentionPooling(D, **o), ONE),
    "self-attention": Case(lambda **o: SelfAttention(D, 2, **o), ONE, rows_of="features"),
    "structured": Case(lambda **o: StructuredSelfAttention(D, 3, 5, **o), ONE),
    "hops, identity": Case(lambda **o: MultiHopAttention(3, D, **o), ONE, {"query": 3}),
    "hops, linear": Case(lambda **o: MultiHopAttention(3, D, transform="linear", tied=True, **o), ONE, {"query": 3}),
    "hops, gru": Case(lambda **o: MultiHopAttention(3, D, transform="gru", **o), ONE, {"query": 3}),
    "hops, stacked": Case(lambda **o: MultiHopAttention(D, transform="stacked", **o), ONE, {"query": D}),
    "capsules": Case(lambda **o: CapsuleAttention(D, 3, **o), ONE),
    "directional": Case(lambda **o: DirectionalSelfAttention(D, **o), ONE, rows_of="features"),
    "directional, backward": Case(
        lambda **o: DirectionalSelfAttention(D, 3, direction="backward", **o), ONE, rows_of="features"
    ),
    "disan": Case(lambda **o: DiSAN(D, **o), ONE, takes=("align",)),
    "reinforced": Case(lambda **o: ReinforcedSelfAttention(D, **o), ONE, rows_of="features"),
    "external": Case(lambda **o: ExternalAttention(D, 5, **o), ONE, rows_of="features"),
    "attention-free": Case(lambda **o: AttentionFree(D, 6, 2, **o), ONE, rows_of="features", takes=("align",)),
    "non-local": Case(lambda **o: _awake(NonLocalBlock(D, 3, **o)), ONE, rows_of="features", image=True),
    "squeeze": Case(lambda **o: SqueezeExcitation(D, 2, **o), ONE, rows_of="features", image=True),
    "efficient channels": Case(
        lambda **o: EfficientChannelAttention(D, 3, **o), ONE, rows_of="features", image=True, takes=()
    ),
    "cbam": Case(lambda **o: ConvolutionalBlockAttention(D, 2, 3, **o), ONE, rows_of="features", image=True, takes=()),
    "channels": Case(
        lambda **o: _awake(ChannelAttention(D, **o)), ONE, rows_of="features", image=True, takes=("align",)
    ),
    "dual": Case(lambda **o: _awake(DualAttention(D, 2, **o)), ONE, rows_of="features", image=True),
    "double": Case(lambda **o: DoubleAttention(D, 3, 2, **o), ONE, rows_of="features", image=True),
}


class _Asked(nn.Module):
    """The building block itself, with the name of its features."""

    def __init__(self, *sizes: int, **options: object):
        super().__init__()
        self.inner = Attend(*sizes, **options)

    def forward(self, query: Tensor, features: Tensor, over: Padding | None = None):
        return self.inner(query, features, over=over)


def _awake(made: nn.Module) -> nn.Module:
    """Recipes that start as the identity, with a number in place of the 0."""
    for name, parameter in made.named_parameters():
        if name.endswith(("gamma", "out_proj.weight")):
            nn.init.normal_(parameter)
    return made


def built(name: str, dtype: torch.dtype = torch.float64, **options: object) -> nn.Module:
    torch.manual_seed(0)
    made = CASES[name].make(**options)
    for label, parameter in made.named_parameters():
        if label.endswith("bias"):  # zero at first, and then a wrong bias would not show
            nn.init.normal_(parameter, std=0.3)
    return made.to(dtype).eval()


def inputs(name: str, batch: int = 3, length: int = 5, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Random sequences of different lengths, one after the other a little shorter, and what asks (two rows)."""
    case, random = CASES[name], torch.Generator().manual_seed(1)
    sizes = {key: (batch, length - place, width) for place, (key, width) in enumerate(case.sequences.items())}
    sizes |= {key: (batch, 2, width) for key, width in case.asks.items()}
    return {key: torch.randn(*size, generator=random, dtype=torch.float64).to(dtype) for key, size in sizes.items()}


def call(name: str, made: nn.Module, given: dict[str, Tensor], lengths: dict[str, Tensor] | None = None):
    """The result, with the image of a recipe turned back into rows."""
    case = CASES[name]
    arguments: dict[str, object] = dict(given)
    for key, sizes in (lengths or {}).items():
        arguments["over" if len(case.sequences) == 1 else f"over_{key}"] = Padding(sizes)
    if case.image:
        arguments["x"] = given["features"].transpose(1, 2).unsqueeze(2)
        del arguments["features"]
    found = made(**arguments)
    if case.image:
        found.out = found.out.squeeze(2).transpose(1, 2)
    return found


def maps_of(found) -> dict:
    return found.maps if isinstance(found, Composed) else {"map": found.map}
