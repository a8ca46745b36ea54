"""The cells of a pyramid on a GPU, against bands of weights computed there and in fp64."""

import pytest
import torch

from regard import Causal, Mask, Padding, Window, attend
from regard.backends.triton_map import read_of
from regard.bench.dense.beside import kernels_compiled

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]


def structures(m):
    return {
        "full": None,
        "causal": Causal("end"),
        "window": Causal("end") & Window(100, 7, align="end"),
        "padded": Padding(torch.tensor([m, m // 3], device="cuda")),
        "keys": Causal("end") & Mask(keep=(torch.arange(m, device="cuda") > 50)[None, None, None]),
    }


def exact(q, k, align, over):
    """The map in fp64, which no kernel reads."""
    return attend(q.double(), k.double(), k.double(), align=align, over=over).map


@pytest.mark.parametrize("where", ["full", "causal", "window", "padded", "keys"])
@pytest.mark.parametrize("n, m, d", [(500, 500, 64), (1, 300, 64), (257, 300, 40), (130, 130, 128), (70, 200, 256)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cells_are_those_of_the_weights(where, n, m, d, dtype):
    torch.manual_seed(0)
    q, k = (torch.randn(2, 3, size, d, device="cuda", dtype=dtype) for size in (n, m))
    over = structures(m)[where]
    for cell in (8, 32, 128):
        amap = attend(q, k, k, over=over).map
        assert read_of(amap.live, amap.slab) is not None
        mine, true = (x.pyramid(cell)[0] for x in (amap, exact(q, k, "softmax", over)))
        for name in ("mass", "peak", "count"):
            near(getattr(mine, name), getattr(true, name))


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax", "entmax15"])
@pytest.mark.parametrize("where", ["full", "window", "padded", "keys"])
def test_statistics_tiles_and_what_is_found_are_those_of_the_weights(align, where):
    torch.manual_seed(0)
    q, k = (torch.randn(2, 3, size, 64, device="cuda", dtype=torch.bfloat16) for size in (257, 300))
    over = structures(300)[where]
    mine, true = attend(q, k, k, align=align, over=over).map, exact(q, k, align, over)
    w = true.weights()
    near(mine.entropy(), true.entropy())
    near(mine.mass(), true.mass())
    near(mine.tile(slice(100, 257), slice(3, 290)), w[..., 100:257, 3:290])
    near(mine[1, 2].tile(slice(0, 3), slice(0, 300)), w[1, 2, :3])
    mine.pyramid(16)
    threshold = float(w.max()) / 2
    assert torch.equal(mine.find(threshold).where, (w > threshold).nonzero())


def near(mine, true):
    torch.testing.assert_close(mine.double(), true.double(), atol=3e-5, rtol=3e-5)


def test_reading_places_and_lengths_compiles_each_kernel_once():
    with kernels_compiled() as names:
        for n in (1024, 1000, 777):
            q = torch.randn(1, 3, n, 48, device="cuda", dtype=torch.bfloat16)
            amap = attend(q, q, q, over=Causal(), backend="sdpa").map
            for start in (0, 1, 16, 300):
                amap.tile(slice(start, start + 200), slice(start + 5, start + 261))
            amap.pyramid(32)
    assert len(names) == len(set(names)) == 3


def test_the_same_bits_twice():
    q = torch.randn(1, 4, 1000, 64, device="cuda", dtype=torch.bfloat16)
    one, two = (attend(q, q, q, over=Causal()).map.pyramid(16)[0] for _ in range(2))
    assert torch.equal(one.mass, two.mass) and torch.equal(one.peak, two.peak)
