"""Edges on a CPU: the numba kernels give what the reference gives, and say why they refuse."""

import subprocess
import sys
import warnings
from itertools import product

import pytest
import torch
from tests.oracle import Case, disagreements
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from regard import Causal, Edges, Refused, attend
from regard.core.structures.edges import Neighbours

pytest.importorskip("numba")

from regard.backends.numba_edges import backend as edges_cpu
from regard.backends.numba_edges import launch as edges_launch

SCORES = (
    "gat",
    "gat, no sizes",
    "gatv2",
    "additive",
    "additive, W = I",
    "additive relu",
    "dot",
    "scaled dot",
    "general",
    "biased general",
    "cosine",
    "content",
)
KEYED = {  # scores that mix keys by a linear map or not at all: what an edge adds goes through it too
    "edges with keys": ("gat", "gatv2", "additive", "additive, W = I", "additive relu", "dot", "scaled dot"),
    "edges with factors and loops": ("gatv2", "additive, W = I", "dot", "scaled dot"),
}
ALIGNMENTS = ("softmax", "top-3", "sparsemax", "entmax 1.5", "sigmoid", "sigmoid, fixed bias", "uniform")
SIZES = ("n=m", "n<m", "n>m", "m=0", "n=0", "odd")


@pytest.fixture
def alone(monkeypatch):
    """The oracle compares this backend and no other."""
    monkeypatch.setattr(Case, "ways", lambda case, dtype: ["edges-cpu"])


@pytest.fixture
def in_pieces(monkeypatch):
    """Rows cut after three edges and many chunks, so that a few nodes already have hubs, parts and threads."""
    monkeypatch.setattr(edges_launch, "LIMIT", 3)
    monkeypatch.setattr(edges_launch, "SERIAL", 0)


def cases() -> list[Case]:
    found = [
        Case(score, "softmax", over, size)
        for score, over, size in product(SCORES, ("edges", "edges with loops"), SIZES)
    ]
    found += [
        Case(score, align, "edges", "odd", heads, dropout)
        for score, align, (heads, dropout) in product(
            ("gat", "gatv2", "scaled dot"), ALIGNMENTS, (("4 on 2", 0.0), ("3 on 1", 0.3))
        )
    ]
    return found + [Case(score, align, "no edges") for score, align in product(("gat", "additive"), ALIGNMENTS)]


@pytest.mark.parametrize("score", SCORES)
def test_it_agrees_with_the_reference(score, alone):
    for case in cases():
        if case.score == score:
            assert disagreements(case) == [], case


@pytest.mark.parametrize(("over", "score"), [(over, score) for over, scores in KEYED.items() for score in scores])
def test_edges_may_have_keys_and_values(over, score, alone):
    """Added or multiplied, for one head or for each, on duplicates, loops and empty rows."""
    for align, (size, heads, dropout) in product(
        ("softmax", "top-3", "entmax 1.5", "uniform"), (("odd, n=m", "3 on 1", 0.3), ("n<m", "2", 0.0))
    ):
        assert disagreements(Case(score, align, over, size, heads, dropout)) == [], (align, size)


@pytest.mark.parametrize("over", KEYED)
def test_rows_with_keys_and_values_may_be_cut(over, alone, in_pieces):
    for score, align in product(KEYED[over], ("softmax", "top-3", "sparsemax")):
        assert disagreements(Case(score, align, over, "odd, n=m", "3 on 1", 0.3)) == [], (score, align)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("align", ALIGNMENTS)
def test_it_agrees_when_rows_are_cut(score, align, alone, in_pieces):
    for dropout in (0.0, 0.3):
        assert disagreements(Case(score, align, "edges", "odd", "3 on 1", dropout)) == []


