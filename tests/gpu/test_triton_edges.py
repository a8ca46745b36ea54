"""The edge kernels on a CUDA device give the reference's numbers, the same bits twice, and the same dropout."""

import pytest
import torch

from regard import GAT, Edges, GATv2, ScaledDot, attend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
]


def graph(kind):
    """(edge_index, targets, sources)"""
    torch.manual_seed(0)
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


SCORES = {"gat": lambda d, h: GAT(d, h), "gatv2": lambda d, h: GATv2(d, h), "dot": lambda d, h: ScaledDot()}


def run(backend, dtype, score, kind, heads, d, batch=1, loops=False, **options):
    index, n, m = graph(kind)
    if loops:
        n = m = max(n, m)
    torch.manual_seed(1)
    score = SCORES[score](d, heads).cuda().to(dtype)
    q, k, v = (
        torch.randn(batch, heads, x, d, dtype=torch.float64).to(dtype).cuda().requires_grad_() for x in (n, m, m)
    )
    weight = torch.randn(batch, heads, n, d, dtype=torch.float64).cuda()
    made = attend(q, k, v, score, over=Edges(index.cuda(), (n, m), self_loops=loops), backend=backend, **options)
    leaves = [q, k, v, *score.parameters()]
    grads = torch.autograd.grad((made.out.double() * weight).sum(), leaves, allow_unused=True)
    # ds = p (dp - delta) cancels, and delta = dout . out is read off the stored output: it is known to an ulp of
    # what is subtracted, at most |dout_i| |v_j|
    largest = (
        weight.norm(dim=-1).max()
        * v.double().norm(dim=-1).max()
        * max([1.0, *(p.abs().max() for p in (q, k, *score.parameters()))])
    )
    return largest, [
        made.out,
        made.map.edges(),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True)),
    ]


@pytest.mark.parametrize("heads, d", [(1, 1), (3, 7), (8, 32), (4, 32)])
@pytest.mark.parametrize("kind", ["bipartite", "hubs", "empty", "one edge"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("options", [{}, {"dropout": 0.4, "seed": 5}], ids=["whole", "dropout"])
def test_out_map_and_gradients_err_no_more_than_twice_the_references(score, kind, heads, d, options):
    largest, truth = run("reference", torch.float64, score, kind, heads, d, **options)
    for dtype in (torch.float32, torch.bfloat16):
        low = run("reference", dtype, score, kind, heads, d, **options)[1]
        ours = run("triton-edges", dtype, score, kind, heads, d, **options)[1]
        for true, theirs, mine in zip(truth, low, ours, strict=True):
            if true.numel():
                error, bar = (mine.double() - true).norm(), 2 * (theirs.double() - true).norm()
                ulp = torch.finfo(dtype).eps * (true.norm() + largest * true.numel() ** 0.5)
                assert error <= bar + 2 * ulp


@pytest.mark.parametrize("score", SCORES)
def test_the_same_bits_twice(score):
    one, two = (run("triton-edges", torch.float32, score, "hubs", 4, 16, dropout=0.3, seed=1)[1] for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


def test_a_batch_shares_the_graph_and_self_loops_are_added_once():
    for options in ({"batch": 3}, {"loops": True}, {"batch": 2, "dropout": 0.5, "seed": 2}):
        truth = run("reference", torch.float64, "gat", "bipartite", 4, 8, **options)[1]
        ours = run("triton-edges", torch.float32, "gat", "bipartite", 4, 8, **options)[1]
        for true, mine in zip(truth, ours, strict=True):
            torch.testing.assert_close(mine.double(), true, rtol=2e-4, atol=2e-5)


def test_gatv2_whose_keys_are_its_values_gathers_them_once_and_sums_both_gradients():
    index, n, m = graph("hubs")
    torch.manual_seed(1)
    q, x = (torch.randn(1, 4, size, 16, device="cuda", requires_grad=True) for size in (n, m))
    found = []
    for backend in ("triton-edges", "reference"):
        out = attend(q, x, x, "gatv2", over=Edges(index.cuda(), (n, m)), backend=backend).out
        found.append([out, *torch.autograd.grad(out.square().sum(), (q, x))])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-4)


def test_auto_takes_the_kernel_and_compile_traces_it():
    index, n, m = graph("bipartite")
    over = Edges(index.cuda(), (n, m))
    q, k = (torch.randn(1, 4, size, 8, device="cuda") for size in (n, m))
    made = attend(q, k, k, "gat", over=over)
    assert made.map._source.backend == "triton-edges"
    compiled = torch.compile(lambda q, k: attend(q, k, k, "gat", over=over).out, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k), made.out)
