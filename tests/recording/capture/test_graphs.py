"""Recording torch_geometric's convolutions: weights on the caller's edges, whatever a layer does to its self-loops."""

import threading
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
import torch_geometric.nn as pyg
import torch_geometric.utils as pyg_utils
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv import han_conv
from torch_geometric.utils import softmax as edge_softmax

from regard.core import attend as core
from regard.recording import record
from regard.recording.capture.edges.edge_maps import matched

NODES, WIDE = 6, 8
HERE = "test_graphs.py"
# loops of the caller's own stand between other edges: node 1 and node 4 have one, the others do not
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 4, 2, 0, 5], [1, 2, 1, 3, 2, 4, 4, 0, 5, 2, 2]])
KINDS = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0])


def features(n: int = NODES, width: int = WIDE) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(3))


def heard(model, *inputs, **options):
    """The record of one run, which gave the very bits that the model gives without it."""
    model.eval()
    bare = model(*inputs)
    with record(model, **options) as rec:
        out = model(*inputs)
    for a, b in zip(leaves(bare), leaves(out), strict=True):
        assert torch.equal(a, b)
    assert_nothing_left(model)
    return rec


def leaves(out):
    if isinstance(out, dict):
        return [part for part in out.values() if part is not None]
    return [out]


CODES = (pyg_utils.softmax.__code__, han_conv.group.__code__)


def assert_nothing_left(model):
    assert (pyg_utils.softmax.__code__, han_conv.group.__code__) == CODES
    assert not {"__call__", "_call_impl"} & set(MessagePassing.__dict__)
    assert not core.call_hooks
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
        if isinstance(module, MessagePassing):
            for name in ("propagate_forward_pre", "edge_update_forward_pre", "message_forward"):
                assert not getattr(module, f"_{name}_hooks")


def only(rec):
    assert not rec.missed
    assert len(rec.maps) == 1
    return next(iter(rec.maps.values()))


def by_pair(edge_index: Tensor, alpha: Tensor) -> dict:
    return {(int(s), int(t)): alpha[e] for e, (s, t) in enumerate(edge_index.T)}


RETURNING = {
    "GATConv": lambda: (pyg.GATConv(WIDE, 4, heads=3), ()),
    "GATConv mean": lambda: (pyg.GATConv(WIDE, 4, heads=2, concat=False, residual=True), ()),
    "GATConv as given": lambda: (pyg.GATConv(WIDE, 4, heads=2, add_self_loops=False), ()),
    "GATv2Conv": lambda: (pyg.GATv2Conv(WIDE, 4, heads=3), ()),
    "TransformerConv": lambda: (pyg.TransformerConv(WIDE, 4, heads=2, beta=True), ()),
    "RGATConv": lambda: (pyg.RGATConv(WIDE, 4, num_relations=2, heads=2), (KINDS,)),
    "RGATConv within": lambda: (
        pyg.RGATConv(WIDE, 4, num_relations=2, heads=2, attention_mechanism="within-relation"),
        (KINDS,),
    ),
    "RGATConv features": lambda: (
        pyg.RGATConv(WIDE, 4, 2, heads=2, dim=3, attention_mode="multiplicative-self-attention"),
        (KINDS,),
    ),
    "FAConv": lambda: (pyg.FAConv(WIDE), ()),
    "FAConv cached": lambda: (pyg.FAConv(WIDE, cached=True), ()),
}


@pytest.mark.parametrize("name", RETURNING)
def test_weights_are_those_that_the_layer_returns(name):
    conv, more = RETURNING[name]()
    x = features()
    inputs = (x, x, EDGES) if "FAConv" in name else (x, EDGES, *more)
    amap = only(heard(conv, *inputs))
    _, (ran, alpha) = conv(*inputs, return_attention_weights=True)
    want, got = by_pair(ran, alpha.detach()), amap.edges()
    for e, (source, target) in enumerate(EDGES.T.tolist()):
        assert torch.allclose(got[..., e].reshape(-1), want[source, target].reshape(-1), atol=1e-6), (source, target)
    has_loop = {1, 4}
    for node in range(NODES):
        added = ran.shape[1] > EDGES.shape[1] and node not in has_loop
        expected = want[node, node].reshape(-1) if added else torch.zeros(got[..., 0].numel())
        assert torch.allclose(amap.loops[..., node].reshape(-1), expected, atol=1e-6)
    assert torch.equal(amap.edge_index, EDGES)