def test_what_is_not_read_may_be_anything(alone, in_pieces):
    """Fresh memory full of NaN gives the same bits, and nodes without edges may hold NaN."""
    case = Case("gatv2", "entmax 1.5", "edges", "odd", dropout=0.3)
    plain = case.outcome(torch.float32, "edges-cpu", torch.ones(1, 1, 1, 1))
    torch.use_deterministic_algorithms(True)
    try:
        poisoned = case.outcome(torch.float32, "edges-cpu", torch.ones(1, 1, 1, 1))
    finally:
        torch.use_deterministic_algorithms(False)
    for (_, one), (_, other) in zip(plain.kinds(), poisoned.kinds(), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    x = torch.randn(1, 2, 4, 3)
    x[:, :, 3] = float("nan")
    out = attend(x, x, x, "gat", over=Edges(torch.tensor([[0, 1, 2], [1, 1, 0]])), backend="edges-cpu").out
    assert out.isfinite().all() and (out[:, :, 2:] == 0).all()


def problem(n: int = 60, m: int = 50, edges: int = 700, heads: int = 3, d: int = 5, dtype: torch.dtype = torch.float32):
    """One hub on either side, duplicates, isolated rows; memory node-major."""
    index = torch.stack([torch.randint(0, m, (edges,)), torch.randint(0, n // 2, (edges,))])
    index[1, :200], index[0, 150:350] = 2, 7
    tensors = (torch.randn(size, heads, d, dtype=dtype).requires_grad_() for size in (n, m, m))
    return *tensors, Edges(index)


def heads_first(x: Tensor) -> Tensor:
    return x.transpose(0, 1)[None]


def gradients(q: Tensor, k: Tensor, v: Tensor, over: Edges, score: str, **options: object) -> list[Tensor]:
    out = attend(heads_first(q), heads_first(k), heads_first(v), score, over=over, **options).out
    pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), pull)]


@pytest.mark.parametrize("score", ["gat", "gatv2", "scaled_dot", "additive"])
@pytest.mark.parametrize(("heads", "d"), [(1, 1), (3, 5), (5, 1), (1, 7), (8, 32)])
def test_any_number_of_heads_and_any_width(score, heads, d):
    parts = problem(heads=heads, d=d, dtype=torch.float64)
    for mine, true in zip(*(gradients(*parts, score, backend=b) for b in ("edges-cpu", "reference")), strict=True):
        assert_close(mine, true, rtol=0, atol=1e-11)


@pytest.mark.parametrize("join", ["add", "mul"])
@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("score", ["gatv2", "dot"])
def test_hubs_whose_edges_have_keys_and_values(score, d, join):
    """Gradients of both too; for a width of 1 too, which has a way of its own."""
    *x, over = problem(d=d, dtype=torch.float64)
    key, value = (torch.randn(h, 700, d, dtype=torch.float64).requires_grad_() for h in (3, 1))
    over = Edges(over.edge_index, key=key, value=value, join=join)
    runs = []
    for backend in ("edges-cpu", "reference"):
        out = attend(*(heads_first(t) for t in x), score, over=over, backend=backend, dropout=0.2, seed=4).out
        runs.append([out, *torch.autograd.grad(out.square().sum(), (*x, key, value))])
    for mine, true in zip(*runs, strict=True):
        assert_close(mine, true, rtol=0, atol=1e-10)


@pytest.mark.parametrize("score", ["gat", "gatv2", "scaled_dot"])
def test_the_same_bits_for_any_number_of_threads(score, in_pieces):
    parts, runs = problem(), []
    for threads in (1, 2, 3, 2):
        torch.set_num_threads(threads)
        try:
            runs.append(gradients(*parts, score, backend="edges-cpu", dropout=0.4, seed=1))
        finally:
            torch.set_num_threads(1)
    for run in runs[1:]:
        assert all(torch.equal(x, y) for x, y in zip(run, runs[0], strict=True))


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3, -5])
def test_dropout_has_the_mask_of_the_reference(seed):
    """One-hot values read the weights: the same ones are dropped, edge by edge, for six heads and two items."""
    index = torch.stack([torch.arange(40), torch.zeros(40, dtype=torch.long)])
    q, k = torch.randn(2, 6, 1, 4), torch.randn(2, 6, 40, 4)
    one_hot = torch.eye(40).expand(2, 6, 40, 40)
    masks = [
        attend(q, k, one_hot, "gat", over=Edges(index), dropout=0.5, seed=seed, backend=backend).out != 0
        for backend in ("edges-cpu", "reference")
    ]
    assert torch.equal(*masks)
    assert 0.4 < masks[0].double().mean() < 0.6


