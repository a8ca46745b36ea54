"""Which pixels meet: shifted windows, neighbourhoods, axes."""

import pytest
import torch
from torch.testing import assert_close

from regard import Axial, Neighbourhood, ShiftedWindows, attend
from regard.core.lowering import blocks

GRID = HEIGHT, WIDTH = 6, 8


def pairs(over, grid=(HEIGHT, WIDTH)):
    """(n, n) bool: which pixels meet."""
    nothing = torch.zeros(1, grid[0] * grid[1], 1)
    return attend(nothing, nothing, nothing, "dot", "uniform", over).map.weights()[0] > 0


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_shifted_windows_are_rolled_windows_whose_opposite_borders_are_masked(shift):
    """As in the paper: roll, cut into squares, and close pairs that were not neighbours before the roll."""
    size, grid = 4, (8, 12)
    place = torch.arange(grid[0] * grid[1]).view(grid)
    rolled = place.roll((-shift, -shift), (0, 1))
    region = torch.zeros(grid, dtype=torch.long)
    cuts = (slice(0, -size), slice(-size, -shift or None), slice(-shift, None) if shift else slice(0, 0))
    for a, rows in enumerate(cuts):
        for b, columns in enumerate(cuts):
            region[rows, columns] = 3 * a + b
    expected = torch.zeros(place.numel(), place.numel(), dtype=torch.bool)
    for top in range(0, grid[0], size):
        for left in range(0, grid[1], size):
            square = (slice(top, top + size), slice(left, left + size))
            ids, kinds = rolled[square].flatten(), region[square].flatten()
            expected[ids[:, None], ids] = kinds[:, None] == kinds
    assert_close(pairs(ShiftedWindows(grid, size, shift), grid), expected)


@pytest.mark.parametrize("size", [1, 3, 4, 6])
def test_everyone_has_a_whole_neighbourhood(size):
    met = pairs(Neighbourhood((HEIGHT, WIDTH), size))
    assert (met.sum(-1) == size * size).all()
    assert met.diagonal().all()


def test_two_axes_reach_every_pixel():
    rows, columns = (pairs(Axial((HEIGHT, WIDTH), axis)) for axis in ("row", "column"))
    assert (rows.sum(-1) == WIDTH).all()
    assert (columns.sum(-1) == HEIGHT).all()
    assert (rows.float() @ columns.float() > 0).all()


@pytest.mark.parametrize(
    "over",
    [
        ShiftedWindows((HEIGHT, WIDTH), 3, 1),
        Neighbourhood((HEIGHT, WIDTH), 3),
        Axial((HEIGHT, WIDTH)),
        Axial((HEIGHT, WIDTH), "column"),
    ],
    ids=str,
)
def test_blocks_of_rows_look_no_farther_than_they_must_and_miss_nothing(over, monkeypatch):
    q, k, v = torch.randn(3, 2, HEIGHT * WIDTH, 4, dtype=torch.float64)
    whole = attend(q, k, v, over=over, backend="reference").out
    monkeypatch.setattr(blocks, "BLOCK_BUDGET", 300)  # a few rows at a time
    assert_close(attend(q, k, v, over=over, backend="chunked").out, whole)


def test_wrong_grids_say_what_was_expected():
    q = torch.randn(1, 10, 4)
    with pytest.raises(ValueError, match="has 48 pixels, but there are n=10"):
        attend(q, q, q, over=Axial((HEIGHT, WIDTH)))
    with pytest.raises(ValueError, match="a shift below the size"):
        ShiftedWindows((8, 8), 4, 4)
    with pytest.raises(ValueError, match="larger than the image"):
        Neighbourhood((4, 8), 5)
