"""The edge kernels on a CUDA device give the reference's numbers, the same bits twice, and the same dropout."""

import pytest
import torch
from tests.backends.triton.edges.test_backend import ALIGNS, FEATURES, SCORES, covering

from regard import GAT, Edges, TopK, attend

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]


def graph(kind):
    """(edge_index, targets, sources)"""
    torch.manual_seed(0)
    if kind == "unlike":  # no edge twice
        return torch.randperm(2000)[:300].view(1, -1) // torch.tensor([[50], [1]]) % torch.tensor([[40], [50]]), 50, 40
    if kind == "empty":
        return torch.zeros(2, 0, dtype=torch.long), 5, 4
    if kind == "one edge":
        return torch.tensor([[3], [2]]), 5, 4
    if kind == "hubs":  # one target and one source with thousands of edges each
        index = torch.stack([torch.randint(0, 300, (20000,)), torch.randint(0, 200, (20000,))])
        index[1, :8000], index[0, 6000:14000] = 3, 2
        return index, 200, 300
    return (
        torch.stack([torch.randint(0, 40, (300,)), torch.randint(0, 50, (300,))]),
        50,
        40,
    )  # bipartite, repeats, isolated


def run(backend, dtype, score, kind, heads, d, batch=1, loops=False, align="softmax", features="none", **options):
    """How large numbers are, and the output, the weights and every gradient."""
    index, n, m = graph(kind)
    if loops:
        n = m = max(n, m)
    torch.manual_seed(1)
    factors = (score, features) == ("gat", "times")  # of GAT's numbers
    score = (GAT() if factors else SCORES[score](d, heads)).to(DEVICE, dtype)
    width, rows = 1 if factors else d, index.shape[1] + (n if loops else 0)

    def draw(count, width):
        return torch.randn(batch, heads, count, width, dtype=torch.float64).to(DEVICE, dtype).requires_grad_()

    q, k, v = draw(n, d), draw(m, width), draw(m, d)
    key = draw(rows, width) if features in ("key", "times", "both", "twins") else None
    value = key if features == "twins" else draw(rows, d) if features in ("value", "both") else None
    over = Edges(index.to(DEVICE), (n, m), loops, key, value, "mul" if features == "times" else "add")
    weight = torch.randn(batch, heads, n, d, dtype=torch.float64).to(DEVICE)
    made = attend(q, k, v, score, ALIGNS[align], over, backend=backend, **options)
    own = [x for x in (key, None if value is key else value) if x is not None]
    leaves = [q, k, v, *own, *score.parameters()]
    grads = torch.autograd.grad((made.out.double() * weight).sum(), leaves, allow_unused=True)
    # ds = p (dp - delta) cancels, and delta = dout . out is read off the stored output: it is known to an ulp of
    # what is subtracted, at most |dout_i| |v_j|
    largest = (
        weight.norm(dim=-1).max()
        * v.double().norm(dim=-1).max()
        * max([1.0, *(p.abs().max() for p in (q, k, *own, *score.parameters()) if p.numel())])
    )
    return largest, [
        made.out,
        made.map.edges(),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True)),
    ]


@pytest.mark.parametrize("heads, d", [(1, 1), (3, 7), (8, 32), (4, 32)])
@pytest.mark.parametrize("kind", ["bipartite", "hubs", "empty", "one edge"])
@pytest.mark.parametrize("score", ["gat", "gatv2", "dot"])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.4, "seed": 5}], ids=["whole", "dropout"])
def test_out_map_and_gradients_err_no_more_than_twice_the_references(score, kind, heads, d, options):
    assert_no_worse((torch.float32, torch.bfloat16), score, kind, heads, d, **options)


def assert_no_worse(dtypes, *case, **options):
    """Errors at most twice the reference's, plus 2 ulp; of the readout's gradient, plus 2 ulp a step of its sum.

    A program adds up to 512 pairs of edges one after the other into that gradient, where the reference adds in pairs:
    rounding grows with the root of the steps.
    """
    largest, truth = run("reference", torch.float64, *case, **options)
    for dtype in dtypes:
        low = run("reference", dtype, *case, **options)[1]
        ours = run("triton-edges", dtype, *case, **options)[1]
        for true, theirs, mine in zip(truth, low, ours, strict=True):
            if true.numel():
                steps = 512**0.5 if true.ndim == 2 else 1.0  # (heads, width): the readout
                error, bar = (mine.double() - true).norm(), 2 * (theirs.double() - true).norm()
                ulp = torch.finfo(dtype).eps * (true.norm() + largest * true.numel() ** 0.5)
                assert error <= bar + 2 * steps * ulp


