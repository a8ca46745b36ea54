"""The edge kernels under Triton's interpreter, on a CPU at small sizes: the reference's numbers, hubs cut or not.

Scores, alignments, edge features, graphs, sizes and dropout are covered by cases in which any two values of two of
these meet at least once.
"""

from dataclasses import replace
from itertools import combinations, product

import pytest
import torch

pytest.importorskip("triton", reason="the interpreter comes with the package triton, which is not installed")

from regard import GAT, Additive, Edges, Entmax, GATv2, ReLU, ScaledDot, Sigmoid, Softmax, Sparsemax, TopK, Uniform
from regard import attend as attend_by
from regard.backends.triton.edges import backend as triton_edges
from regard.backends.triton.edges import csr_schedule, launch
from regard.core.maps.lazy import LazyMap
from regard.core.plan import make_plan

SCORES = {
    "gat": GAT,
    "gatv2": GATv2,
    "dot": lambda d, heads: ScaledDot(),
    "tanh": lambda d, heads: Additive(d, heads=heads),
    "identity": lambda d, heads: Additive(activation="identity"),
}
ALIGNS = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "entmax": Entmax(1.5),
    "topk": TopK(2),
    "sigmoid": Sigmoid(),
    "biased": Sigmoid(-0.5),
    "relu": ReLU(),
    "uniform": Uniform(),
}
FEATURES = ["none", "key", "times", "value", "both", "twins"]  # twins: one tensor is the key and the value
HUBS = [[0] * 7 + [*range(7)], [*range(7)] + [3] * 7]
GRAPHS = {
    "directed, isolated": (torch.tensor([[0, 3, 1, 2, 1, 3, 0], [0, 0, 0, 2, 2, 2, 4]]), 5, 4),
    "one hub each way, repeats": (torch.tensor(HUBS), 7, 7),
    "no edges": (torch.zeros(2, 0, dtype=torch.long), 3, 2),
    "one edge": (torch.tensor([[1], [2]]), 3, 2),
}
SIZES = [(2, 4), (3, 5), (1, 1), (5, 3)]
DROPOUTS = [0.0, 0.4]


def covering(*axes):
    """Combinations such that any two values of two axes meet: greedily, the next is the one with most new pairs."""
    everything = [tuple(case) for case in product(*axes) if exists(*case)]
    bits: dict = {}  # each pair of values is a bit: sets of them are counted a hundred times faster
    masks = [
        sum(bits.setdefault(pair, 1 << len(bits)) for pair in combinations(enumerate(case), 2)) for case in everything
    ]
    left, found = (1 << len(bits)) - 1, []
    while left:
        best = max(range(len(masks)), key=lambda place: (masks[place] & left).bit_count())
        found.append(everything[best])
        left &= ~masks[best]
    return found


def exists(score, align, features, graph, size, dropout):
    """A sized additive score maps keys first, so factors of keys are not its own; repeated edges tie for top-k."""
    return not (score == "tanh" and features == "times") and not (align == "topk" and "repeats" in graph)


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """Rows of more than four edges are cut, so that merging is exercised."""
    monkeypatch.setattr(csr_schedule, "PIECE", 4)
    monkeypatch.setattr(launch, "PROGRAMS", 3)


def attend(backend, q, k, v, score, align="softmax", over=None, **options):
    """By a backend's name, or by the kernels although q is on a CPU."""
    if backend != "kernels":
        return attend_by(q, k, v, score, align, over, backend=backend, **options)
    plan = make_plan(q, k, v, score, align, over, **options)
    ran = triton_edges.TritonEdges().run(plan)
    return type("Ran", (), {"out": plan.output(ran.out), "map": LazyMap.of_plan(plan, ran.state, ran.index)})


