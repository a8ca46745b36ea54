"""Every score, alignment and structure the tests join: names to builders, with parameters that differ by head.

A user's own score and modifier stand beside the built-in ones, since they must run wherever those do.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard import (
    FIRE,
    GAT,
    ActivatedGeneral,
    Activation,
    Additive,
    ALiBi,
    Alignment,
    Axial,
    BiasedGeneral,
    Causal,
    Content,
    ConvolvedDot,
    CoPE,
    Cosine,
    Dot,
    Edges,
    Entmax,
    ForgettingGate,
    Full,
    GATv2,
    Gaussian,
    General,
    Gumbel,
    Hard,
    Kerple,
    Laplace,
    LearnedQuery,
    LinearKernel,
    Local,
    LocalPredictive,
    Location,
    Mask,
    Modifier,
    Neighbourhood,
    Padding,
    PastBlocks,
    QueryFree,
    Reinforced,
    RelativeBias,
    ReLU,
    ScaledDot,
    Score,
    Segments,
    Selected,
    ShiftedWindows,
    Sigmoid,
    Sink,
    SoftCap,
    Softmax,
    Sparsemax,
    Structure,
    T5Bias,
    TopK,
    Trilinear,
    Uniform,
    Window,
    alignments,
    scores,
)
from regard.core.lowering.tiles import Tile

F = 3  # features of a feature-wise score whose number is free


class OwnScore(Score):
    """What a user writes: s_ij = sum_d sin(rate_d q_id - k_jd), and no more."""

    def __init__(self, d: int, heads: int):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(heads, d))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        asked = q * self.rate.to(q.dtype)[:, None]
        return torch.sin(asked.unsqueeze(-2) - k.unsqueeze(-3)).sum(-1)


class OwnFeatures(OwnScore):
    """The same with one score a dimension."""

    def __init__(self, d: int, heads: int):
        super().__init__(d, heads)
        self.features = d

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        asked = q * self.rate.to(q.dtype)[:, None]
        return torch.sin(asked.unsqueeze(-2) - k.unsqueeze(-3)).movedim(-1, -3)


class OwnModifier(Modifier):
    """What a user writes: s' = gain_h s + cos(i - 2 j)."""

    def __init__(self, heads: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(heads))

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        gain, wave = self.gain[tile.head].to(s.dtype), torch.cos((tile.query - 2 * tile.key).to(s.dtype))
        return s * gain + wave if s.ndim == 3 else s * gain[:, None] + wave[:, None]


def forgetting(heads: int, m: int) -> ForgettingGate:
    """Gates that differ by head and key: representable in bf16, sums included."""
    return ForgettingGate(-torch.randint(0, 4, (heads, m), generator=torch.Generator().manual_seed(heads)) / 4, "end")


class Part(NamedTuple):
    """A score: how to build it for some heads and keys, and the widths it takes."""

    make: Callable[[int, int], Score]
    d_q: int = 4
    d_k: int = 4
    d_v: int = 5