def test_an_edge_keeps_its_mask_whatever_the_order_of_edges():
    q, k, v, over = problem(dtype=torch.float64)
    out, amap = attend(*(heads_first(x) for x in (q, k, v)), "gat", over=over, dropout=0.5, seed=3, backend="edges-cpu")
    assert_close(out, amap.weights(dropout=True).detach() @ heads_first(v))


@pytest.mark.parametrize("limit", [edges_launch.LIMIT, 8], ids=["whole rows", "hubs in parts"])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("align", ["softmax", "top-3", "sparsemax", "entmax 1.5"])
def test_gradients_of_large_scores_are_exact_where_tau_is_rounded(align, heads, limit, monkeypatch):
    """At a million tau is rounded to a sixteenth: weights follow from the largest score and the rest of tau apart."""
    monkeypatch.setattr(edges_launch, "LIMIT", limit)
    over = Edges(torch.cartesian_prod(torch.arange(40), torch.arange(12)).T, (12, 40))
    named = {"top-3": regard.TopK(3), "entmax 1.5": regard.Entmax(1.5)}.get(align, align)
    q, k = torch.zeros(1, heads, 12, 2), torch.randn(1, heads, 40, 2)
    q[..., 0] = 1.0
    k[..., 0] = 1e6 + torch.stack([torch.randperm(40) for _ in range(heads)]) / 8  # scores are whole eighths: exact
    v = torch.randn(1, heads, 40, 3)
    pull = torch.randn(1, heads, 12, 3, dtype=torch.float64)
    found = {}
    for backend, kind in (("truth", torch.float64), ("reference", torch.float32), ("edges-cpu", torch.float32)):
        key, value = (x.to(kind).requires_grad_() for x in (k, v))
        way = "reference" if backend == "truth" else backend
        out = attend(q.to(kind), key, value, "dot", named, over, backend=way).out
        found[backend] = torch.autograd.grad(out, (key, value), pull.to(kind))
    for true, plain, mine in zip(*found.values(), strict=True):
        slack = 4 * torch.finfo(torch.float32).eps * true.abs().max()
        assert (mine - true).abs().max() <= 2 * (plain - true).abs().max() + slack


def test_results_are_node_major_and_nothing_is_copied():
    """(1, H, n, d) whose memory is (n, H, d) goes in as it is and comes out as it is."""
    q, k, v, over = problem()
    out = attend(heads_first(q), heads_first(k), heads_first(v), "gatv2", over=over).out
    assert out[0].transpose(0, 1).is_contiguous()
    inputs = [x.detach().transpose(0, 1) for x in (q, k, k)]
    settings = (3, 0, "dot softmax add", [0.0, 1.0, 0.0, 0.0])
    arguments = edges_launch.EdgeCpuArguments(*inputs, None, None, None, [], None, *settings)
    (table,) = edges_launch.NumbaCall(arguments).tables
    assert [x.ctypes.data for x in (table.a, table.b, table.v)] == [x.data_ptr() for x in (q, k, k)]
    contiguous = attend(*(heads_first(x).contiguous() for x in (q, k, v)), "gatv2", over=over).out
    assert torch.equal(out, contiguous)


def test_the_edges_by_source_are_sorted_once():
    *_, over = problem()
    graph = over.fit((1,), 3, 60, 50)
    start, target, slot = graph.by_source(50)
    assert graph.by_source(50).slot is slot
    assert torch.equal(slot, torch.sort(graph.source, stable=True).indices)
    assert torch.equal(graph.source[slot], torch.repeat_interleave(torch.arange(50), start.diff()))
    assert torch.equal(target, graph.targets()[slot])
    assert isinstance(graph, Neighbours)


def test_tau_carries_its_gradient_into_a_merge():
    """Two halves of the edges of a graph, merged, are the whole: values and gradients."""
    q, k, v, over = problem(dtype=torch.float64)
    first = over.edge_index[:, over.edge_index[0] < 25]
    second = over.edge_index[:, over.edge_index[0] >= 25] - torch.tensor([[25], [0]])

    def halves(backend: str) -> Tensor:
        parts = [(heads_first(k)[:, :, s], heads_first(v)[:, :, s]) for s in (slice(0, 25), slice(25, 50))]
        results = [
            attend(heads_first(q), *part, "gatv2", over=Edges(e), backend=backend)
            for part, e in zip(parts, (first, second), strict=True)
        ]
        return results[0].merge(results[1]).out

    whole = attend(heads_first(q), heads_first(k), heads_first(v), "gatv2", over=over, backend="reference").out
    assert_close(halves("edges-cpu"), whole)
    mine, true = (torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (halves("edges-cpu"), whole))
    assert_close(mine, true)


