"""The cells of a pyramid on a GPU, against bands of weights computed there and in fp64."""

import pytest
import torch

from regard import Causal, Mask, Padding, Window, attend
from regard.backends.triton_map import cells_of
from regard.core import registry

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def structures(m):
    return {
        "full": None,
        "causal": Causal("end"),
        "window": Causal("end") & Window(100, 7, align="end"),
        "padded": Padding(torch.tensor([m, m // 3], device="cuda")),
        "keys": Causal("end") & Mask(keep=(torch.arange(m, device="cuda") > 50)[None, None, None]),
    }


@pytest.mark.parametrize("where", ["full", "causal", "window", "padded", "keys"])
@pytest.mark.parametrize("n, m, d", [(500, 500, 64), (1, 300, 64), (257, 300, 40), (130, 130, 128)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cells_are_those_of_the_weights(where, n, m, d, dtype, monkeypatch):
    torch.manual_seed(0)
    q, k = (torch.randn(2, 3, size, d, device="cuda", dtype=dtype) for size in (n, m))
    over = structures(m)[where]
    for cell in (8, 32, 128):
        amap = attend(q, k, k, over=over).map
        found = cells_of(amap.live, amap.slab, cell)
        assert found is not None
        monkeypatch.setattr(registry, "cell_makers", [])
        monkeypatch.setattr("regard.core.pyramid.cell_makers", [])
        level = attend(q.double(), k.double(), k.double(), over=over).map.pyramid(cell)[0]
        for mine, theirs in zip(found, (level.mass, level.peak, level.count), strict=True):
            torch.testing.assert_close(mine.view(theirs.shape).double(), theirs.double(), atol=3e-5, rtol=3e-5)


def test_the_same_bits_twice():
    q = torch.randn(1, 4, 1000, 64, device="cuda", dtype=torch.bfloat16)
    amap = attend(q, q, q, over=Causal()).map
    one, two = (cells_of(amap.live, amap.slab, 16) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
