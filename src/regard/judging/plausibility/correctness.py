"""Attention correctness: how much of the weight lies where a person says that it belongs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..finding import Finding
from ..statistics.comparison import compare
from ..statistics.intervals import known, stream
from ..wording import percent, sentence

DRAWS = 20  # random orders


def attention_correctness(weights: ArrayLike, marks: ArrayLike) -> float:
    """The weight on what was marked.

        AC = sum_i a_i g_i

    weights (n,) or (rows, columns), sum 1; marks of the same shape: 1 marked, 0 not, or the share of a patch that lies
    in a marked box. Everything marked gives 1, nothing marked 0. Equal weights give the mean of the marks, whatever the
    model saw: read it beside `chance`. Liu et al. 2017.
    """
    a, g = _matched(weights, marks)
    total = float(a.sum())
    if not np.isclose(total, 1.0, atol=1e-3) or (a < 0).any():
        raise ValueError(
            f"attention_correctness: weights sum to {total:.4g}; expected weights >= 0 with sum 1. "
            "Weights of a sigmoid or of a gate have no fixed sum: divide them by it first."
        )
    return float((a * g).sum())


def chance(marks: ArrayLike) -> float:
    """What equal weights get: the share that is marked, |G| / n."""
    g = np.asarray(marks, dtype=np.float64)
    return float(g.mean()) if g.size else float("nan")


def box_marks(boxes: Sequence[Sequence[float]], grid: tuple[int, int], size: tuple[float, float]) -> np.ndarray:
    """The share of each patch that lies in a box: boxes (left, top, right, bottom) in pixels  ->  (rows, columns).

    grid: (rows, columns) of patches; size: (height, width) of the picture. Boxes that overlap are counted once.
    """
    rows, columns = grid
    height, width = size
    if rows < 1 or columns < 1 or not height > 0 or not width > 0:
        raise ValueError(f"box_marks(grid={grid}, size={size}): expected (rows, columns) and (height, width) above 0.")
    for left, top, right, bottom in boxes:
        if left > right or top > bottom:
            raise ValueError(
                f"box_marks: box {(left, top, right, bottom)}: expected (left, top, right, bottom) with "
                "left <= right and top <= bottom."
            )
    # The edges of all boxes and patches cut the picture into cells that lie in a box as a whole or not at all.
    x = np.unique(np.clip([*np.linspace(0, width, columns + 1), *(e for b in boxes for e in (b[0], b[2]))], 0, width))
    y = np.unique(np.clip([*np.linspace(0, height, rows + 1), *(e for b in boxes for e in (b[1], b[3]))], 0, height))
    inside = np.zeros((len(y) - 1, len(x) - 1), dtype=bool)
    middle_x, middle_y = (x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2
    for left, top, right, bottom in boxes:
        inside |= ((middle_y > top) & (middle_y < bottom))[:, None] & ((middle_x > left) & (middle_x < right))
    covered = inside * np.diff(y)[:, None] * np.diff(x)
    marks = np.zeros(grid)
    row = np.minimum((middle_y * rows / height).astype(int), rows - 1)
    column = np.minimum((middle_x * columns / width).astype(int), columns - 1)
    np.add.at(marks, (row[:, None], column[None]), covered)
    return marks * (rows * columns) / (height * width)


def judge_correctness(
    weights: Sequence[ArrayLike], marks: Sequence[ArrayLike], seed: int = 0, resamples: int = 2000
) -> list[Finding]:
    """Mean attention correctness over instances, beside the same weights in random orders, whose expectation is chance;
    an instance without a mark is left out and counted."""
    if len(weights) != len(marks):
        raise ValueError(f"judge_correctness: weights of {len(weights)} instances, but marks of {len(marks)}.")
    some = [
        (np.asarray(a, dtype=np.float64), np.asarray(g, dtype=np.float64)) for a, g in zip(weights, marks, strict=True)
    ]
    values = [attention_correctness(a, g) if g.any() else float("nan") for a, g in some]
    draw = stream(seed, "random weights")
    random = [
        [attention_correctness(draw.permutation(a.ravel()), g.ravel()) if g.any() else float("nan") for a, g in some]
        for _ in range(DRAWS)
    ]
    found = compare(values, {"random": np.array(random)}, scale=(0.0, 1.0), seed=seed, resamples=resamples)
    says = (
        "undefined: nothing was marked."
        if found.value is None
        else sentence(f"{percent(found.value)} of the weight lies on what people marked.")
    )
    return [
        Finding.of(
            found,
            name="attention correctness",
            says=says,
            better="higher",
            test="people",
            unit="share of weight",
            baselines={"chance": known([chance(g) if g.any() else float("nan") for _, g in some])},
        )
    ]


def _matched(weights: ArrayLike, marks: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, g = np.asarray(weights, dtype=np.float64), np.asarray(marks, dtype=np.float64)
    if a.shape != g.shape or a.size == 0:
        raise ValueError(f"weights have shape {a.shape}, marks {g.shape}: expected the same, with a place at least.")
    if not (np.isfinite(a).all() and (g >= 0).all() and (g <= 1).all()):
        raise ValueError("weights must be finite and marks between 0 and 1: leave padding out of both.")
    return a, g