class Layer(nn.Module):
    def __init__(self, score: str, heads: int, d: int):
        super().__init__()
        self.score = regard.GATv2(d, heads) if score == "gatv2" else regard.GAT(d, heads)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = heads_first(x)
        return (
            attend(h, h, h, self.score, over=Edges(edge_index), backend="edges-cpu").out[0].transpose(0, 1).flatten(1)
        )


@pytest.mark.parametrize("score", ["gat", "gatv2"])
def test_it_compiles_and_exports(score):
    torch._dynamo.reset()
    layer, x, index = Layer(score, 3, 4), torch.randn(9, 3, 4), torch.randint(0, 9, (2, 30))
    program = torch.export.export(layer, (x, index))
    assert_close(program.module()(x, index), layer(x, index))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for count in (30, 41):
        index = torch.randint(0, 9, (2, count))
        grads = []
        for run in (layer, compiled):
            x = x.detach().requires_grad_()
            layer.zero_grad()
            run(x, index).square().sum().backward()
            grads.append([x.grad, *(p.grad for p in layer.parameters())])
        assert_close(*grads)


@pytest.mark.parametrize(
    ("score", "dtype"), [("gat", torch.float64), ("gatv2", torch.float32), ("dot", torch.bfloat16)]
)
def test_the_operators_keep_what_they_promise(score, dtype):
    """opcheck: schema, fake kernels, autograd and AOT dispatch, for one item and for two."""
    dtype = {"gat": torch.float64, "gatv2": torch.float32, "dot": torch.bfloat16}[score]
    for batch in (1, 2):
        q, k, v = (torch.randn(batch * 3, n, 4).to(dtype).requires_grad_() for n in (6, 7, 7))
        width = {"gat": 1}.get(score, 4)
        a, b = q[..., :width].detach().requires_grad_(), k[..., :width].detach().requires_grad_()
        readout = torch.randn(batch * 3, 4, dtype=dtype).requires_grad_() if score == "gatv2" else None
        index = torch.stack([torch.randint(0, 7, (20,)), torch.randint(0, 6, (20,))])
        graph = Edges(index).fit((1,), 3, 6, 7)
        edges = [graph.start, graph.source, graph.edge, *graph.by_source(7)]
        act = "dot" if score == "dot" else "leaky_relu"
        key, value = (torch.randn(batch * 3, 20, d).to(dtype).requires_grad_() for d in (width, 4))
        rest = (key, value, edges, torch.tensor(5), 3, 0, f"{act} softmax add", [0.2, 1.0, 0.0, 0.2])
        torch.library.opcheck(edges_cpu.forward_op.call, (a, b, v, readout, *rest), rtol=1e-2, atol=1e-2)
        with torch.no_grad():
            made = edges_cpu.forward_op(a, b, v, readout, *rest)
            given = (a, b, v, readout, *rest, *made, torch.randn_like(made[0]), None)
            torch.library.opcheck(edges_cpu.backward_op.call, given, test_utils=("test_schema", "test_faketensor"))


def test_auto_takes_it_and_the_plan_says_why_not():
    q, k, v, over = problem()
    x = [heads_first(t) for t in (q, k, v)]
    assert regard.plan(*x, "gat", over=over).backend == "edges-cpu"

    def why(score: object = "scaled_dot", align: object = "softmax", over: object = over) -> str:
        return " ".join(regard.plan(*x, score, align, over, backend="reference").refusals["edges-cpu"])  # type: ignore[arg-type]

    assert why() == ""
    assert "over=Edges" in why(over=None)
    assert "alone" in why(over=over & Causal(align="start"))
    assert "sigmoid and uniform; this is Hard" in why(align="hard")
    assert "Entmax" in why(align=regard.Entmax(1.25))
    assert "biases of keys" in why(score="gaussian")
    assert "modifiers" in why(score=regard.ScaledDot() | regard.SoftCap(2.0))
    assert "sink" in why(score=regard.ScaledDot() | regard.Sink(3))
    assert "negative_abs" in why(score="laplace")
    assert "each w a feature" in why(score=regard.Dot(features=True))
    assert why(over=Edges(over.edge_index, value=torch.randn(3, 700, 5))) == ""
    assert why(align=regard.TopK(4)) == ""
    with pytest.raises(Refused, match="this is Hard"):
        attend(*x, align="hard", over=over, backend="edges-cpu")


