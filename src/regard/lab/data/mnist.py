"""MNIST: handwritten digits, and denoising of them."""

import gzip
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example
from regard.data.files import data_file
from regard.data.task import Task

SIDE = 28


def mnist(folder: "str | Path | None" = None, train: int = 55_000, val: int = 5_000, test: int = 10_000) -> Task:
    """Images (1, 28, 28) in [0, 1] and their digits, read from images/mnist_*.gz in REGARD_DATA.

    val is the end of the 60,000 training images; smaller numbers take the first ones. LeCun et al. 1998.
    """
    pixels, digits = images("train", folder)
    later, names = images("t10k", folder)
    cuts = ((pixels[:train], digits[:train]), (pixels[-val:], digits[-val:]), (later[:test], names[:test]))
    if train + val > len(pixels):
        raise ValueError(f"mnist(train={train}, val={val}): there are {len(pixels)} images for both.")
    parts = ([Example(x, y, id=place) for place, (x, y) in enumerate(zip(*cut, strict=True))] for cut in cuts)
    return Task("mnist", *parts, classes=10, names=tuple("0123456789"))


def noisy_mnist(
    folder: "str | Path | None" = None,
    noise: float = 0.5,
    train: int = 20_000,
    val: int = 1_000,
    test: int = 2_000,
    seed: int = 0,
) -> Task:
    """Denoising: inputs are targets plus fixed Gaussian noise of this deviation, clipped to [0, 1]."""
    if not noise > 0:
        raise ValueError(f"noisy_mnist(noise={noise}): expected a deviation above 0.")
    clean, draw = mnist(folder, train, val, test), torch.Generator().manual_seed(seed)
    parts = (
        [Example(_noisy(one.inputs, noise, draw), one.inputs, id=one.id) for one in part]
        for part in (clean.train, clean.val, clean.test)
    )
    return Task(f"mnist, noise {noise:g}", *parts)


def _noisy(x: Tensor, noise: float, draw: torch.Generator) -> Tensor:
    return (x + noise * torch.randn(x.shape, generator=draw)).clamp(0, 1)


def images(part: str, folder: "str | Path | None" = None) -> tuple[Tensor, Tensor]:
    """(N, 1, 28, 28) in [0, 1] and (N,) digits, of "train" or "t10k"."""
    pixels = _idx(data_file(f"images/mnist_{part}-images-idx3-ubyte.gz", folder), 3)
    digits = _idx(data_file(f"images/mnist_{part}-labels-idx1-ubyte.gz", folder), 1)
    if pixels.shape[1:] != (SIDE, SIDE) or len(pixels) != len(digits) or digits.max() > 9:
        raise ValueError(f"mnist: {part} has images {pixels.shape} and {len(digits)} labels, expected (N, 28, 28).")
    return torch.from_numpy(pixels).float().div_(255)[:, None], torch.from_numpy(digits).long()


def _idx(path: Path, axes: int, limit: int = 2**27) -> np.ndarray:
    with gzip.open(path, "rb") as file:
        first = file.read(4 + 4 * axes)
        if len(first) < 4 + 4 * axes or first[:4] != bytes((0, 0, 8, axes)):
            raise ValueError(f"{path} is not an idx file of bytes with {axes} axes.")
        shape = struct.unpack(f">{axes}I", first[4:])
        size = int(np.prod(shape, dtype=np.int64))
        found = file.read(min(size, limit) + 1)
    if size > limit or len(found) != size:
        raise ValueError(f"{path} should hold {size} bytes (at most {limit}), and holds {len(found)}.")
    return np.frombuffer(found, np.uint8).reshape(shape).copy()