def test_the_slice_that_shifts_weights_is_not_ours():
    conv = pyg.GATConv(WIDE, 4)
    x = features()
    amap = only(heard(conv, x, EDGES))
    _, (_, alpha) = conv(x, EDGES, return_attention_weights=True)
    sliced = alpha[: EDGES.shape[1], 0].detach()  # what AttentionExplainer does
    wrong = (sliced - amap.edges()[0]).abs() > 1e-3
    assert wrong[2:].any() and not wrong[:2].any()  # right up to the first loop, wrong after it
    sums = torch.zeros(NODES).index_add_(0, EDGES[1], amap.edges()[0]) + amap.loops[0]
    assert torch.allclose(sums, torch.ones(NODES), atol=1e-6)


def test_edges_that_repeat_keep_their_own_weights():
    conv = pyg.GATConv(WIDE, 4, heads=2, edge_dim=3)
    index = torch.tensor([[0, 2, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]])  # 0 -> 1 three times, and two loops
    x, attr = features(), torch.randn(6, 3)
    amap = only(heard(conv, x, index, attr))
    _, (ran, alpha) = conv(x, index, attr, return_attention_weights=True)
    got = amap.edges()
    assert torch.allclose(got[:, [0, 1, 2, 4]].T, alpha[:4], atol=1e-6)  # loops aside, in the caller's order
    assert torch.allclose(got[:, 3], alpha[(ran == 1).all(0)][0], atol=1e-6)  # the first loop carries the new one
    assert not got[:, 5].any()
    assert got[:, 0].ne(got[:, 2]).all()


def softmax_by_target(s: Tensor, target: Tensor) -> Tensor:
    made = torch.empty_like(s)
    for node in target.unique():
        made[target == node] = s[target == node].softmax(0)
    return made


def with_loops(index: Tensor) -> Tensor:
    kept = index[:, index[0] != index[1]]
    return torch.cat([kept, torch.arange(NODES).repeat(2, 1)], 1)


def assert_on_edges(amap, index, alpha):
    want = by_pair(index, alpha)
    for e, (source, target) in enumerate(amap.edge_index.T.tolist()):
        assert torch.allclose(amap.edges()[..., e].reshape(-1), want[source, target].reshape(-1), atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["MX", "SD"])
def test_supergat(kind):
    conv, x = pyg.SuperGATConv(WIDE, 4, heads=2, attention_type=kind), features()
    amap, index = only(heard(conv, x, EDGES)), with_loops(EDGES)
    h = conv.lin(x).view(-1, 2, 4)
    hj, hi = h[index[0]], h[index[1]]
    dot = (hi * hj).sum(-1)
    s = dot / 2 if kind == "SD" else ((hj * conv.att_l).sum(-1) + (hi * conv.att_r).sum(-1)) * dot.sigmoid()
    assert_on_edges(amap, index, softmax_by_target(nn.functional.leaky_relu(s, 0.2), index[1]))


def test_supergat_in_training_is_heard_once():
    conv, x = pyg.SuperGATConv(WIDE, 4, heads=2, dropout=0.5), features()
    with record(conv) as rec:
        conv(x, EDGES)
    assert torch.allclose(only(rec).weights().sum(-1), torch.ones(2, NODES), atol=1e-6)  # before dropout


@torch.no_grad()
def test_agnn():
    conv, x = pyg.AGNNConv(), features()
    amap, index = only(heard(conv, x, EDGES)), with_loops(EDGES)
    h = nn.functional.normalize(x, dim=-1)
    assert_on_edges(amap, index, softmax_by_target((h[index[0]] * h[index[1]]).sum(-1), index[1]))


@torch.no_grad()
def test_general_and_point_transformer():
    conv, x = pyg.GeneralConv(WIDE, 4, attention=True, heads=2), features()
    h = conv.lin_msg(x[EDGES[0]]).view(-1, 2, 4)
    s = nn.functional.leaky_relu((h * conv.att_msg).sum(-1), 0.2)
    assert_on_edges(only(heard(conv, x, EDGES)), EDGES, softmax_by_target(s, EDGES[1]))
    point, place = pyg.PointTransformerConv(WIDE, 4), torch.randn(NODES, 3)
    amap, index = only(heard(point, x, place, EDGES)), with_loops(EDGES)
    s = point.lin_dst(x)[index[1]] - point.lin_src(x)[index[0]] + point.pos_nn(place[index[1]] - place[index[0]])
    assert amap.features == 4  # a weight for each feature
    assert_on_edges(amap, index, softmax_by_target(s, index[1]))