def outcome(backend, case, dtype=torch.float32, batch=1, loops=False):
    """The output and every gradient."""
    name, align, features, graph, (heads, d), dropout = case
    index, n, m = GRAPHS[graph]
    torch.manual_seed(1)
    score = SCORES[name](d, heads) if (name, features) != ("gat", "times") else GAT()
    width = 1 if (name, features) == ("gat", "times") else d  # factors of GAT's numbers
    score = score.to(dtype)
    rows = index.shape[1] + (min(n, m) if loops else 0)

    def draw(count, width):
        return torch.randn(batch, heads, count, width, dtype=torch.float64).to(dtype).requires_grad_()

    q, k, v = draw(n, d), draw(m, width), draw(m, d)
    key = draw(rows, width) if features in ("key", "times", "both", "twins") else None
    value = key if features == "twins" else draw(rows, d) if features in ("value", "both") else None
    over = Edges(index, (n, m), loops, key, value, "mul" if features == "times" else "add")
    ran = attend(backend, q, k, v, score, ALIGNS[align], over, dropout=dropout, seed=7)
    weight = torch.randn(batch, heads, n, d, dtype=torch.float64)
    own = [x for x in (key, None if value is key else value) if x is not None]
    leaves = [q, k, v, *own, *score.parameters()]
    grads = torch.autograd.grad((ran.out.double() * weight).sum(), leaves, allow_unused=True)
    return [ran.out, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))]


