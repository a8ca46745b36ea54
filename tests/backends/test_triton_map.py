"""The cells of a pyramid by Triton's interpreter, against bands of weights."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Mask, Padding, SoftCap, Window, attend, scores
from regard.backends.triton_map import cells_of

pytest.importorskip("triton")

STRUCTURES = {
    "full": None,
    "causal": Causal("end"),
    "causal from the start": Causal("start"),
    "window": Causal("end") & Window(9, 3, align="end"),
    "padded": Padding(torch.tensor([37, 0])),
    "left and causal": Causal("end") & Mask(keep=(torch.arange(37) > 5)[None, None, None].repeat(2, 1, 1, 1)),
    "heads": Mask(keep=torch.rand(2, 3, 1, 37, generator=torch.Generator().manual_seed(0)) > 0.5),
}


@pytest.mark.parametrize("where", STRUCTURES)
@pytest.mark.parametrize("n, cell, dtype", [(37, 8, torch.float32), (21, 16, torch.float32), (1, 8, torch.bfloat16)])
def test_cells_are_those_of_the_weights(where, n, cell, dtype):
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, n, 10, dtype=dtype), torch.randn(2, 3, 37, 10, dtype=dtype)
    amap = attend(q, k, k, over=STRUCTURES[where]).map
    found = cells_of(amap.live, amap.slab, cell)
    level = amap.pyramid(cell)[0]
    for mine, theirs in zip(found, (level.mass, level.peak, level.count), strict=True):
        assert_close(mine.view(theirs.shape), theirs, atol=2e-6, rtol=2e-6)


def test_some_heads_of_a_map():
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 20, 8), torch.randn(2, 3, 20, 8)
    amap = attend(q, k, k, over=Padding(torch.tensor([20, 7]))).map[1, 2]
    mass, peak, count = cells_of(amap.live, amap.slab, 8)
    level = amap.pyramid(8)[0]
    assert_close((mass[0], peak[0], count[0]), (level.mass, level.peak, level.count), atol=2e-6, rtol=2e-6)


OTHERS = [
    {"align": "sparsemax"},
    {"score": "additive"},
    {"score": scores.ScaledDot() | SoftCap(3.0)},
    {"over": Mask(keep=torch.ones(9, 9, dtype=torch.bool))},
]


@pytest.mark.parametrize("options", OTHERS, ids=["alignment", "score", "modifier", "pairs"])
def test_what_it_leaves_to_others(options):
    q = torch.randn(1, 2, 9, 4)
    amap = attend(q, q, q, **options).map
    assert cells_of(amap.live, amap.slab, 8) is None