SCORES: dict[str, Part] = {
    "dot": Part(lambda h, m: Dot()),
    "dot by feature": Part(lambda h, m: Dot(features=True), d_v=4),
    "scaled dot": Part(lambda h, m: ScaledDot(), d_v=4),
    "scaled dot by feature": Part(lambda h, m: ScaledDot(features=True), d_v=4),
    "general, W = I": Part(lambda h, m: General()),
    "general": Part(lambda h, m: General(4, 3, h), d_k=3),
    "general, one W for all": Part(lambda h, m: General(4, 3), d_k=3),
    "general by feature": Part(lambda h, m: General(4, 3, h, features=F), d_k=3, d_v=F),
    "biased general": Part(lambda h, m: BiasedGeneral(4, 3, h), d_k=3),
    "activated general": Part(lambda h, m: ActivatedGeneral(4, 3, h), d_k=3),
    "additive, W = I": Part(lambda h, m: Additive()),
    "additive": Part(lambda h, m: Additive(4, 3, 5, h), d_k=3),
    "additive relu": Part(lambda h, m: Additive(4, 3, 5, activation="relu"), d_k=3),
    "additive sigmoid": Part(lambda h, m: Additive(4, 3, 5, h, activation="sigmoid", bias=False), d_k=3),
    "additive by feature": Part(lambda h, m: Additive(4, 3, 5, h, features=F), d_k=3, d_v=F),
    "additive by unit": Part(lambda h, m: Additive(4, 3, 5, h, features=True), d_k=3),
    "additive by unit, W = I": Part(lambda h, m: Additive(features=True), d_v=4),
    "cosine": Part(lambda h, m: Cosine(3.0)),
    "content": Part(lambda h, m: Content(4, h)),
    "content, one sharpness": Part(lambda h, m: Content(sharpness=2.0)),
    "gaussian": Part(lambda h, m: Gaussian(1.5)),
    "gaussian, learned width": Part(lambda h, m: Gaussian(1.5, learned=True, heads=h)),
    "gaussian by feature": Part(lambda h, m: Gaussian(features=True), d_v=4),
    "laplace": Part(lambda h, m: Laplace(2.0)),
    "laplace by feature": Part(lambda h, m: Laplace(features=True), d_v=4),
    "trilinear, no sizes": Part(lambda h, m: Trilinear()),
    "trilinear": Part(lambda h, m: Trilinear(4, h)),
    "location": Part(lambda h, m: Location(4, m + 2, h)),
    "query-free, no sizes": Part(lambda h, m: QueryFree()),
    "query-free": Part(lambda h, m: QueryFree(3, 5, h), d_k=3),
    "query-free by feature": Part(lambda h, m: QueryFree(3, 5, h, features=F), d_k=3, d_v=F),
    "learned query": Part(lambda h, m: LearnedQuery(3, h), d_k=3),
    "gat": Part(lambda h, m: GAT(4, h)),
    "gat, no sizes": Part(lambda h, m: GAT()),
    "gatv2": Part(lambda h, m: GATv2(4, h)),
    "linear kernel": Part(lambda h, m: LinearKernel()),
    "contextual": Part(lambda h, m: CoPE(4, h, 5)),
    "convolved": Part(lambda h, m: ConvolvedDot(h, 2, 3)),
    "own": Part(lambda h, m: OwnScore(4, h)),
    "own by feature": Part(lambda h, m: OwnFeatures(4, h), d_v=4),
    "scaled dot | soft cap": Part(lambda h, m: ScaledDot() | SoftCap(1.5)),
    "scaled dot | alibi": Part(lambda h, m: ScaledDot() | ALiBi(h, align="end")),
    "dot | alibi, learned": Part(lambda h, m: Dot() | ALiBi(h, learned=True, align="start")),
    "scaled dot | relative bias": Part(lambda h, m: ScaledDot() | RelativeBias(h, 2, align="end")),
    "scaled dot | t5 bias": Part(lambda h, m: ScaledDot() | T5Bias(h, 4, 5, align="end")),
    "dot | t5 bias, one side": Part(lambda h, m: Dot() | T5Bias(1, 4, 9, both_sides=False, align="start")),
    "scaled dot | kerple": Part(lambda h, m: ScaledDot() | Kerple(h, align="end")),
    "scaled dot | kerple, power": Part(lambda h, m: ScaledDot() | Kerple(h, "power", align="start")),
    "scaled dot | fire": Part(lambda h, m: ScaledDot() | FIRE(h, 3, start=2.0, align="end")),
    "scaled dot | forgetting": Part(lambda h, m: ScaledDot() | forgetting(h, m)),
    "scaled dot | forgetting | sink": Part(lambda h, m: ScaledDot() | forgetting(h, m) | Sink(h)),
    "dot | activation": Part(lambda h, m: Dot() | Activation("tanh", bias=h)),
    "dot | one bias for all": Part(lambda h, m: Dot() | Activation("sigmoid", bias=1)),
    "scaled dot | sink": Part(lambda h, m: ScaledDot() | Sink(h)),
    "gaussian | sink": Part(lambda h, m: Gaussian() | Sink(h)),
    "gaussian | soft cap": Part(lambda h, m: Gaussian() | SoftCap(2.0)),
    "trilinear | activation | alibi": Part(
        lambda h, m: Trilinear(4, h) | Activation("leaky_relu") | ALiBi(h, align="end")
    ),
    "additive | soft cap | relative bias | sink": Part(
        lambda h, m: Additive(4, 3, 5, h) | SoftCap(1.0) | RelativeBias(h, 3, align="start") | Sink(h), d_k=3
    ),
    "dot by feature | alibi | sink": Part(
        lambda h, m: Dot(features=True) | ALiBi(h, learned=True, align="end") | Sink(h), d_v=4
    ),
    "query-free by feature | activation | relative bias": Part(
        lambda h, m: QueryFree(3, 5, h, features=F) | Activation("tanh", bias=h) | RelativeBias(1, 2, align="end"),
        d_k=3,
        d_v=F,
    ),
    "general by feature | relative bias": Part(
        lambda h, m: General(4, 3, h, features=F) | RelativeBias(h, 2, align="end"), d_k=3, d_v=F
    ),
    "scaled dot | own": Part(lambda h, m: ScaledDot() | OwnModifier(h)),
    "gaussian | own | sink": Part(lambda h, m: Gaussian(1.5, learned=True, heads=h) | OwnModifier(h) | Sink(h)),
    "own | soft cap | sink": Part(lambda h, m: OwnScore(4, h) | SoftCap(2.0) | Sink(h)),
    "own by feature | own": Part(lambda h, m: OwnFeatures(4, h) | OwnModifier(h), d_v=4),
}
_kinds = {type(part.make(1, 1)) for part in SCORES.values()}
SCORES |= {  # whatever else has a name
    name: Part(lambda h, m, kind=kind: kind.built_for(4, 4, h))
    for name, kind in scores.SCORES.built.items()
    if kind not in _kinds and not kind.stepwise
}