@torch.no_grad()
@pytest.mark.parametrize("name", ["AttentionalAggregation", "SoftmaxAggregation", "Set2Set"])
def test_aggregations_attend_their_items(name):
    x, index = features(), torch.tensor([0, 0, 0, 2, 2, 2])
    gate = nn.Linear(WIDE, 1)
    aggregation = {
        "AttentionalAggregation": lambda: pyg.AttentionalAggregation(gate),
        "SoftmaxAggregation": lambda: pyg.SoftmaxAggregation(),
        "Set2Set": lambda: pyg.Set2Set(WIDE, 2),
    }[name]()
    rec = heard(aggregation, x, index)
    assert not rec.missed
    assert len(rec.maps) == (2 if name == "Set2Set" else 1)
    amap = rec.maps[name]
    assert (amap.n, amap.m) == (3, NODES)
    sums = amap.weights().sum(-1)
    assert torch.allclose(sums, torch.tensor([1.0, 0.0, 1.0]).expand(sums.shape), atol=1e-6)  # group 1 is empty
    if name == "AttentionalAggregation":
        assert torch.allclose(amap.edges()[0], softmax_by_target(gate(x)[:, 0], index), atol=1e-6)


TYPES = (["author", "paper"], [("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper")])


def typed():
    g = torch.Generator().manual_seed(5)
    x = {"author": torch.randn(3, WIDE, generator=g), "paper": torch.randn(4, WIDE, generator=g)}
    index = {
        TYPES[1][0]: torch.tensor([[0, 1, 2, 0], [0, 1, 3, 3]]),
        TYPES[1][1]: torch.tensor([[0, 3, 1], [0, 2, 1]]),
        TYPES[1][2]: torch.tensor([[0, 1, 2, 3, 3], [1, 1, 3, 0, 1]]),
    }
    return x, index


@torch.no_grad()
def test_han_has_a_map_for_each_type_and_one_over_types():
    x, index = typed()
    conv = pyg.HANConv(WIDE, 4, TYPES, heads=2)
    rec = heard(conv, x, index)
    assert not rec.missed
    maps = list(rec.maps.values())
    assert len(maps) == 3 + 2  # types of edges, then the two node types that attend over them
    for (kind, edges), amap in zip(index.items(), maps, strict=False):
        assert dict(amap.kinds) == {kind: (0, edges.shape[1])}
        assert (amap.n, amap.m) == (x[kind[2]].shape[0], x[kind[0]].shape[0])
        name = "__".join(kind)
        hj, hi = (conv.proj[k](x[k]).view(-1, 2, 2) for k in (kind[0], kind[2]))
        s = (hj * conv.lin_src[name]).sum(-1)[edges[0]] + (hi * conv.lin_dst[name]).sum(-1)[edges[1]]
        assert_on_edges(amap, edges, softmax_by_target(nn.functional.leaky_relu(s, 0.2), edges[1]))
    _, semantic = conv(x, index, return_semantic_attention_weights=True)
    for amap, kind in zip(maps[3:], ("author", "paper"), strict=True):
        assert torch.allclose(amap.weights()[0, 0, 0], semantic[kind], atol=1e-6)


