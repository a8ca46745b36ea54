"""Pictures: PSNR, SSIM, and the overlap of regions."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..statistics.intervals import mean
from .metric import Measured


def images(said: Tensor, wanted: Tensor, largest: float = 1.0) -> list[Measured]:
    """PSNR in decibels and SSIM (Gaussian window of 11 x 11, deviation 1.5), means over images; by torchmetrics.

    said, wanted (images, channels, height, width); pixels from 0 to `largest`. Equal images have PSNR infinity and
    SSIM 1.
    """
    from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

    if said.shape != wanted.shape or said.dim() != 4:
        raise ValueError(
            f"images: said {tuple(said.shape)}, wanted {tuple(wanted.shape)}; expected the same, "
            "(images, channels, height, width)."
        )
    if len(said) and min(said.shape[-2:]) < 11:
        raise ValueError(f"images of {tuple(said.shape[-2:])} pixels: SSIM looks through windows of 11 x 11.")
    psnr, ssim = torch.zeros(0), torch.zeros(0)
    if len(said):
        a, b = said.double(), wanted.double()
        psnr = peak_signal_noise_ratio(a, b, data_range=float(largest), dim=(1, 2, 3), reduction="none")
        ssim = structural_similarity_index_measure(a, b, data_range=float(largest), reduction="none")  # type: ignore[assignment]
    return [
        Measured(
            "PSNR", psnr.cpu().numpy(), mean, "higher", "Noise lies {} decibels below the picture.", "dB", "skewed"
        ),
        Measured(
            "SSIM", ssim.cpu().numpy(), mean, "higher", "Structure agrees by {} (1 is the same).", scale=(-1.0, 1.0)
        ),
    ]


def regions(said: Sequence[ArrayLike], wanted: Sequence[ArrayLike]) -> list[Measured]:
    """Intersection over union of masks, the mean over images; where both masks are empty it is undefined."""
    values = []
    for made, truth in zip(said, wanted, strict=True):
        a, b = np.asarray(made, dtype=bool), np.asarray(truth, dtype=bool)
        if a.shape != b.shape:
            raise ValueError(f"regions: a mask of shape {a.shape} beside one of {b.shape}: expected the same.")
        either = (a | b).sum()
        values.append((a & b).sum() / either if either else float("nan"))
    shared = np.array(values, dtype=np.float64)
    return [Measured("IoU", shared, mean, "higher", "Regions share {} of what either covers.", scale=(0.0, 1.0))]
