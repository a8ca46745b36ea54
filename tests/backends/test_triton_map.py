"""What is read off a map by Triton's interpreter, against bands of weights."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Entmax, Mask, Padding, Sigmoid, SoftCap, Window, attend, scores
from regard.backends.triton_map import read_of
from regard.core import registry

pytest.importorskip("triton")

from regard.backends import triton_map_launch as launch

STRUCTURES = {
    "full": None,
    "causal": Causal("end"),
    "causal from the start": Causal("start"),
    "window": Causal("end") & Window(9, 3, align="end"),
    "padded": Padding(torch.tensor([37, 0])),
    "left and causal": Causal("end") & Mask(keep=(torch.arange(37) > 5)[None, None, None].repeat(2, 1, 1, 1)),
    "heads": Mask(keep=torch.rand(2, 2, 1, 37, generator=torch.Generator().manual_seed(0)) > 0.5),
}
FUNCTIONS = {
    "softmax": "softmax", "sigmoid": "sigmoid", "biased sigmoid": Sigmoid(-1.0), "sparsemax": "sparsemax",
    "entmax 1.5": "entmax15", "entmax 1.3": Entmax(1.3),
}  # fmt: skip


def made(n=21, where="causal", align="softmax", score="scaled_dot", dtype=torch.float32):
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, n, 10, dtype=dtype), torch.randn(2, 2, 37, 10, dtype=dtype)
    amap = attend(q, k, k, score, align, STRUCTURES[where]).map
    return amap, read_of(amap.live, amap.slab)


def near(mine, theirs):
    assert_close(mine.view(theirs.shape), theirs, atol=2e-6, rtol=2e-6)


def near_cells(amap, read, tau, cell):
    level = amap.pyramid(cell)[0]
    for mine, theirs in zip(launch.cells_of(read, tau, cell), (level.mass, level.peak, level.count), strict=True):
        near(mine, theirs)


def near_all(amap, read, tau, cell):
    """Cells, entropy, mass, and one tile."""
    near_cells(amap, read, tau, cell)
    near(launch.entropy_of(read, tau), amap.entropy())
    near(launch.mass_of(read, tau), amap.mass())
    rows, cols = slice(amap.n // 3, amap.n), slice(3, 36)
    near(launch.band_of(read, tau, rows, cols), amap.tile(rows, cols))


@pytest.mark.parametrize("where", STRUCTURES)
@pytest.mark.parametrize("n, cell, dtype", [(37, 8, torch.float32), (21, 16, torch.float32), (1, 8, torch.bfloat16)])
def test_cells_are_those_of_the_weights(where, n, cell, dtype):
    amap, read = made(n, where, dtype=dtype)
    tau = launch.tau_of(read)
    near(tau, amap.tau)
    (near_all if n > 21 else near_cells)(amap, read, tau, cell)


@pytest.mark.parametrize("align", FUNCTIONS)
def test_every_function_of_a_score_with_a_bias_and_its_tau(align):
    amap, read = made(align=FUNCTIONS[align], score="gaussian", where="window")
    near_all(amap, read, amap.state.tau, 8)
    if align == "softmax":
        near(launch.tau_of(read), amap.tau)


def test_some_heads_of_a_map():
    amap, _ = made(20, "padded")
    one = amap[0, 1]
    read = read_of(one.live, one.slab)
    tau = launch.tau_of(read)
    mass, peak, count = launch.cells_of(read, tau, 8)
    level = one.pyramid(8)[0]
    assert_close((mass[0], peak[0], count[0]), (level.mass, level.peak, level.count), atol=2e-6, rtol=2e-6)
    near(launch.mass_of(read, tau), one.mass())


def test_a_score_that_is_turned_round_or_gone():
    for sharpness in (-2.0, 0.0):
        amap, read = made(score=scores.Cosine(sharpness))
        near_cells(amap, read, launch.tau_of(read), 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("d", [8, 64, 100, 256])
def test_tiles_of_every_width_fit_into_shared_memory(d, dtype):
    q = torch.zeros(1, 1, 4, d, dtype=dtype)
    read = read_of(attend(q, q, q).map.live, slice(0, 1))
    for side in (read.side, launch.SMALL):
        assert read.stages(side) >= 1 and (read.stages(side) + 1) * side * read.across <= 227 * 1024


class Interpreted:
    """The readings of a GPU, interpreted."""

    def tau(self, problem):
        return launch.tau_of(read_of(problem, slice(0, problem.g), known=False))

    def cells(self, amap, cell):
        return launch.cells_of(read_of(amap.live, amap.slab), amap.state.tau[amap.slab], cell)

    def entropy(self, amap):
        return launch.entropy_of(read_of(amap.live, amap.slab), amap.state.tau[amap.slab])

    def mass(self, amap):
        return launch.mass_of(read_of(amap.live, amap.slab), amap.state.tau[amap.slab])

    def band(self, amap, rows, cols):
        return launch.band_of(read_of(amap.live, amap.slab), amap.state.tau[amap.slab], rows, cols)

    def within(self, amap, places, cell):
        return launch.within(read_of(amap.live, amap.slab), amap.state.tau[amap.slab], places, cell)


def test_a_map_reads_through_it(monkeypatch):
    true, _ = made(where="left and causal")
    w = true.weights()
    monkeypatch.setattr(registry, "readers", [Interpreted()])
    amap, _ = made(where="left and causal")
    near(amap.tau, true.tau)
    near(amap.weights(), w)
    near(amap.mass(), w.sum(-2))
    near(amap.entropy(), -torch.xlogy(w, w).sum(-1))
    near(amap[1].tile(slice(4, 9), slice(0, 37)), w[1, :, 4:9])
    amap.pyramid(8)
    found = amap.find(0.2)
    assert torch.equal(found.where, (w > 0.2).nonzero())
    near(found.weight, w[w > 0.2])
    assert len(amap.find(1.5).weight) == 0


OTHERS = [
    {"align": "relu"},
    {"score": "additive"},
    {"score": scores.ScaledDot() | SoftCap(3.0)},
    {"over": Mask(keep=torch.ones(9, 9, dtype=torch.bool))},
]


@pytest.mark.parametrize("options", OTHERS, ids=["alignment", "score", "modifier", "pairs"])
def test_what_it_leaves_to_others(options):
    q = torch.randn(1, 2, 9, 4)
    amap = attend(q, q, q, **options).map
    assert read_of(amap.live, amap.slab) is None
