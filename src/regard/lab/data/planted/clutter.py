"""Digits in clutter: one digit somewhere on a larger canvas, among bits of other digits."""

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example
from regard.data.task import Task

SIDE, PATCH = 8, 4


def clutter(canvas: int = 32, bits: int = 6, train: int = 4000, val: int = 500, test: int = 500, seed: int = 0) -> Task:
    """Which digit is it? inputs (1, canvas, canvas) in [0, 1]; gold (patches,) the share of each 4 x 4 patch that the
    8 x 8 box of the digit covers, patches row by row.

    The digits are scikit-learn's (1797 images); training, val and test use different ones. Clutter is `bits` pieces of
    4 x 4 pixels cut from other training digits, never over the box. The box is the ground truth: pixels outside it
    are independent of the answer.
    """
    from sklearn.datasets import load_digits

    if canvas % PATCH or canvas < 2 * SIDE:
        raise ValueError(f"clutter(canvas={canvas}): expected a multiple of {PATCH}, {2 * SIDE} or more.")
    draw = np.random.default_rng(seed)
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, SIDE, SIDE)
    order = draw.permutation(len(images))
    held = len(images) // 6
    pools = (order[: -2 * held], order[-2 * held : -held], order[-held:])

    def example(pool: np.ndarray, place: int) -> Example:
        chosen = int(draw.choice(pool))
        page = np.zeros((canvas, canvas), np.float32)
        top, left = (int(x) for x in draw.integers(0, canvas - SIDE + 1, 2))
        put = 0
        while put < bits:
            row, column = (int(x) for x in draw.integers(0, canvas - PATCH + 1, 2))
            if top - PATCH < row < top + SIDE and left - PATCH < column < left + SIDE:
                continue
            a, b = (int(x) for x in draw.integers(0, SIDE - PATCH + 1, 2))
            page[row : row + PATCH, column : column + PATCH] = images[draw.choice(pools[0])][
                a : a + PATCH, b : b + PATCH
            ]
            put += 1
        page[top : top + SIDE, left : left + SIDE] = images[chosen]
        gold = box_patches(canvas, top, left)
        return Example(torch.from_numpy(page)[None], torch.tensor(int(labels[chosen])), gold, id=place)

    parts = (
        [example(pool, place) for place in range(count)] for pool, count in zip(pools, (train, val, test), strict=True)
    )
    return Task(f"digits in clutter, {canvas} x {canvas}", *parts, classes=10, names=tuple("0123456789"))


def box_patches(canvas: int, top: int, left: int) -> Tensor:
    """(patches,) the covered share of each patch."""
    box = torch.zeros(canvas, canvas)
    box[top : top + SIDE, left : left + SIDE] = 1.0
    return box.unfold(0, PATCH, PATCH).unfold(1, PATCH, PATCH).mean((-1, -2)).flatten()
