"""An image as a sequence of patches."""

import torch
from torch import Tensor, nn

from regard.data.batch import Batch

from .encoded import Encoded


class Patches(nn.Module):
    """Linear patch embeddings with positions, row by row.

    inputs (B, 1, side, side) -> values (B, (side / patch)^2, dim). around: margin of pixels around each patch that it
    also sees.
    """

    def __init__(self, side: int, patch: int, dim: int, around: int = 0, hidden: int = 0):
        super().__init__()
        if side % patch:
            raise ValueError(f"Patches(side={side}, patch={patch}): the patch does not divide the side.")
        self.side, self.patch, self.dim = side, patch, dim
        self.cut = nn.Unfold(patch + 2 * around, padding=around, stride=patch)
        pixels = (patch + 2 * around) ** 2
        first = [nn.Linear(pixels, hidden), nn.GELU()] if hidden else []
        self.project = nn.Sequential(*first, nn.Linear(hidden or pixels, dim))
        self.places = nn.Parameter(torch.randn((side // patch) ** 2, dim) * 0.1)

    def forward(self, batch: Batch) -> Encoded:
        if batch.inputs.shape[-2:] != (self.side, self.side):
            raise ValueError(
                f"Images of {tuple(batch.inputs.shape[-2:])} pixels, expected ({self.side}, {self.side}): "
                "scale them, or build the model for their side."
            )
        return Encoded(self.project(self.cut(batch.inputs).transpose(1, 2)) + self.places, len(batch))


class Filtered(nn.Module):
    """Convolutional features: a vector for each 4 x 4 patch, with a receptive field of 20 pixels and no positions.

    inputs (B, 1, side, side) -> values (B, (side / 4)^2, dim), patches row by row. Without biases: the
    features of empty regions are 0.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.dim, half = dim, dim // 2
        sizes = ((1, half, 3, 1), (half, dim, 4, 2), (dim, dim, 4, 2), (dim, dim, 3, 1))
        self.layers = nn.ModuleList(nn.Conv2d(a, b, c, stride, 1, bias=False) for a, b, c, stride in sizes)
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)  # type: ignore[arg-type]

    def forward(self, batch: Batch) -> Encoded:
        x = self.layers[0](batch.inputs)
        for layer in self.layers[1:]:
            x = layer(x.relu())
        return Encoded(x.flatten(2).transpose(1, 2), len(batch))


def joined(patches: Tensor, side: int, patch: int) -> Tensor:
    """(B, (side / patch)^2, patch^2) -> (B, 1, side, side): the inverse of Unfold."""
    return nn.functional.fold(patches.transpose(1, 2), side, patch, stride=patch)