KINDS = ["bipartite, repeats", "hubs, repeats", "empty", "one edge"]
SIZES = [(4, 16), (3, 7), (8, 8)]


@pytest.mark.parametrize("case", covering(SCORES, ALIGNS, FEATURES, KINDS, SIZES, [0.0, 0.4]), ids=str)
def test_every_alignment_with_every_feature(case):
    score, align, features, kind, (heads, d), dropout = case
    options = {"align": align, "features": features, "dropout": dropout, "seed": 5}
    assert_no_worse((torch.float32, torch.bfloat16), score, kind.removesuffix(", repeats"), heads, d, **options)


@pytest.mark.parametrize("kind", ["unlike", "hubs"])
@pytest.mark.parametrize("score", ["gat", "dot", "tanh"])
def test_top_k_in_full_precision(score, kind):
    """Half precision rounds scores before they are ranked, so that its choice is another; repeated edges tie."""
    assert_no_worse((torch.float32,), score, kind, 4, 16, align="topk", features="key", dropout=0.2, seed=5)


def test_top_k_takes_the_first_of_equal_scores():
    index, n, m = graph("hubs")
    over = Edges(index.to(DEVICE), (n, m))
    q, k = torch.zeros(1, 2, n, 8, device=DEVICE), torch.randn(1, 2, m, 8, device=DEVICE)
    made = attend(q, k, k, "dot", TopK(5), over, backend="triton-edges")
    into_hub = (index[1] == 3).nonzero()[:, 0].to(DEVICE)
    weights = made.map.edges()[0][:, into_hub]
    torch.testing.assert_close(weights[:, :5], torch.full((2, 5), 0.2, device=DEVICE))
    assert not weights[:, 5:].any()


@pytest.mark.parametrize("align", ["softmax", "entmax", "topk"])
@pytest.mark.parametrize("score", ["gat", "gatv2", "dot"])
def test_the_same_bits_twice(score, align):
    options = {"dropout": 0.3, "seed": 1, "align": align, "features": "both"}
    one, two = (run("triton-edges", torch.float32, score, "hubs", 4, 16, **options)[1] for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("align", ["softmax", "sparsemax"])
def test_a_gradient_that_is_one_number_everywhere_is_read_without_a_copy(align):
    index, n, m = graph("bipartite")
    q, k, v = (torch.randn(1, 4, size, 16, device=DEVICE, requires_grad=True) for size in (n, m, m))
    found = []
    for backend in ("triton-edges", "reference"):
        out = attend(q, k, v, "dot", align, Edges(index.to(DEVICE), (n, m)), backend=backend).out
        found.append(torch.autograd.grad(out.sum(), (q, k, v)))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-4)


def test_a_batch_shares_the_graph_and_self_loops_are_added_once():
    for options in ({"batch": 3}, {"loops": True}, {"batch": 2, "dropout": 0.5, "seed": 2}):
        truth = run("reference", torch.float64, "gat", "bipartite", 4, 8, **options)[1]
        ours = run("triton-edges", torch.float32, "gat", "bipartite", 4, 8, **options)[1]
        for true, mine in zip(truth, ours, strict=True):
            torch.testing.assert_close(mine.double(), true, rtol=2e-4, atol=2e-5)


def test_gatv2_whose_keys_are_its_values_gathers_them_once_and_sums_both_gradients():
    index, n, m = graph("hubs")
    torch.manual_seed(1)
    q, x = (torch.randn(1, 4, size, 16, device=DEVICE, requires_grad=True) for size in (n, m))
    found = []
    for backend in ("triton-edges", "reference"):
        out = attend(q, x, x, "gatv2", over=Edges(index.to(DEVICE), (n, m)), backend=backend).out
        found.append([out, *torch.autograd.grad(out.square().sum(), (q, x))])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-4)


def test_auto_takes_the_kernel_and_compile_traces_it():
    index, n, m = graph("bipartite")
    over = Edges(index.to(DEVICE), (n, m))
    q, k = (torch.randn(1, 4, size, 8, device=DEVICE) for size in (n, m))
    made = attend(q, k, k, "gat", over=over)
    assert made.map._source.backend == "triton-edges"
    compiled = torch.compile(lambda q, k: attend(q, k, k, "gat", over=over).out, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k), made.out)
