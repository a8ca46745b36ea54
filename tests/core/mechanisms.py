"""Every score and alignment once, small, in fp64, with parameters that are not zero: what these tests run over."""

from collections.abc import Callable

import torch
from torch import Tensor

import regard
from regard import scores
from regard.core.modifiers import Modifier

WIDTH, HEADS = 4, 2


class Own(regard.Score):
    """A user's score without `lower`: the negative L1.5 distance, weighed by learned numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -((q.unsqueeze(-2) - k.unsqueeze(-3)).abs() ** 1.5 * self.weigh.to(q.dtype)).sum(-1)


class OwnModifier(Modifier):
    """A user's modifier: odd keys are a little better."""

    def forward(self, s: Tensor, tile: object) -> Tensor:
        return s + 0.3 * (tile.key % 2)  # type: ignore[attr-defined]


SCORES: dict[str, Callable[[], regard.Score]] = {
    "dot": scores.Dot,
    "scaled_dot": scores.ScaledDot,
    "general": lambda: scores.General(WIDTH, WIDTH, HEADS),
    "biased_general": lambda: scores.BiasedGeneral(WIDTH, WIDTH, HEADS),
    "activated_general": lambda: scores.ActivatedGeneral(WIDTH, WIDTH, HEADS),
    "additive": lambda: scores.Additive(WIDTH, WIDTH, 5, HEADS),
    "additive_relu": lambda: scores.Additive(WIDTH, WIDTH, 5, HEADS, activation="relu"),
    "cosine": lambda: scores.Cosine(sharpness=3.0),
    "content": lambda: scores.Content(WIDTH, HEADS),
    "gaussian": lambda: scores.Gaussian(1.5),
    "gaussian_learned": lambda: scores.Gaussian(learned=True, heads=HEADS),
    "laplace": lambda: scores.Laplace(2.0),
    "trilinear": lambda: scores.Trilinear(WIDTH, HEADS),
    "location": lambda: scores.Location(WIDTH, 16, HEADS),
    "query_free": lambda: scores.QueryFree(WIDTH, 5, HEADS),
    "learned_query": lambda: scores.LearnedQuery(WIDTH, HEADS),
    "gat": lambda: scores.GAT(WIDTH, HEADS),
    "gatv2": lambda: scores.GATv2(WIDTH, HEADS),
    "linear_kernel": scores.LinearKernel,
    "soft_cap": lambda: scores.Dot() | scores.SoftCap(2.0),
    "alibi": lambda: scores.ScaledDot() | scores.ALiBi(HEADS, align="start"),
    "relative_bias": lambda: scores.ScaledDot() | scores.RelativeBias(HEADS, 2, align="start"),
    "t5_bias": lambda: scores.ScaledDot() | scores.T5Bias(HEADS, 4, 3, align="start"),
    "kerple": lambda: scores.ScaledDot() | scores.Kerple(HEADS, align="start"),
    "fire": lambda: scores.ScaledDot() | scores.FIRE(HEADS, 3, align="start"),
    "sink": lambda: scores.ScaledDot() | scores.Sink(HEADS),
    "own": Own,
    "own_modifier": lambda: scores.ScaledDot() | OwnModifier(),
    "location_aware": lambda: scores.LocationAware(WIDTH, heads=HEADS, filters=3, kernel=3),
}
FEATURE_WISE: dict[str, Callable[[], regard.Score]] = {
    "dot_features": lambda: scores.Dot(features=True),
    "general_features": lambda: scores.General(WIDTH, WIDTH, HEADS, features=WIDTH),
    "additive_features": lambda: scores.Additive(WIDTH, WIDTH, 5, HEADS, features=WIDTH),
    "additive_units": lambda: scores.Additive(WIDTH, WIDTH, WIDTH, HEADS, features=True),
    "gaussian_features": lambda: scores.Gaussian(features=True),
    "laplace_features": lambda: scores.Laplace(features=True),
    "query_free_features": lambda: scores.QueryFree(WIDTH, 5, HEADS, features=WIDTH),
}
ALIGNMENTS: dict[str, Callable[[], regard.Alignment]] = {
    "softmax": regard.Softmax,
    "sparsemax": regard.Sparsemax,
    "entmax15": regard.Entmax,
    "entmax13": lambda: regard.Entmax(1.3),
    "entmax_learned": lambda: regard.Entmax(1.5, learned=True, heads=HEADS),
    "topk": lambda: regard.TopK(2),
    "sigmoid": regard.Sigmoid,
    "sigmoid_fixed": lambda: regard.Sigmoid(bias=-0.5),
    "relu": regard.ReLU,
    "uniform": regard.Uniform,
    "hard": regard.Hard,
    "gumbel": lambda: regard.Gumbel(0.7),
    "gumbel_straight": lambda: regard.Gumbel(0.7, straight_through=True),
    "local": lambda: regard.Local(2),
    "local_predictive": lambda: regard.LocalPredictive(2, WIDTH, heads=HEADS),
    "reinforced": lambda: regard.Reinforced(WIDTH, 3),
    "monotonic": regard.Monotonic,
}
SCORES |= {name: kind for name, kind in scores.NAMES.items() if name != "concat" and name not in SCORES}
NEW = {name: kind for name, kind in regard.alignments.NAMES.items() if name not in ALIGNMENTS}
ALIGNMENTS |= NEW

SIMPLEX = (
    "softmax",
    "sparsemax",
    "entmax15",
    "entmax13",
    "entmax_learned",
    "topk",
    "uniform",
    "hard",
    "gumbel",
    "gumbel_straight",
    "local",
)
SIMPLEX += tuple(name for name, kind in NEW.items() if kind.simplex)
PLACED = (
    "location",
    "alibi",
    "relative_bias",
    "t5_bias",
    "kerple",
    "fire",
    "stick_breaking",
    "location_aware",
    "own_modifier",
    "local",
    "local_predictive",
    "monotonic",
)
ORDERED = ("stick_breaking",)  # edges have no order of keys
STEPWISE = ("location_aware", "monotonic")  # their maps are stored: no row state
APART = {
    ("location_aware", "monotonic"),
    ("sink", "monotonic"),
    ("sink", "stick_breaking"),
}  # refused: two kinds of steps, a sink off the path


def built(name: str, seed: int = 0) -> "regard.Score | regard.Alignment":
    """A mechanism in fp64 with parameters drawn from a normal distribution."""
    made = {**SCORES, **FEATURE_WISE, **ALIGNMENTS}[name]()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=draw)
    return made.double()


def product(scores: "list[str] | None" = None, alignments: "list[str] | None" = None) -> list[tuple[str, str]]:
    """Pairs (score, alignment) that compose."""
    scores = [*SCORES, *FEATURE_WISE] if scores is None else scores
    alignments = [*ALIGNMENTS] if alignments is None else alignments
    return [(s, a) for s in scores for a in alignments if (s, a) not in APART]


def inputs(
    n: int = 3, m: int = 5, batch: int = 2, heads: int = HEADS, width: int = WIDTH, seed: int = 1
) -> list[Tensor]:
    """q, k, v in fp64 that ask for gradients; the values are as wide as the features of feature-wise scores."""
    draw = torch.Generator().manual_seed(seed)
    sizes = ((batch, heads, n, width), (batch, heads, m, width), (batch, heads, m, WIDTH))
    return [torch.randn(size, generator=draw, dtype=torch.float64).requires_grad_() for size in sizes]
