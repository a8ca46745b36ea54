"""Every part of the dense benchmark, small and on a CPU: both sides compute the same, and what is told follows."""

import weakref

import pytest
import torch
from entmax import entmax15
from torch.testing import assert_close

from regard.core.structures import Causal, Full, Window
from regard.lab.bench.dense import PARTS, main
from regard.lab.bench.dense.harness import BACKWARD, BOTH, FORWARD, Bar, BenchSetting, Disagree, PeerPair
from regard.lab.bench.dense.sparse import by_definition

HERE = BenchSetting("cpu")


def splash(q, k, v):
    """Causal entmax 1.5 by the entmax package: AdaSplash runs on a GPU alone."""
    s = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
    later = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
    return (entmax15(s.masked_fill(later, -1e9), dim=-1) @ v.float()).to(v.dtype)


SMALL = {
    "additive": {"sizes": ((2, 1, 9), (1, 2, 17)), "d": 8},
    "gaussian": {"short": 33, "long": 70, "heads": 2, "d": 16},
    "window": {"n": 300, "fresh": 1311, "width": 20, "heads": 1, "d": 16},
    "modified": {"lengths": (40,), "widths": (16,), "heads": 2, "pairs": 33},
    "sigmoid": {"n": 40, "heads": 2, "widths": (16, 8)},
    "entmax": {"n": 64, "odd": 37, "width": 9, "heads": 2, "d": 32, "segment": 4, "peer": splash},
    "best": {"n": 40, "heads": 2, "d": 16, "k": 5},
    "shared": {"n": 20, "heads": 4, "group": 2, "d": 16},
    "features": {"size": (1, 2, 12), "d": 8},
    "pyramids": {"n": 70, "heads": 2, "d": 16, "side": 16, "pairs": 20},
}


@pytest.mark.filterwarnings("ignore:flex_attention called without", "ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_both_sides_of_every_part_agree(part):
    if part.__name__ == "window":
        pytest.importorskip("triton")  # whose compilations are counted
    results = list(part(HERE, **SMALL[part.__name__]))  # raises where they do not
    assert len({result.name for result in results}) == len(results) > 0
    for result in results:
        assert result.ours > 0 and (result.peer is None or result.peer > 0)
        assert result.notes.get("apart", 0.0) < 0.06


def test_segments_leave_the_asked_share_of_tiles_empty():
    found = {
        result.name.split(", ")[-2]: result.notes["empty_tiles"]
        for result in next_of("entmax")
        if "% empty" in result.name
    }
    assert found == {
        "0 % empty": pytest.approx(0, abs=0.1),
        "50 % empty": pytest.approx(0.5, abs=0.1),
        "90 % empty": pytest.approx(0.9, abs=0.1),
    }


def next_of(name):
    part = next(part for part in PARTS if part.__name__ == name)
    return list(part(HERE, **SMALL[name]))


@pytest.mark.slow
def test_a_rate_is_the_time_over_the_pairs_that_may_meet():
    causal = next(result for result in next_of("entmax") if result.name.startswith("entmax 1.5 causal, 37"))
    assert causal.notes["pairs"] == 2 * 37 * 38 // 2
    assert causal.ours == pytest.approx(causal.notes["ms"] / causal.notes["pairs"] * 1e9)


def test_two_sides_that_compute_different_things_are_an_error():
    q, k, v = HERE.made(*[(1, 1, 8, 4)] * 3, dtype=torch.float32)
    call = (q, k, v, "scaled_dot", "softmax", Causal())
    pair = PeerPair(HERE, "x", lambda: HERE.attend(*call), lambda: HERE.attend(q, k, v), "other", call, [q, k, v])
    for way in (FORWARD, BOTH):
        with pytest.raises(Disagree, match=f"x, .*{way[-4:]}: ours and other differ"):
            pair.measured(way, Bar(times=1))


@pytest.mark.parametrize(
    ("bar", "words", "mine", "theirs", "mib", "held"),
    [
        (Bar(times=1 / 8), "8 times faster", 1.0, 8.0, None, True),
        (Bar(times=1 / 8), "8 times faster", 1.01, 8.0, None, False),
        (Bar(times=1), "not slower", 2.0, 2.0, None, True),
        (Bar(times=1.3, ms=11), "at most 1.3 times, at most 11 ms", 12.0, 20.0, None, False),
        (Bar(ms=2, mib=600), "at most 2 ms, under 600 MiB", 1.0, None, 600.0, False),
        (Bar(times=1), "not slower", 2.0, None, None, None),
        (Bar(), "none", 2.0, 3.0, None, None),
    ],
)
def test_a_bar_is_held_where_all_of_it_is(bar, words, mine, theirs, mib, held):
    assert str(bar) == words
    assert bar.held(mine, theirs, mib) is held


@pytest.mark.parametrize("over", [Full(), Causal(), Causal() & Window(3, 0)], ids=str)
def test_the_definition_of_entmax_has_the_weights_and_gradients_of_the_package(over):
    q, k, v = (torch.randn(1, 2, 11, 4, dtype=torch.float32, requires_grad=True) for _ in range(3))
    i, j = torch.arange(11)[:, None], torch.arange(11)
    seen = torch.ones(11, 11, dtype=torch.bool)
    if not isinstance(over, Full):
        seen &= j <= i
    if len(over.parts()) > 1:
        seen &= j >= i - 3
    true = entmax15(((q @ k.mT) / 2).masked_fill(~seen, -1e9), dim=-1) @ v
    mine = by_definition(q, k, v, over)
    pull = torch.randn_like(true)
    assert_close(mine, true)
    assert_close(torch.autograd.grad(mine, (q, k, v), pull), torch.autograd.grad(true, (q, k, v), pull))


def test_what_cannot_be_kept_in_a_graph_is_told_and_the_other_side_is_timed():
    class Kept(BenchSetting):
        def graph(self, run):
            return run

        def times(self, *runs):
            return [float(len(run())) for run in runs]  # a gradient for each leaf, one row of the output

    def waits():
        raise RuntimeError("it waits for the card")

    leaf = torch.ones(1, 2, requires_grad=True)
    pair = PeerPair(Kept("cpu"), "x", lambda: leaf * 2, waits, "peer", (), [leaf, leaf])
    refused = {"peer_graph_refused": "RuntimeError: it waits for the card"}
    assert pair.kernels(FORWARD) == {"graph_ms": 1.0} | refused
    assert pair.kernels(BOTH)["graph_ms"] == 2.0 and pair.kernels(BACKWARD)["graph_ms"] == 1.0  # both, less forward


def test_no_forward_is_kept_for_its_gradient_while_a_graph_is_recorded():
    """Its nodes belong to the stream outside, which may not wait for a recording: that failed, and so did all after."""
    made = []

    class Kept(BenchSetting):
        def graph(self, run):
            assert not [out for out in made if out() is not None]
            return run

    def run():
        out = leaf * 2
        made.append(weakref.ref(out))
        return out

    leaf = torch.randn(3, 4, requires_grad=True)
    call = (*(torch.randn(1, 1, 4, 4) for _ in range(3)),)
    for way in (FORWARD, BACKWARD, BOTH):
        found = PeerPair(Kept("cpu"), "x", run, lambda: leaf * 2, "peer", call, [leaf]).measured(way, Bar())
        assert "graph_ms" in found.notes


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("There is a GPU here: what is said without one is not.")
    with pytest.raises(OSError, match="no CUDA device"):
        main("entmax")
    with pytest.raises(ValueError, match="--parts enmtax: expected additive"):
        main("enmtax")
