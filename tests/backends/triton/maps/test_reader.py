"""What is read off a map by Triton's interpreter, against bands of weights."""

import pytest
import torch
from tests.sampling import mostly_slow
from torch.testing import assert_close

from regard import Causal, Entmax, Mask, Padding, Segments, Sigmoid, SoftCap, TopK, Window, attend, scores
from regard.backends.triton.maps import reader
from regard.backends.triton.maps.map_lowering import map_tensors_of
from regard.backends.triton.maps.reader import TritonMap
from regard.core import registry
from regard.core.alignments import Gumbel, Hard, Local, LocalPredictive, Reinforced
from regard.core.maps import lazy as lazy_maps

pytest.importorskip("triton")

from regard.backends.triton.maps import launch

HEADS, M, D = 2, 37, 3
STRUCTURES = {
    "full": None,
    "causal": Causal("end"),
    "causal from the start": Causal("start"),
    "window": Causal("end") & Window(9, 3, align="end"),
    "padded": Padding(torch.tensor([37, 0])),
    "left and causal": Causal("end") & Mask(keep=(torch.arange(37) > 5)[None, None, None].repeat(2, 1, 1, 1)),
    "heads": Mask(keep=torch.rand(2, 2, 1, 37, generator=torch.Generator().manual_seed(0)) > 0.5),
    "segments": Segments(torch.arange(21) // 5, key_ids=torch.arange(37) // 9),
    "packed": Segments(torch.stack([torch.arange(37) // 7, torch.arange(37) // 20])) & Causal(),
}
SCORES = {
    "dot": lambda: "scaled_dot",
    "a bias of keys": lambda: "gaussian",
    "capped": lambda: scores.ScaledDot() | SoftCap(0.5),
    "tanh": lambda: scores.Additive(D, heads=HEADS),
    "tanh of 5 features": lambda: scores.Additive(D, width=5, heads=HEADS),
    "leaky": lambda: scores.Additive(D, heads=HEADS, activation="leaky_relu"),
    "distance": lambda: "laplace",
    "tanh by feature": lambda: scores.Additive(features=True),
    "product by feature": lambda: scores.Dot(features=True),
    "capped by feature": lambda: scores.Additive(activation="identity", features=True) | SoftCap(2.0),
    "matrix by feature": lambda: scores.Additive(D, heads=HEADS, features=D),
    "keys by feature": lambda: scores.QueryFree(D, heads=HEADS, features=D),
}
FUNCTIONS = {
    "softmax": lambda: "softmax",
    "sigmoid": lambda: "sigmoid",
    "biased sigmoid": lambda: Sigmoid(-1.0),
    "relu": lambda: "relu",
    "uniform": lambda: "uniform",
    "sparsemax": lambda: "sparsemax",
    "entmax 1.5": lambda: "entmax15",
    "entmax 1.3": lambda: Entmax(1.3),
    "entmax 2.5": lambda: Entmax(2.5),
    "learned entmax": lambda: Entmax(1.4, learned=True, heads=HEADS),
    "top 3": lambda: TopK(3),
    "hard": Hard,
    "soft draw": lambda: Gumbel(0.7),
    "straight through": lambda: Gumbel(0.7, straight_through=True),
    "local": lambda: Local(4),
    "predictive": lambda: LocalPredictive(4),
    "reinforced": lambda: Reinforced(D),
}


def made(n=21, where="causal", align="softmax", score="scaled_dot", dtype=torch.float32, batch=2, **options):
    """The same map twice."""
    torch.manual_seed(0)
    q, k = torch.randn(batch, HEADS, n, D, dtype=dtype), torch.randn(batch, HEADS, M, D, dtype=dtype)
    return [attend(q, k, k, score, align, STRUCTURES[where], **options).map for _ in range(2)]


def seen(amap, cell):
    """All that is read off a map but tau."""
    level = amap.pyramid(cell)[0]
    found = amap.find(0.05)
    return {
        "cells": (level.mass, level.peak, level.count),
        "entropy": amap.entropy(),
        "mass": amap.mass(),
        "tile": amap.tile(slice(amap.n // 3, amap.n), slice(3, 36)),
        "found": (found.where, found.weight),
    }


@pytest.fixture
def compare(monkeypatch):
    """What kernels read off a map is what bands of its weights say."""

    def compare(true, mine, cell=8, tau=False, tolerance=2e-6):
        expected, sums = seen(true, cell), true.tau
        if not tau:
            assert mine.state is not None
        monkeypatch.setattr(reader, "device_refusal", lambda device: None)
        monkeypatch.setattr(registry, "readers", [TritonMap()])
        monkeypatch.setattr(lazy_maps, "dense_block", None)  # no band is computed
        if tau:
            mine._state = None
            assert_close(mine.tau, sums, atol=tolerance, rtol=tolerance)
        for name, reading in seen(mine, cell).items():
            assert_close(
                reading, expected[name], atol=tolerance, rtol=tolerance, msg=lambda text, at=name: f"{at}: {text}"
            )

    return compare


@pytest.mark.covered
@pytest.mark.parametrize(
    "where, score",
    [
        *[(where, "dot") for where in STRUCTURES],
        *[(where, "tanh") for where in ("causal", "window", "heads", "packed")],
    ],
)
def test_every_structure(where, score, compare, monkeypatch):
    monkeypatch.setattr(launch.MapTensors, "side", 16)  # so that many tiles are met, some of them whole
    n = 21 if where == "segments" else 37
    compare(*made(n, where, score=SCORES[score]()), tau=True)


@pytest.mark.covered
@pytest.mark.parametrize("n, cell, dtype", [(21, 16, torch.float32), (1, 2, torch.bfloat16), (37, 64, torch.float16)])
@pytest.mark.parametrize("score", ["dot", "tanh"])
def test_every_size_of_cells_and_type(n, cell, dtype, score, compare):
    compare(*made(n, "causal", score=SCORES[score](), dtype=dtype), cell, tau=True)


@pytest.mark.parametrize("score", SCORES)
def test_every_score(score, compare):
    true, mine = made(score=SCORES[score](), where="window", batch=1)
    compare(true, mine, tau=True, tolerance=1e-5 if "feature" in score else 3e-6)


@pytest.mark.parametrize("align, score", [*zip(FUNCTIONS, ["a bias of keys", "leaky"] * len(FUNCTIONS), strict=False)])
def test_every_alignment(align, score, compare):
    compare(*made(align=FUNCTIONS[align](), score=SCORES[score](), where="window", batch=1), tolerance=5e-6)


@pytest.mark.parametrize("align", ["hard", "soft draw", "straight through", "reinforced"])
def test_every_draw(align, compare):
    compare(
        *made(align=FUNCTIONS[align](), score="additive", where="causal", batch=1, sample=True, seed=3), tolerance=5e-6
    )


@pytest.mark.parametrize(
    "align",
    mostly_slow(["relu", "top 3", "learned entmax", "predictive", "uniform"], "top 3", "predictive"),
)
def test_rows_of_each_feature_have_what_is_known_of_them(align, compare):
    compare(*made(align=FUNCTIONS[align](), score=SCORES["tanh by feature"](), where="window", batch=1), tolerance=5e-6)


@pytest.mark.parametrize("size", [8.0, 30.0])
def test_tanh_of_large_sums(size, compare):
    torch.manual_seed(0)
    q, k = size * torch.randn(1, 1, 20, D), size * torch.randn(1, 1, 23, D)
    compare(*[attend(q, k, k, "additive").map for _ in range(2)], tau=True, tolerance=1e-5)


def test_a_sink_takes_its_share(compare):
    score = scores.ScaledDot() | scores.Sink(HEADS)
    compare(*made(score=score), tolerance=3e-6)


def test_some_heads_of_a_map(compare):
    for score in ("scaled_dot", SCORES["tanh"]()):
        true, mine = made(20, "padded", score=score)
        compare(true[0, 1], mine[0, 1])


def test_a_score_that_is_turned_round_or_gone(compare):
    for sharpness in (-2.0, 0.0):
        compare(*made(score=scores.Cosine(sharpness)), tau=True)


@pytest.mark.covered
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("d", [8, 64, 100, 256])
def test_tiles_of_every_width_fit_into_shared_memory(d, dtype):
    q = torch.zeros(1, 1, 4, d, dtype=dtype)
    read = map_tensors_of(attend(q, q, q).map.live, slice(0, 1))
    for side in (read.side, launch.SMALL):
        assert read.stages(side) >= 1 and (read.stages(side) + 1) * side * read.across <= 227 * 1024


OTHERS = [
    {"score": scores.ActivatedGeneral(4)},
    {"score": scores.ScaledDot() | scores.Clamp(3.0)},
    {"over": Mask(keep=torch.ones(9, 9, dtype=torch.bool))},
    {"over": Segments(torch.tensor([0, 1, 0, 1, 2, 2, 2, 0, 0]))},
]


@pytest.mark.parametrize("options", OTHERS, ids=["score", "modifier", "pairs", "segments out of order"])
def test_what_it_leaves_to_others(options):
    q = torch.randn(1, 2, 9, 4)
    amap = attend(q, q, q, **options).map
    assert map_tensors_of(amap.live, amap.slab, amap.state) is None