def assert_alike(mine, true, rtol=1e-4, atol=1e-5):
    for one, other in zip(mine, true, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", covering(SCORES, ALIGNS, FEATURES, GRAPHS, SIZES, DROPOUTS), ids=str)
def test_kernels_give_the_references_output_and_gradients(case):
    assert_alike(outcome("kernels", case), outcome("reference", case, torch.float64))


HUB = "one hub each way, repeats"


@pytest.mark.parametrize("score, align", [("gat", "entmax"), ("gatv2", "softmax"), ("dot", "softmax")])
def test_the_same_bits_twice(score, align):
    one, two = (outcome("kernels", (score, align, "both", HUB, (2, 4), 0.4)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.covered
@pytest.mark.parametrize("align", ["softmax", "sparsemax"])
@pytest.mark.parametrize("features", ["key", "value"])
def test_half_precision_errs_by_its_own_ulp(features, align):
    case = ("gatv2", align, features, HUB, (3, 5), 0.0)
    assert_alike(outcome("kernels", case, torch.bfloat16), outcome("reference", case, torch.float64), 0.06, 0.06)


@pytest.mark.parametrize("align", ["softmax", "sigmoid"])
def test_a_batch_shares_the_graph_and_added_loops_have_rows_of_their_own(align):
    for options in ({"batch": 2}, {"loops": True}):
        case = ("gatv2", align, "both", "directed, isolated", (2, 3), 0.3)
        if "loops" in options:
            case = ("gatv2", align, "both", HUB, (2, 3), 0.0)
        assert_alike(outcome("kernels", case, **options), outcome("reference", case, torch.float64, **options))


@pytest.mark.parametrize("key", [False, True], ids=["plain", "key"])
def test_keys_that_are_the_values_get_both_gradients(key):
    index, n, m = GRAPHS[HUB]
    leaves = [torch.randn(1, 2, size, 4, requires_grad=True) for size in (n, m, index.shape[1])]
    q, x, e = leaves if key else (*leaves[:2], None)
    found = []
    for backend in ("kernels", "reference"):
        out = attend(backend, q, x, x, "gatv2", over=Edges(index, (n, m), key=e)).out
        found.append(torch.autograd.grad(out.square().sum(), [y for y in (q, x, e) if y is not None]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("align", ["softmax", "sigmoid"])
def test_a_gradient_that_is_one_number_everywhere_is_read_as_it_is(align):
    index, n, m = GRAPHS[HUB]
    q, k, v = (torch.randn(1, 2, size, 4, requires_grad=True) for size in (n, m, m))
    found = []
    for backend in ("kernels", "reference"):
        out = attend(backend, q, k, v, "dot", ALIGNS[align], Edges(index, (n, m))).out
        found.append(torch.autograd.grad(out.sum(), (q, k, v)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("score", ["cosine", "general", "content", "relu"])
def test_scores_that_lower_to_a_dot_or_a_pair_run_too(score):
    index, n, m = GRAPHS[HUB]
    q, k, v = (torch.randn(1, 2, size, 4) for size in (n, m, m))
    score = Additive(activation="relu") if score == "relu" else score
    mine, theirs = (attend(b, q, k, v, score, over=Edges(index, (n, m))).out for b in ("kernels", "reference"))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_top_k_takes_the_first_of_equal_scores_and_its_map_shows_the_same_edges():
    index, n, m = GRAPHS[HUB]
    q, k, v = torch.zeros(1, 2, n, 4), torch.randn(1, 2, m, 4), torch.randn(1, 2, m, 4)
    ran = attend("kernels", q, k, v, "dot", TopK(3), Edges(index, (n, m)))
    weights = ran.map.edges()[0]
    into_hub = torch.arange(index.shape[1])[index[1] == 3]
    assert weights.shape == (2, index.shape[1])
    torch.testing.assert_close(weights[:, into_hub[:3]], torch.full((2, 3), 1 / 3))
    assert not weights[:, into_hub[3:]].any()
    expected = torch.stack([v[0, :, index[0, e]] for e in into_hub[:3]]).mean(0)
    torch.testing.assert_close(ran.out[0, :, 3], expected)


@pytest.mark.parametrize("align", ALIGNS)
def test_a_nan_stays_with_the_targets_of_its_source(align):
    index, n, m = GRAPHS["directed, isolated"]
    q, k, v = (torch.randn(1, 2, size, 4) for size in (n, m, m))
    k[0, :, 1], v[0, :, 1] = float("nan"), float("nan")
    out = attend("kernels", q, k, v, "scaled_dot", ALIGNS[align], Edges(index, (n, m))).out
    assert out.isnan().any(-1)[0].tolist() == [[True, False, True, False, False]] * 2


@pytest.mark.parametrize("small", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("align", ["softmax", "topk"])
def test_ids_may_be_of_either_width(align, small):
    index, n, m = GRAPHS["directed, isolated"]
    q, k, v = (torch.randn(1, 2, size, 4) for size in (n, m, m))
    plan = make_plan(q, k, v, "dot", ALIGNS[align], Edges(index, (n, m)), dropout=0.4, seed=1)
    graph = plan.over
    plan.over = replace(graph, start=graph.start.to(small), source=graph.source.to(small), edge=graph.edge.to(small))
    theirs = attend_by(q, k, v, "dot", ALIGNS[align], Edges(index, (n, m)), dropout=0.4, seed=1, backend="reference")
    torch.testing.assert_close(triton_edges.TritonEdges().run(plan).out, theirs.out, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("align, top", [("softmax", 0), ("top_k", 2)])
def test_the_operators_keep_torchs_rules(align, top):
    index, n, m = GRAPHS["directed, isolated"]
    graph = Edges(index, (n, m)).fit((1,), 2, n, m)
    a, b, v, e = (torch.randn(size, 2, 4, requires_grad=True) for size in (n, m, m, index.shape[1]))
    numbers = (2, 0, 1, 1.0, 0.0, 0.0, 0, align, 0.0, top)
    arguments = (a, b, v, None, e, e, [graph.start, graph.source, graph.edge], None, *numbers)
    torch.library.opcheck(triton_edges.edges_op.call, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("edges", [0, 1, 3, 4, 5, 9, 40])
def test_the_work_list_covers_every_edge_once_and_cuts_rows_in_order(edges):
    torch.manual_seed(edges)
    degree = torch.bincount(torch.randint(0, 6, (edges,)).square() // 6, minlength=6)
    start = torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)])
    work = csr_schedule.WorkList.of(start, edges)
    seen = []
    for row, first, last, slot, pieces in work.items.tolist():
        if row >= 0:
            assert start[row] <= first <= last <= start[row + 1] and last - first <= 4
            assert (slot >= 0) == (degree[row] > 4) == (pieces > 1)
            seen += [(row, e) for e in range(first, last)]
    assert sorted(seen) == [(row, e) for row in range(6) for e in range(start[row], start[row + 1])]
    hubs = {row: rest for row, *rest in work.hubs.tolist() if row >= 0}
    assert set(hubs) == {row for row in range(6) if degree[row] > 4}
    for row, begin, _, slot, pieces in work.items.tolist():
        if slot >= 0:
            first, last, first_slot, _ = hubs[row]
            assert (first, last) == (start[row], start[row + 1])
            assert slot == first_slot + (begin - first) // 4 and first_slot + pieces <= work.slots
