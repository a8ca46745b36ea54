"""The cells of a pyramid on a GPU, against bands of weights computed there and in fp64."""

import pytest
import torch

from regard import Causal, Entmax, Mask, Padding, Segments, SoftCap, TopK, Window, attend, scores
from regard.backends.triton.maps.map_lowering import map_tensors_of
from regard.core import registry
from regard.core.alignments import Gumbel, Hard, LocalPredictive
from regard.lab.bench.dense.harness import kernels_compiled

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
        "segments": Segments(torch.arange(m, device="cuda") // 90) & Causal(),
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
        assert map_tensors_of(amap.live, amap.slab, amap.state) is not None
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


CASES = [
    (lambda: scores.Additive(48, heads=3), "softmax", "causal"),
    (lambda: scores.Additive(48, heads=3), "sigmoid", "padded"),
    (lambda: scores.Additive(48, heads=3), "entmax15", "window"),
    (lambda: scores.Additive(48, heads=3), TopK(5), "full"),
    (lambda: scores.Additive(48, width=70, heads=3, activation="leaky_relu"), Entmax(1.3), "keys"),
    (lambda: scores.Additive(48, heads=3, activation="relu"), "relu", "segments"),
    (lambda: "laplace", "softmax", "segments"),
    (lambda: "laplace", Hard(), "causal"),
    (lambda: "gaussian", LocalPredictive(20), "padded"),
    (lambda: "gaussian", Gumbel(0.5), "full"),
    (lambda: scores.ScaledDot() | SoftCap(2.0), Gumbel(0.5, straight_through=True), "keys"),
    (lambda: "scaled_dot", Entmax(1.4, learned=True, heads=3), "window"),
    (lambda: "scaled_dot", "uniform", "keys"),
    (lambda: scores.Additive(features=True), "softmax", "causal"),
    (lambda: scores.Additive(activation="identity", features=True) | SoftCap(5.0), "softmax", "padded"),
    (lambda: scores.Dot(features=True), "sigmoid", "window"),
    (lambda: scores.QueryFree(48, heads=3, features=48), "softmax", "keys"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("score, align, where", CASES)
def test_every_score_and_alignment_is_read_as_its_bands(score, align, where, dtype, monkeypatch):
    torch.manual_seed(0)
    q, k = (torch.randn(2, 3, 257, 48, device="cuda", dtype=dtype) for _ in range(2))
    score, over = score(), structures(257)[where]
    score = score.cuda() if isinstance(score, torch.nn.Module) else score
    align = align.cuda() if isinstance(align, torch.nn.Module) else align
    made = attend(q, k, k, score, align, over, sample=isinstance(align, (Hard, Gumbel)), seed=3).map
    assert map_tensors_of(made.live, made.slab, made.state) is not None
    mine = readings(made)
    monkeypatch.setattr(registry, "readers", [])
    made._pyramid = None
    for one, other in zip(mine, readings(made), strict=True):
        near(one, other)


def between(w):
    """A threshold that no weight is near to: in the widest gap among the largest thousand."""
    top = w.flatten().topk(1000).values.unique()
    if len(top) == 1:  # weights of 0 and 1
        return float(top) / 2
    widest = (top[1:] / top[:-1]).argmax()
    return float(top[widest] * top[widest + 1]) ** 0.5


def readings(amap):
    level = amap.pyramid(16)[0]
    found = amap.find(between(amap.weights()))
    read = [level.mass, level.peak, level.count, amap.entropy(), amap.mass()]
    return [*read, amap.tile(slice(100, 250), slice(3, 190)), found.where, found.weight]


def near(mine, true, tolerance=3e-5):
    torch.testing.assert_close(mine.double(), true.double(), atol=tolerance, rtol=tolerance)


def test_reading_places_and_lengths_compiles_each_kernel_once():
    with kernels_compiled() as names:
        for n in (1024, 1000, 777):
            q = torch.randn(1, 3, n, 48, device="cuda", dtype=torch.bfloat16)
            amap = attend(q, q, q, over=Causal(), backend="sdpa").map
            for start in (0, 1, 16, 300):
                amap.tile(slice(start, start + 200), slice(start + 5, start + 261))
            amap.pyramid(32)
    assert sorted(names) == ["rows_kernel", "rows_kernel", "tile_kernel"]  # of tau and of cells


def test_the_same_bits_twice():
    q = torch.randn(1, 4, 1000, 64, device="cuda", dtype=torch.bfloat16)
    one, two = (attend(q, q, q, over=Causal()).map.pyramid(16)[0] for _ in range(2))
    assert torch.equal(one.mass, two.mass) and torch.equal(one.peak, two.peak)