@torch.no_grad()
def test_hgt_has_one_map_with_typed_edges():
    x, index = typed()
    conv = pyg.HGTConv(WIDE, 4, TYPES, heads=2)
    amap = only(heard(conv, x, index))
    assert (amap.n, amap.m) == (7, 7)  # the nodes of all types, end to end
    assert torch.allclose(amap.weights().sum(-1)[:, [0, 1, 2, 3, 4, 6]], torch.ones(2, 6), atol=1e-6)
    kqv = {k: [p.view(-1, 2, 2) for p in v.tensor_split(3, 1)] for k, v in conv.kqv_lin(x).items()}
    scores, targets = [], []
    for kind, edges in index.items():
        place = conv.edge_types_map[kind]
        matrix = conv.k_rel.weight.view(2, 3, 2, 2)[:, place]
        k = torch.einsum("nhd,hde->nhe", kqv[kind[0]][0], matrix)[edges[0]]
        s = (kqv[kind[2]][1][edges[1]] * k).sum(-1) * conv.p_rel["__".join(kind)] / 2**0.5
        scores.append(s)
        targets.append(edges[1] + (0 if kind[2] == "author" else 3))
    alpha = softmax_by_target(torch.cat(scores), torch.cat(targets))
    assert torch.allclose(amap.edges().T, alpha, atol=1e-6)
    for kind, (start, stop) in amap.kinds.items():
        assert torch.equal(amap.edge_index[0, start:stop], index[kind][0] + (0 if kind[0] == "author" else 3))


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", ["GATConv", "TransformerConv", "AGNNConv", "FAConv"])
def test_a_sparse_adjacency_is_read_like_its_edges(layout, name):
    order = (EDGES[1] * NODES + EDGES[0]).argsort()
    index = EDGES[:, order]  # rows are targets, in row-major order
    adjacency = torch.sparse_coo_tensor(index.flip(0), torch.ones(index.shape[1]), (NODES, NODES)).coalesce()
    adjacency = adjacency.to_sparse_csr() if layout == "csr" else adjacency
    conv = {
        "GATConv": lambda: pyg.GATConv(WIDE, 4, heads=2, add_self_loops=False),
        "TransformerConv": lambda: pyg.TransformerConv(WIDE, 4, heads=2),
        "AGNNConv": lambda: pyg.AGNNConv(add_self_loops=False),
        "FAConv": lambda: pyg.FAConv(WIDE, normalize=False),
    }[name]()
    x = features()
    if name == "FAConv":
        dense, sparse = (x, x, index, torch.ones(index.shape[1])), (x, x, adjacency)
    else:
        dense, sparse = (x, index), (x, adjacency)
    a, b = only(heard(conv, *dense)), only(heard(conv, *sparse))
    assert torch.equal(b.edge_index, index)
    assert torch.allclose(a.edges(), b.edges(), atol=1e-6)
    assert torch.allclose(a.weights(), b.weights(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_loops_that_are_added_to_a_sparse_adjacency():
    order = (EDGES[1] * NODES + EDGES[0]).argsort()
    index = EDGES[:, order]
    adjacency = torch.sparse_coo_tensor(index.flip(0), torch.ones(index.shape[1]), (NODES, NODES)).coalesce()
    conv, x = pyg.GATConv(WIDE, 4, heads=2), features()
    a, b = only(heard(conv, x, index)), only(heard(conv, x, adjacency))
    assert torch.allclose(a.edges(), b.edges(), atol=1e-6)
    assert torch.allclose(a.loops, b.loops, atol=1e-6)


def test_sources_and_targets_of_two_kinds():
    conv = pyg.GATConv((WIDE, 5), 4, heads=2)
    index = torch.tensor([[0, 5, 2, 1, 3], [2, 1, 2, 0, 1]])
    x = (features(), features(3, 5))
    amap = only(heard(conv, x, index))
    _, (ran, alpha) = conv(x, index, return_attention_weights=True)
    assert (amap.n, amap.m) == (3, NODES)
    assert_on_edges(amap, ran, alpha.detach())
    assert torch.allclose(amap.weights().sum(-1), torch.ones(2, 3), atol=1e-6)


def test_the_flow_may_be_turned_around():
    x = features()
    conv = pyg.TransformerConv(WIDE, 4, heads=2, flow="target_to_source")
    back = pyg.TransformerConv(WIDE, 4, heads=2)
    back.load_state_dict(conv.state_dict())
    a, b = only(heard(conv, x, EDGES)), only(heard(back, x, EDGES.flip(0)))
    assert torch.equal(a.edge_index, EDGES.flip(0))  # sources first
    assert torch.allclose(a.edges(), b.edges(), atol=1e-6)


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = pyg.GATConv(WIDE, 4, heads=2, dropout=dropout)
        self.second = pyg.GATv2Conv(8, 3, heads=1, dropout=dropout)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index=edge_index)


@pytest.mark.parametrize("keep", ["qk", "weights", "topk", "stats"])
def test_sites_and_what_is_kept(keep):
    net, x = Net(), features()
    rec = heard(net, x, EDGES, keep=keep, k=2)
    assert not rec.missed
    assert [str(site) for site in rec.sites] == ["first", "second"]
    whole = heard(net, x, EDGES)
    if keep == "stats":
        assert torch.equal(rec.stats["first"].mass, whole.maps["first"].mass())
        return
    amap = rec.maps["first"]
    assert amap.site == "first"
    if keep == "topk":
        best = whole.maps["first"].strongest(2)
        assert torch.equal(amap.weights().sort(-1, True).values[..., :2], best.weight)
    else:
        assert torch.equal(amap.edges(), whole.maps["first"].edges())
    assert [str(s) for s in heard(net, x, EDGES, sites="second").sites] == ["second"]


def test_reads_of_a_map_agree_with_its_dense_weights():
    amap = only(heard(pyg.GATConv(WIDE, 4, heads=2), features(), EDGES))
    w = amap.weights()
    assert torch.allclose(w.sum(-1), torch.ones(2, NODES), atol=1e-6)
    assert torch.allclose(amap.mass(), w.sum(-2), atol=1e-6)
    assert torch.allclose(amap.entropy(), -torch.xlogy(w, w).sum(-1), atol=1e-6)
    best = amap.strongest(2)
    assert torch.allclose(best.weight, w.topk(2, -1).values)
    assert torch.equal(amap[1].tile([2, 4], slice(0, 3)), w[1][[2, 4]][:, :3])
    ends = torch.cat([EDGES, torch.arange(NODES).repeat(2, 1)], 1)
    assert torch.equal(ends[0][best.edge], best.key)
    assert torch.equal(ends[1][best.edge[0, :, 0]], torch.arange(NODES))


def test_dropout_and_later_changes_do_not_reach_the_record():
    net, x = Net(dropout=0.6).train(), features()
    index = EDGES.clone()
    with record(net) as rec:
        torch.manual_seed(1)
        out = net(x, index)
    torch.manual_seed(1)
    assert torch.equal(out, net(x, EDGES))  # the same dropout was drawn
    for amap in rec.maps.values():
        assert torch.allclose(amap.weights().sum(-1), torch.ones(amap.heads, NODES), atol=1e-6)
    before = rec.maps["first"].edges().clone()
    index.zero_()
    with torch.no_grad():
        net.first.att_src.zero_()
    assert torch.equal(rec.maps["first"].edges(), before)
    assert torch.equal(rec.maps["first"].edge_index, EDGES)


def test_gradients_of_the_weights():
    net, x = Net(), features()
    with record(net, grad=True) as rec:
        out = net(x, EDGES)
    with pytest.raises(RuntimeError, match="backward"):
        rec.gradients["first"].edges()
    pull = torch.randn(out.shape)
    (out * pull).sum().backward()
    hidden, (ran, alpha) = net.first(x, EDGES, return_attention_weights=True)
    (want,) = torch.autograd.grad((net.second(hidden.relu(), EDGES) * pull).sum(), alpha)
    assert_on_edges(rec.gradients["first"], ran, want)
    assert rec.gradients["first"].loops[:, 0].ne(0).all()


def test_records_nest_and_leave_after_an_error():
    net, x = Net(), features()
    with record(net) as outer, record(net.first) as inner:
        net(x, EDGES)
    assert list(outer.maps) == ["first", "second"]
    assert list(inner.maps) == ["GATConv"]
    assert torch.equal(outer.maps["first"].edges(), inner.maps["GATConv"].edges())
    with suppress(Exception), record(net):
        net(x, EDGES + NODES)  # no such nodes
    assert_nothing_left(net)
    with record(net) as rec:
        net(x, EDGES)
        with suppress(Exception):
            net(x, EDGES + NODES)
        net(x, EDGES)
    assert [str(site) for site in rec.sites] == ["first", "second", "first:1", "second:1"]
    assert_nothing_left(net)


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_a_compiled_layer_is_heard_eagerly():
    conv, x = pyg.GATConv(WIDE, 4, heads=2).eval(), features()
    want = only(heard(conv, x, EDGES)).edges()
    compiled = torch.compile(conv, backend="eager")
    before = compiled(x, EDGES)
    with record(conv) as rec:
        compiled(x, EDGES)
    assert torch.equal(only(rec).edges(), want)
    assert torch.equal(compiled(x, EDGES), before)


@pytest.mark.parametrize("seed", range(20))
def test_edges_are_found_again_in_any_list(seed):
    g = torch.Generator().manual_seed(seed)
    given = torch.randint(0, 5, (2, 14), generator=g)  # repeated edges and loops among them
    others = given[:, given[0] != given[1]]
    used = torch.cat([others, torch.arange(5).repeat(2, 1)], 1)
    for order in (torch.arange(used.shape[1]), torch.randperm(used.shape[1], generator=g)):
        edge = matched(given, used[:, order], 5, 5)
        assert edge.unique().numel() == edge.numel()
        ends = torch.cat([given, torch.arange(5).repeat(2, 1)], 1)
        assert torch.equal(ends[:, edge], used[:, order])
        loops = edge[used[0, order] == used[1, order]]
        assert {int(e) for e in loops if e < 14} == {  # the caller's first loop of a node stands for the one that ran
            int(((given == node).all(0)).nonzero()[0]) for node in range(5) if (given == node).all(0).any()
        }
    assert torch.equal(matched(given, others, 5, 5), (given[0] != given[1]).nonzero()[:, 0])
    assert matched(given, torch.tensor([[0], [9]]), 10, 10) is None  # an edge that nobody gave


def test_another_thread_is_not_heard_and_not_disturbed():
    net, x, outs = Net().eval(), features(), []
    bare = net(x, EDGES)
    with record(net) as rec:
        thread = threading.Thread(target=lambda: outs.append(net(x, EDGES)))
        thread.start()
        thread.join()
    assert torch.equal(outs[0], bare) and not rec.maps


class Aliased(MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")

    def forward(self, x, links):
        return self.propagate(links, x=x)

    def message(self, x_i, x_j, index, size_i):
        return x_j * edge_softmax((x_i * x_j).sum(-1), index, num_nodes=size_i)[:, None]


def test_a_layer_of_the_users_own_is_heard_under_any_name():
    x = features()
    amap = only(heard(Aliased(), x, EDGES))
    assert_on_edges(amap, EDGES, softmax_by_target((x[EDGES[0]] * x[EDGES[1]]).sum(-1), EDGES[1]))


class ByHand(MessagePassing):
    """Weights by exp and a division of its own: nothing that can be heard."""

    def __init__(self):
        super().__init__(aggr="add")
        self.att = nn.Parameter(torch.randn(WIDE))

    def forward(self, x, edge_index):
        e = (x @ self.att)[edge_index[0]].exp()
        total = torch.zeros(x.shape[0]).index_add(0, edge_index[1], e)
        return self.propagate(edge_index, x=x, w=e / total[edge_index[1]])

    def message(self, x_j, w):
        return x_j * w[:, None]


class NoEdges(nn.Module):
    def forward(self, x, target):
        return edge_softmax(x, target)


def test_what_cannot_be_read_is_named():
    net = nn.ModuleDict({"odd": ByHand(), "bare": NoEdges()})
    with record(net) as rec:
        net["odd"](features(), EDGES)
        net["bare"](torch.randn(4), torch.tensor([0, 0, 1, 1]))
    assert not rec.maps
    found = {(missed.site, missed.operator): missed.file for missed in rec.missed}
    assert found.items() >= {("odd", "ByHand"): HERE, ("bare", "torch_geometric.utils.softmax"): HERE}.items()


def test_convolutions_without_attention_are_no_alarm():
    net = nn.ModuleList(
        [
            pyg.GCNConv(WIDE, WIDE),
            pyg.SAGEConv(WIDE, WIDE),
            pyg.GINConv(nn.Linear(WIDE, WIDE)),
            pyg.GCN2Conv(WIDE, 0.1),
            pyg.APPNP(2, 0.1),
            pyg.ResGatedGraphConv(WIDE, WIDE),
            pyg.HypergraphConv(WIDE, WIDE),
        ]
    )
    x = features()
    with record(net) as rec:
        for layer in net:
            layer(x, x, EDGES) if isinstance(layer, pyg.GCN2Conv) else layer(x, EDGES)
    assert not rec.maps and not rec.missed


def test_a_hypergraph():
    conv = pyg.HypergraphConv(WIDE, 4, use_attention=True, heads=2)
    nodes_in_groups = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
    amap = only(heard(conv, features(), nodes_in_groups, None, torch.randn(2, WIDE)))
    assert torch.allclose(amap.weights().sum(-1).amax(-1), torch.ones(2), atol=1e-6)


def test_a_graph_without_edges():
    conv = pyg.GATConv(WIDE, 4, heads=2, add_self_loops=False)
    with record(conv) as rec:
        conv(features(), torch.zeros(2, 0, dtype=torch.long))
    assert not rec.missed