class Way(NamedTuple):
    """An alignment: how to build it for some heads and the width of queries and keys, and whether it draws."""

    make: Callable[[int, int, int], Alignment]
    sample: bool = False


ALIGNMENTS: dict[str, Way] = {
    "softmax": Way(lambda h, d_q, d_k: Softmax()),
    "sparsemax": Way(lambda h, d_q, d_k: Sparsemax()),
    "entmax 1.5": Way(lambda h, d_q, d_k: Entmax()),
    "entmax 1.25": Way(lambda h, d_q, d_k: Entmax(1.25)),
    "entmax, learned": Way(lambda h, d_q, d_k: Entmax(1.6, learned=True, heads=h)),
    "top-3": Way(lambda h, d_q, d_k: TopK(3)),
    "top-99": Way(lambda h, d_q, d_k: TopK(99)),
    "sigmoid": Way(lambda h, d_q, d_k: Sigmoid()),
    "sigmoid, fixed bias": Way(lambda h, d_q, d_k: Sigmoid(-0.5)),
    "sigmoid, slow bias": Way(lambda h, d_q, d_k: Sigmoid(rate=0.5)),
    "relu": Way(lambda h, d_q, d_k: ReLU()),
    "uniform": Way(lambda h, d_q, d_k: Uniform()),
    "hard": Way(lambda h, d_q, d_k: Hard()),
    "hard, drawn": Way(lambda h, d_q, d_k: Hard(), sample=True),
    "gumbel": Way(lambda h, d_q, d_k: Gumbel(0.7)),
    "gumbel, drawn": Way(lambda h, d_q, d_k: Gumbel(0.7), sample=True),
    "straight-through": Way(lambda h, d_q, d_k: Gumbel(0.7, straight_through=True), sample=True),
    "local": Way(lambda h, d_q, d_k: Local(2)),
    "local predictive": Way(lambda h, d_q, d_k: LocalPredictive(2, d_q, heads=h)),
    "reinforced": Way(lambda h, d_q, d_k: Reinforced(d_k)),
    "reinforced, drawn": Way(lambda h, d_q, d_k: Reinforced(d_k), sample=True),
}
_aligned = {type(way.make(1, 1, 1)) for way in ALIGNMENTS.values()}
ALIGNMENTS |= {  # whatever else has a name
    name: Way(lambda h, d_q, d_k, kind=kind: kind.built_for(d_q, d_k, h))
    for name, kind in alignments.ALIGNMENTS.built.items()
    if kind not in _aligned and not kind.stepwise
}


class Room(NamedTuple):
    """What a structure is built for."""

    batch: int
    heads: int
    n: int
    m: int
    d_k: int
    d_v: int
    random: torch.Generator

    def flags(self, *shape: int, chance: float = 0.6) -> Tensor:
        return torch.rand(shape, generator=self.random) < chance

    def ids(self, high: int, *shape: int) -> Tensor:
        return torch.randint(0, max(1, high), shape, generator=self.random)


def lengths(room: Room) -> Padding:
    """One item whole, one empty, and what chance brings between."""
    found = room.ids(room.m + 1, room.batch)
    found[0] = room.m
    found[-1] = found[-1] if room.batch == 1 else 0 if room.m < 5 else found[-1]
    return Padding(found)


