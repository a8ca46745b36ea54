"""Each formula as its paper has it, written out pair by pair, and parts that a graph transformer stands on."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard import Edges
from regard.core.factored import factored_attend
from regard.nn import (
    EdgeSetAttention,
    ExphormerConv,
    GraphiTAttention,
    GRITConv,
    NodeFormerConv,
    PolynormerAttention,
    SGFormerAttention,
    diffusion_kernel,
    expander_edges,
    line_graph,
    same_graph_pairs,
    second_eigenvalue,
    walk_encoding,
    walk_kernel,
)

N = 6
INDEX = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 0, 2], [1, 0, 2, 1, 3, 2, 0, 3, 2, 0]])  # nodes 4 and 5 have no edge


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def heads(x: Tensor, count: int) -> Tensor:
    return x.view(len(x), count, -1).transpose(0, 1)


def test_sgformer_is_its_formula() -> None:
    layer, x = SGFormerAttention(5, 1, 3).double(), random(N, 5)
    q, k = F.normalize(layer.q(x)), F.normalize(layer.k(x))
    weights = torch.stack([torch.stack([q[i] @ k[j] + N * (i == j) for j in range(N)]) for i in range(N)])
    weights = weights / weights.sum(-1, keepdim=True)
    out, amap = layer(x, return_map=True)
    assert_close(amap.weights()[0], weights.detach())
    assert_close(out, weights @ layer.v(x))


def test_at_least_half_of_the_weight_of_sgformer_is_at_home() -> None:
    _, amap = SGFormerAttention(5, 1, 3).double()(random(N, 5), return_map=True)
    own = torch.diagonal(amap.weights()[0])
    assert (own > 0.5 - 1 / N).all()  # q_i . k_i >= -1, and the sum over all is at most N
    assert_close(amap.weights().sum(-1), torch.ones(1, N, dtype=torch.float64))


def test_polynormer_is_its_formula() -> None:
    layer, x = PolynormerAttention(5, 2, 3, beta=0.7).double(), random(N, 5)
    k = layer.k(x).sigmoid().view(N, 3, 2)  # heads stand last
    v = layer.v(x).view(N, 3, 2)
    found = torch.empty(N, 3, 2, dtype=torch.float64)
    for h in range(2):
        kernel = k[:, :, h] @ k[:, :, h].T
        weights = kernel / (kernel.sum(-1, keepdim=True) + 1e-6)
        found[:, :, h] = (weights @ v[:, :, h]).detach()
        assert_close(layer(x, return_map=True)[1].weights()[h], weights.detach())
    expected = layer.lin_out(layer.lns(found.reshape(N, 6)) * (layer.h_lins(x) + 0.7)).relu()
    assert_close(layer(x), expected)


def test_nodeformer_is_its_formula() -> None:
    layer, x = NodeFormerConv(5, 3, 2, features=7, temperature=0.5).double().eval(), random(N, 5)
    q, k, v = (heads(part(x), 2) for part in (layer.lin_query, layer.lin_key, layer.lin_value))

    def features(z: Tensor, dims: tuple[int, ...]) -> Tensor:
        z = z / math.sqrt(0.5) / 3**0.25
        logit = z @ layer.directions.T - z.square().sum(-1, keepdim=True) / 2
        return (logit - logit.amax(dims, keepdim=True)).exp() + 1e-6

    kernel = features(q, (-1,)) @ features(k, (-1, -2)).mT
    weights = kernel / kernel.sum(-1, keepdim=True)
    degree = torch.bincount(INDEX[1], minlength=N) + 1.0
    neighbours = torch.eye(N, dtype=torch.float64)
    neighbours[INDEX[1], INDEX[0]] = 1
    neighbours = neighbours / (degree[:, None] * degree).sqrt()
    out = weights @ v + layer.relational.sigmoid()[:, None, None] * (neighbours @ v)
    expected = layer.lin_out(out.transpose(0, 1).reshape(N, 6))
    made, amap = layer(x, INDEX, return_map=True)
    assert_close(made, expected)
    assert_close(amap.weights(), weights.detach())
    assert_close(amap.on(INDEX), weights.detach()[:, INDEX[1], INDEX[0]])
    loss = (weights[:, INDEX[1], INDEX[0]].log() / torch.bincount(INDEX[1], minlength=N)[INDEX[1]]).mean()
    assert_close(layer(x, INDEX, return_loss=True)[1], loss)


def test_nodeformer_nears_softmax_as_features_grow() -> None:
    x, errors = random(8, 4), []
    for count in (32, 8192):
        layer = NodeFormerConv(4, 4, features=count, temperature=1.0, relational=False, seed=1).double().eval()
        torch.manual_seed(0)
        layer.reset_parameters()
        q, k = layer.lin_query(x), layer.lin_key(x)
        exact = torch.softmax(q @ k.T / 2, -1)
        errors.append((layer(x, INDEX, return_map=True)[1].weights()[0] - exact).abs().max())
    assert errors[1] < 0.3 * errors[0]


def test_nodeformer_draws_noise_in_training_alone() -> None:
    layer, x = NodeFormerConv(5, 3).double(), random(N, 5)
    torch.manual_seed(3)
    first = layer(x, INDEX)
    torch.manual_seed(3)
    assert torch.equal(layer(x, INDEX), first) and not torch.equal(layer(x, INDEX), first)
    layer.eval()
    assert torch.equal(layer(x, INDEX), layer(x, INDEX))


def test_exphormer_is_its_formula() -> None:
    layer, x = ExphormerConv(5, 2, 2, degree=2, virtual_nodes=1, edge_dim=3).double(), random(N, 5)
    with torch.no_grad():
        layer.kinds.copy_(random(5, 4))
    attr, expander = random(INDEX.shape[1], 3), torch.tensor([[4, 5], [5, 4]])
    out, virtual, amap = layer(x, INDEX, attr, expander=expander, return_virtual=True, return_map=True)
    whole = torch.cat([x, layer.virtual])
    q, k, v = (heads(part(whole), 2) for part in (layer.lin_query, layer.lin_key, layer.lin_value))
    kinds = layer.kinds
    edges = [(int(j), int(i), kinds[0] + layer.lin_edge(attr[e])) for e, (j, i) in enumerate(INDEX.T)]
    edges += [(4, 5, kinds[1]), (5, 4, kinds[1])]
    edges += [(j, N, kinds[2]) for j in range(N)] + [(N, i, kinds[3]) for i in range(N)]
    edges += [(i, i, kinds[4]) for i in range(N + 1)]
    score = torch.full((2, N + 1, N + 1), -torch.inf, dtype=torch.float64)
    for j, i, vector in edges:
        assert score[0, i, j] == -torch.inf
        score[:, i, j] = ((q[:, i] * k[:, j] * vector.view(2, 2)).sum(-1) / math.sqrt(2)).clamp(-5, 5)
    weights = score.softmax(-1)
    expected = (weights @ v).transpose(0, 1).reshape(N + 1, 4)
    assert_close(torch.cat([out, virtual]), expected)
    assert_close(amap.weights(), weights.detach())
    assert_close(amap.edges()[:, : INDEX.shape[1]], weights.detach()[:, INDEX[1], INDEX[0]])


def test_exphormer_starts_as_scaled_dot_product_attention_over_the_union() -> None:
    layer, x = ExphormerConv(5, 4, 1, degree=2, virtual_nodes=0, clamp=1e6).double(), random(N, 5)
    over = Edges.union(Edges(INDEX), Edges(expander_edges(N, 2)), Edges(torch.arange(N).repeat(2, 1)))
    q, k, v = (part(x)[None] for part in (layer.lin_query, layer.lin_key, layer.lin_value))
    assert_close(layer(x, INDEX), regard.attend(q, k, v, over=over).out[0])


def test_virtual_nodes_carry_what_is_far() -> None:
    """Two layers on a path: without a virtual node the ends do not meet."""
    path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    for count, reaches in ((0, False), (1, True)):
        x = random(N, 4).requires_grad_()
        layer = ExphormerConv(4, 4, 1, degree=0, virtual_nodes=count).double()
        found = layer(x, path, return_virtual=count > 0)
        first, virtual = found if count else (found, None)
        second = layer(first, path, virtual=virtual)
        assert bool(torch.autograd.grad(second[5].sum(), x)[0][0].any()) is reaches


def test_grit_is_its_formula() -> None:
    layer, x = GRITConv(4, 2, norm="layer").double(), random(N, 4)
    walks = walk_encoding(INDEX, N, 4)
    e = walks.relative.double()
    out, edges, amap = layer(x, walks.pairs, e, walks.degree, return_map=True)
    q, k, v = (part(x).view(N, 2, 2) for part in (layer.lin_query, layer.lin_key, layer.lin_value))
    score, pair = torch.empty(2, N, N, dtype=torch.float64), torch.empty(N, N, 2, 2, dtype=torch.float64)
    scale, shift = layer.lin_edge(e).chunk(2, -1)
    for p, (j, i) in enumerate(walks.pairs.T.tolist()):
        z = (q[i] + k[j]) * scale[p].view(2, 2)
        z = z.relu().sqrt() - (-z).relu().sqrt() + shift[p].view(2, 2)
        pair[i, j] = z.relu()
        score[:, i, j] = (pair[i, j] * layer.score).sum(-1).clamp(-5, 5)
    weights = score.softmax(-1)
    made = torch.stack([
        torch.stack([
            sum(weights[h, i, j] * (v[j, h] + pair[i, j, h] @ layer.edge_value[h]) for j in range(N)) for h in range(2)
        ])
        for i in range(N)
    ]).view(N, 4)  # fmt: skip
    made = made * layer.by_degree[0] + made * (walks.degree + 1.0).log()[:, None] * layer.by_degree[1]
    assert_close(out, layer.node(x, made))
    own = pair[walks.pairs[1], walks.pairs[0]].reshape(-1, 4)
    assert_close(edges, layer.edge_norm(e + layer.edge_out(own)))
    assert_close(amap.weights(), weights.detach())


def test_graphit_is_its_formula_and_a_kernel_of_ones_leaves_plain_attention() -> None:
    layer, x = GraphiTAttention(4, 2).double(), random(N, 4)
    pairs, kernel = diffusion_kernel(INDEX, N, 0.7)
    q, v = heads(layer.lin_query(x), 2), heads(layer.lin_value(x), 2)
    plain = (q @ q.mT / math.sqrt(2)).exp()
    near = torch.zeros(N, N, dtype=torch.float64)
    near[pairs[1], pairs[0]] = kernel.double()
    for values, matrix in ((kernel.double(), near), (torch.ones(N * N).double(), torch.ones(N, N).double())):
        where = pairs if values is not None and len(values) == pairs.shape[1] else same_graph_pairs(N)
        weights = plain * matrix
        weights = weights / weights.sum(-1, keepdim=True)
        out, amap = layer(x, where, values, return_map=True)
        assert_close(out, layer.lin_out((weights @ v).transpose(0, 1).reshape(N, 4)))
        assert_close(amap.weights(), weights.detach())
    with pytest.raises(ValueError, match="not positive"):
        layer(x, pairs, torch.zeros(pairs.shape[1]).double())


def test_kernels_are_the_powers_of_the_laplacian() -> None:
    adjacency = torch.zeros(N, N, dtype=torch.float64)
    adjacency[INDEX[1], INDEX[0]] = 1
    degree = adjacency.sum(-1)
    root = torch.where(degree > 0, degree.clamp_min(1).rsqrt(), 0.0)
    laplacian = torch.diag((degree > 0).double()) - root[:, None] * adjacency * root
    values, vectors = torch.linalg.eigh(laplacian)
    for found, expected in (
        (diffusion_kernel(INDEX, N, 1.3), vectors @ torch.diag((-1.3 * values).exp()) @ vectors.T),
        (walk_kernel(INDEX, N, 2, 0.25), torch.matrix_power(torch.eye(N) - 0.25 * laplacian, 2)),
    ):
        pairs, kernel = found
        dense = torch.zeros(N, N, dtype=torch.float64)
        dense[pairs[1], pairs[0]] = kernel.double()
        assert_close(dense, expected.clamp_min(0), atol=1e-6, rtol=1e-6)


def test_relative_walks_are_powers_of_the_transition_matrix() -> None:
    move = torch.zeros(N, N, dtype=torch.float64)
    move[INDEX[0], INDEX[1]] = 1
    move = move / move.sum(-1, keepdim=True).clamp_min(1)
    found = walk_encoding(INDEX, N, 5)
    for step in range(5):
        power = torch.matrix_power(move, step)
        assert_close(found.relative[:, step].double(), power[found.pairs[0], found.pairs[1]], atol=1e-6, rtol=1e-6)
        assert_close(found.absolute[:, step].double(), power.diagonal(), atol=1e-6, rtol=1e-6)


def test_edges_meet_in_the_line_graph_where_they_share_a_node() -> None:
    index = torch.tensor([[0, 1, 1, 4, 5, 1], [1, 0, 2, 5, 5, 2]])  # a reverse, a loop, a repeated edge
    found = {tuple(pair) for pair in line_graph(index).T.tolist()}
    ends = [set(edge) for edge in index.T.tolist()]
    assert found == {(e, f) for e in range(6) for f in range(6) if e != f and ends[e] & ends[f]}
    assert line_graph(index).shape[1] == len(found)
    assert line_graph(index[:, :0]).shape == (2, 0)


def test_edge_set_attention_is_blind_to_the_order_of_edges() -> None:
    layer, x = EdgeSetAttention(5, 8, 2, edge_dim=2, seeds=3).double(), random(N, 5)
    attr, order = random(INDEX.shape[1], 2), torch.randperm(INDEX.shape[1])
    assert_close(layer(x, INDEX[:, order], attr[order]), layer(x, INDEX, attr))


def test_a_masked_block_attends_edges_that_share_a_node_and_no_others() -> None:
    _, maps = EdgeSetAttention(5, 8, 2, "MSP", seeds=3).double()(random(N, 5), INDEX, return_map=True)
    allowed = torch.zeros(10, 10, dtype=torch.bool)
    pairs = line_graph(INDEX)
    allowed[pairs[1], pairs[0]] = True
    assert ((maps[0].weights() > 0) == allowed).all()
    assert (maps[1].weights() > 0).all() and maps[2].weights().shape == (2, 3, 10)


def test_a_union_has_the_edges_of_all_in_their_order() -> None:
    a, b = Edges(INDEX[:, :4]), Edges(INDEX[:, 4:])
    q, k, v = (random(2, N, 3) + place for place in range(3))
    out, amap = regard.attend(q, k, v, over=Edges.union(a, b))
    whole = regard.attend(q, k, v, over=Edges(INDEX))
    assert_close(out, whole.out)
    assert_close(amap.edges(), whole.map.edges())
    with pytest.raises(ValueError, match="some of the graphs have key="):
        Edges.union(a, Edges(INDEX, key=random(2, 10, 3)))
    with pytest.raises(ValueError, match="same nodes"):
        Edges.union(Edges(INDEX, size=(6, 6)), Edges(INDEX, size=(7, 7)))
    with pytest.raises(TypeError, match="expected graphs"):
        Edges.union(INDEX)


@pytest.mark.parametrize("nodes", [0, 1, 2, 11, 60, 500])
@pytest.mark.parametrize("degree", [4, 6])
def test_an_expander_is_regular_symmetric_and_the_same_for_a_seed(nodes: int, degree: int) -> None:
    index = expander_edges(nodes, degree, seed=5)
    assert torch.equal(index, expander_edges(nodes, degree, seed=5))
    assert (index[0] != index[1]).all()
    pairs = sorted(map(tuple, index.T.tolist()))
    assert pairs == sorted((b, a) for a, b in pairs)
    if nodes > 10:
        assert (torch.bincount(index[1], minlength=nodes) == degree).all()
        assert not torch.equal(index, expander_edges(nodes, degree, seed=6))
        assert second_eigenvalue(index, nodes) < 2 * math.sqrt(degree - 1) + 0.3
    else:
        assert len(pairs) == nodes * (nodes - 1)


def test_the_second_eigenvalue_is_that_of_the_matrix() -> None:
    index = expander_edges(40, 4)
    matrix = torch.zeros(40, 40, dtype=torch.float64)
    matrix.index_put_((index[1], index[0]), torch.ones(index.shape[1]).double(), accumulate=True)
    values = torch.linalg.eigvalsh(matrix)
    assert abs(values[-1] - 4) < 1e-9
    assert second_eigenvalue(index, 40, 3000) == pytest.approx(float(values[:-1].abs().max()), abs=1e-2)


def test_the_expander_of_a_graph_does_not_depend_on_its_batch() -> None:
    batch = torch.tensor([1, 0, 1, 0] * 12)
    index = expander_edges(batch, 4, seed=2)
    for graph in (0, 1):
        own = torch.arange(48)[batch == graph]
        inside = index[:, batch[index[0]] == graph]
        assert torch.equal(inside, own[expander_edges(24, 4, seed=2)])


@pytest.mark.parametrize("count", [1, 7])
def test_products_of_features_are_their_matrix(count: int) -> None:
    ids = torch.randint(0, count, (150,), generator=torch.Generator().manual_seed(0))
    q, k, v, own = random(2, 150, 4), random(2, 150, 4).abs(), random(2, 150, 3), random(150).abs()
    q = q.abs()
    pairs = (q @ k.mT + torch.diag(own)) * (ids[:, None] == ids)
    weights = pairs / (pairs.sum(-1, keepdim=True) + 0.01)
    found = factored_attend(q, k, v, ids=ids, count=count, own=own, eps=0.01, signed=False)
    assert_close(found.out, weights @ v)
    assert_close(found.map.weights(), weights)
    assert_close(found.map[1].row(3), weights[1, 3])
    assert_close(found.map.entropy(), -torch.xlogy(weights, weights).sum(-1))
    assert_close(found.map.mass(), weights.sum(-2))


def test_a_row_whose_products_are_zero_gives_zero() -> None:
    q = torch.zeros(1, 3, 2)
    found = factored_attend(q, torch.rand(1, 3, 2), torch.rand(1, 3, 2))
    assert (found.out == 0).all() and (found.map.weights() == 0).all()


def test_wrong_calls_say_what_to_type() -> None:
    x = random(N, 5).float()
    with pytest.raises(ValueError, match="expected an even number"):
        ExphormerConv(5, 4, degree=3)
    with pytest.raises(ValueError, match="virtual has 3 rows, expected 1"):
        ExphormerConv(5, 4)(x, INDEX, virtual=torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"expected letters of M, S, P"):
        EdgeSetAttention(5, blocks="MXM")
    with pytest.raises(ValueError, match="after P come S blocks"):
        EdgeSetAttention(5, blocks="MPM")
    with pytest.raises(ValueError, match="needs edge_attr"):
        GRITConv(4, 2)(x[:, :4], INDEX)
    with pytest.raises(ValueError, match="joins nodes of different graphs"):
        walk_encoding(INDEX, N, batch=torch.tensor([0, 0, 0, 1, 1, 1]))
    with pytest.raises(ValueError, match="expected q and k alike"):
        factored_attend(random(1, 3, 2), random(1, 3, 4), random(1, 3, 2))
