"""Demo: self-attention over five tokens, small enough to check by hand."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard import ScaledDot, attend
from regard.views import heat_map

from .page import PageSection, Theme, fill, picture

TOKENS = ("t1", "t2", "t3", "t4", "t5")
X = ((1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1), (1, 0.5, 0.5, 0))


@dataclass(frozen=True)
class FiveTokens:
    """x (5, 4); scores and weights (5, 5), row = the token attending; contexts (5, 4)."""

    x: Tensor
    scores: Tensor
    weights: Tensor
    contexts: Tensor


def compute() -> FiveTokens:
    x = torch.tensor(X, dtype=torch.float64)
    attended = attend(x, x, x, score="scaled_dot")
    return FiveTokens(x, ScaledDot()(x, x), attended.map.weights().reshape(5, 5), attended.out)


def section(five: FiveTokens) -> PageSection:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    def draw(theme: Theme) -> Figure:
        figure, axes = plt.subplots(figsize=(5.6, 4.2))
        heat_map(five.weights, TOKENS, TOKENS, ax=axes, colours=theme.colours)
        return figure

    return PageSection(
        title="Five tokens, every number",
        lead="Attention small enough to check by hand: five tokens with four features each, and q = k = v = X, "
        "so each token is query, key and value.",
        html=fill(
            "five_tokens.html",
            five=five,
            tokens=TOKENS,
            picture=picture(draw, "Heat map of the weights: query tokens on Y, key tokens on X"),
        ),
    )