def mask(room: Room, *shape: int) -> Mask:
    """Pairs at random; the first query of the first item sees nobody."""
    keep = room.flags(*shape)
    keep[0, 0, :1] = False
    return Mask(keep=keep)


def grid(room: Room) -> Window | None:
    if room.n != room.m or room.n % 2 or room.n == 0:
        return None
    return Window(1, 0, grid=(2, room.n // 2))


def on_grid(room: Room, kind: type[Structure], *arguments: object) -> Structure | None:
    if room.n != room.m or room.n % 2 or room.n == 0:
        return None
    return kind((2, room.n // 2), *arguments)


def edges(room: Room, self_loops: bool = False) -> Edges:
    """A multigraph: duplicate edges, loops, and targets from the middle on that nobody points at."""
    if room.n == 0 or room.m == 0:
        return Edges(torch.zeros(2, 0, dtype=torch.long), self_loops=self_loops)
    count = 2 * (room.n + room.m)
    index = torch.stack([room.ids(room.m, count), room.ids((room.n + 1) // 2, count)])
    return Edges(torch.cat([index, index[:, :3], torch.zeros(2, 1, dtype=torch.long)], 1), self_loops=self_loops)


def rich_edges(room: Room, join: str, heads: int, self_loops: bool = False) -> Edges:
    """Edges that have a key and a value of their own."""
    graph = edges(room, self_loops)
    rows = graph.edge_index.shape[1] + (min(room.n, room.m) if self_loops else 0)
    key, value = (torch.randn(heads, rows, width, generator=room.random) for width in (room.d_k, room.d_v))
    return Edges(graph.edge_index, self_loops=self_loops, key=key, value=value, join=join)


def packed(room: Room) -> Segments:
    ids = room.ids(3, room.n).sort().values
    return Segments(ids) if room.n == room.m else Segments(ids, key_ids=room.ids(3, room.m).sort().values)


STRUCTURES: dict[str, Callable[[Room], Structure | None]] = {
    "full": lambda room: Full(),
    "causal from the start": lambda room: Causal(align="start"),
    "causal to the end": lambda room: Causal(align="end"),
    "window": lambda room: Window(1, 2, align="start"),
    "dilated window": lambda room: Window(2, 1, dilation=2, align="end"),
    "window on a grid": grid,
    "padding": lengths,
    "mask of keys": lambda room: mask(room, room.batch, 1, 1, room.m),
    "mask of pairs": lambda room: mask(room, 1, 1, room.n, room.m),
    "mask by head": lambda room: mask(room, room.batch, room.heads, room.n, room.m),
    "mask of nothing": lambda room: Mask(keep=torch.zeros(1, room.m, dtype=torch.bool)),
    "segments": packed,
    "segments by item": lambda room: Segments(room.ids(3, room.batch, room.n), key_ids=room.ids(3, room.batch, room.m)),
    "segments to pool": lambda room: Segments(room.ids(room.n, room.m), count=room.n) if room.n else None,
    "edges": edges,
    "edges with loops": lambda room: edges(room, self_loops=True),
    "edges with keys": lambda room: rich_edges(room, "add", room.heads),
    "edges with factors and loops": lambda room: rich_edges(room, "mul", 1, self_loops=True),
    "no edges": lambda room: Edges(torch.zeros(2, 0, dtype=torch.long)),
    "shifted windows": lambda room: on_grid(room, ShiftedWindows, 2, 1),
    "neighbourhood": lambda room: on_grid(room, Neighbourhood, 2),
    "selected": lambda room: (
        Selected(room.ids(-(-room.m // 2) + 1, room.batch, room.heads, room.n, 2) - 1, 2) if room.m else None
    ),
    "past blocks": lambda room: PastBlocks(2),
    "axial": lambda room: on_grid(room, Axial, "column"),
    "causal & padding": lambda room: Causal(align="end") & lengths(room),
    "window & padding": lambda room: Window(2, 1, align="end") & lengths(room),
    "segments & causal": lambda room: packed(room) & Causal(align="start"),
    "padding & mask of pairs": lambda room: lengths(room) & mask(room, 1, 1, room.n, room.m),
    "padding & mask of keys": lambda room: lengths(room) & mask(room, room.batch, room.heads, 1, room.m),
    "edges & padding & causal": lambda room: edges(room) & lengths(room) & Causal(align="start"),
}