def test_without_numba_chunked_takes_it(monkeypatch):
    monkeypatch.setattr(edges_cpu, "HAS_NUMBA", False)
    q, k, v, over = problem(n=400, m=400)
    plan = regard.plan(heads_first(q), heads_first(k), heads_first(v), "gat", over=over)
    assert plan.backend == "chunked"
    assert plan.refusals["edges-cpu"] == ["numba is not installed: pip install 'regard[cpu]'."]


@pytest.mark.parametrize("edges, told", [(400, 0), (10_000, 1)])
def test_many_edges_without_numba_are_told_with_what_to_install(monkeypatch, edges, told):
    monkeypatch.setattr(edges_cpu, "HAS_NUMBA", False)
    x, ends = torch.randn(2, 50, 4), torch.randint(0, 50, (2, edges))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        attend(x, x, x, "gat", over=Edges(ends))
    assert ["pip install 'regard[cpu]'" in str(one.message) for one in said] == [True] * told


def test_second_derivatives_and_vmap_are_refused():
    q, k, v, over = problem()
    out = attend(heads_first(q), heads_first(k), heads_first(v), "gat", over=over, backend="edges-cpu").out
    (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(Refused, match="no second derivative"):
        first.sum().backward()
    with pytest.raises(Refused, match="vmap"):
        torch.func.vmap(lambda x: attend(x, x, x, "gat", over=over, backend="edges-cpu").out)(torch.randn(2, 3, 60, 5))


def test_importing_regard_does_not_import_numba():
    code = "import sys, regard; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax", "entmax15", regard.TopK(1)], ids=str)
def test_nan_nodes_propagate_to_their_neighbours_alone(align):
    """Sparse alignments ended with a division by zero."""
    index = torch.tensor([[0, 1, 2, 3, 3, 1, 4, 0], [0, 0, 1, 1, 2, 3, 4, 4]])
    for value in (float("nan"), float("inf")):
        q, k, v = (torch.randn(2, 5, 4) for _ in range(3))
        k[0, 3, 1] = value
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        out = attend(q, k, v, "scaled_dot", align, Edges(index, (5, 5)), backend="edges-cpu").out
        assert out[1].isfinite().all() and out[0, [0, 3, 4]].isfinite().all()
        if value != value:
            assert out[0, [1, 2]].isnan().all()
        torch.autograd.grad(out.sum(), (q, k, v))


@pytest.mark.parametrize("align", ["softmax", regard.TopK(99)], ids=str)
def test_values_far_from_zero_leave_16_bit_gradients_as_exact_as_the_reference(align):
    """A constant added to all values changes no gradient of scores; an output of 16 bits has lost what is beside it."""
    found = []
    for dtype, backend in ((torch.float64, "reference"), (torch.bfloat16, "reference"), (torch.bfloat16, "edges-cpu")):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, 20, 8).bfloat16().to(dtype) for _ in range(3))
        q, k, v = q.requires_grad_(), k.requires_grad_(), (v + 64).requires_grad_()
        over = Edges(torch.randint(20, (2, 200)), (20, 20))
        out = attend(q, k, v, "scaled_dot", align, over, backend=backend).out
        found.append(torch.autograd.grad(out, [q, k], torch.randn(1, 2, 20, 8).bfloat16().to(dtype)))
    for true, own, mine in zip(*found, strict=True):
        bound = 2 * (own.double() - true).abs().amax() + 2 * torch.finfo(torch.bfloat16).eps * true.abs().amax()
        assert (mine.double() - true).abs().amax() <= bound
