"""What holds for every graph transformer: graphs of a batch do not meet, and nodes have no order."""

import copy
from typing import Any

import pytest
import torch
from tests.sampling import mostly_slow
from torch import Tensor, nn
from torch.testing import assert_close

import regard
from regard.nn import (
    EdgeSetAttention,
    ExphormerConv,
    GATConv,
    GPSConv,
    GraphiTAttention,
    GraphSelfAttention,
    GRITConv,
    NodeFormerConv,
    NodeSetAttention,
    PolynormerAttention,
    SGFormerAttention,
    diffusion_kernel,
    expander_edges,
    line_graph,
    walk_encoding,
)

SIZES = (7, 1, 0, 12)  # one node alone, and a graph without nodes


def graph(nodes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features (N, 8) and edges both ways; the last node of each has none."""
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, max(1, nodes - 1), (2, 2 * max(0, nodes - 2)), generator=draw)
    index = torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1)
    return torch.randn(nodes, 8, generator=draw, dtype=torch.float64), index


EACH = [graph(nodes, seed) for seed, nodes in enumerate(SIZES)]
X = torch.cat([x for x, _ in EACH])
STARTS = [sum(SIZES[:place]) for place in range(len(SIZES))]
INDEX = torch.cat([index + start for (_, index), start in zip(EACH, STARTS, strict=True)], 1)
BATCH = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))


def by_walks(layer: Any, x: Tensor, index: Tensor, batch: Any, graphs: Any, **more: Any) -> Any:
    found = walk_encoding(index, len(x), 8, batch, graphs)
    return layer(x, found.pairs, found.relative.to(x.dtype), found.degree, **more)


def by_heat(layer: Any, x: Tensor, index: Tensor, batch: Any, graphs: Any, **more: Any) -> Any:
    pairs, kernel = diffusion_kernel(index, len(x), 1.0, batch, graphs)
    return layer(x, pairs, kernel.to(x.dtype), **more)


def plainly(layer: Any, x: Tensor, index: Tensor, batch: Any, graphs: Any, **more: Any) -> Any:
    return layer(x, batch, graphs, **more)


def on_edges(layer: Any, x: Tensor, index: Tensor, batch: Any, graphs: Any, **more: Any) -> Any:
    return layer(x, index, batch=batch, graphs=graphs, **more)


LAYERS: dict[str, tuple[Any, Any]] = {
    "GraphSelfAttention": (lambda: GraphSelfAttention(8, 2), plainly),
    "GPSConv": (lambda: GPSConv(8, GATConv(8, 4, heads=2), heads=2), on_edges),
    "SGFormerAttention": (lambda: SGFormerAttention(8, 2, 6), plainly),
    "PolynormerAttention": (lambda: PolynormerAttention(8, 2, 6), plainly),
    "NodeFormerConv": (lambda: NodeFormerConv(8, 6, 2), on_edges),
    "ExphormerConv": (lambda: ExphormerConv(8, 3, 2), on_edges),
    "GRITConv": (lambda: GRITConv(8, 2), by_walks),
    "GraphiTAttention": (lambda: GraphiTAttention(8, 2), by_heat),
    "EdgeSetAttention": (lambda: EdgeSetAttention(8, 8, 2, seeds=3), on_edges),
    "edges alone": (lambda: EdgeSetAttention(8, 8, 2, "MS"), on_edges),
    "NodeSetAttention": (lambda: NodeSetAttention(8, 8, 2), on_edges),
}
every = pytest.mark.parametrize("name", LAYERS)


def made(name: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    make, call = LAYERS[name]
    return make().double().eval(), call


def first(found: Any) -> Tensor:
    out: Tensor = found[0] if isinstance(found, tuple) else found
    return out


@every
def test_a_batch_of_graphs_is_each_by_itself(name: str) -> None:
    layer, call = made(name)
    together = first(call(layer, X, INDEX, BATCH, len(SIZES)))
    each = [first(call(layer, x, index, None, None)) for x, index in EACH]
    assert_close(together, torch.cat(each))
    assert together.isfinite().all()


@every
def test_nodes_have_no_order_and_a_batch_need_not_be_sorted(name: str) -> None:
    layer, call = made(name)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
    place = torch.argsort(order)
    more = [{}, {}]
    if name == "ExphormerConv":  # its expander is drawn by number: it goes along
        expander = expander_edges(BATCH, graphs=len(SIZES))
        more = [{"expander": expander}, {"expander": place[expander]}]
    out = first(call(layer, X, INDEX, BATCH, len(SIZES), **more[0]))
    other = first(call(layer, X[order], place[INDEX], BATCH[order], len(SIZES), **more[1]))
    assert_close(other, out if "dge" in name and name != "NodeSetAttention" else out[order])


@every
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    layer, call = made(name)
    x, index = EACH[0]
    x, index = x[:5], index[:, (index < 5).all(0)]

    def run(x: Tensor) -> Tensor:
        return first(call(layer, x, index, None, None))

    assert torch.autograd.gradcheck(run, x.clone().requires_grad_(), fast_mode=True)


@every
def test_gradients_are_finite_with_a_lonely_node_and_an_empty_graph(name: str) -> None:
    layer, call = made(name)
    x = X.clone().requires_grad_()
    out = first(call(layer, x, INDEX, BATCH, len(SIZES)))
    grads = torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()], allow_unused=True)
    assert all(grad.isfinite().all() for grad in grads if grad is not None)


@every
def test_a_graph_without_nodes_gives_nothing(name: str) -> None:
    layer, call = made(name)
    x, index = EACH[2]
    out = first(call(layer, x, index, None, None))
    pooled = name == "EdgeSetAttention"
    assert out.shape[0] == (1 if pooled else 0) and out.isfinite().all()


@every
def test_graphs_do_not_meet_in_a_map(name: str) -> None:
    layer, call = made(name)
    found = call(layer, X, INDEX, BATCH, len(SIZES), return_map=True)[-1]
    maps = found if isinstance(found, list) else [found]
    homes = BATCH[INDEX[0]] if "dge" in name else BATCH
    for amap in maps:
        weights = amap.weights()[..., : len(homes), : len(homes)]
        if amap.n == amap.m >= len(homes):  # of those among nodes, or among edges
            assert (weights[:, homes[:, None] != homes] == 0).all()
        assert (amap.weights().sum(-1) < 1 + 1e-6).all()


@every
def test_what_is_recorded_is_the_map_that_the_layer_returns(name: str) -> None:
    layer, call = made(name)
    with regard.record(layer) as rec:
        found = call(layer, X, INDEX, BATCH, len(SIZES), return_map=True)[-1]
    assert not rec.missed
    found = found if isinstance(found, list) else [found]
    for amap in found:
        assert any(
            amap.shape == one.shape and torch.allclose(amap.weights(), one.weights()) for one in rec.maps.values()
        )


@every
def test_a_state_dict_makes_the_same_layer(name: str) -> None:
    layer, call = made(name)
    other = copy.deepcopy(layer)
    for part in other.modules():
        if part is not other and hasattr(part, "reset_parameters"):
            part.reset_parameters()
    other.load_state_dict(layer.state_dict())
    assert_close(first(call(other, *EACH[0], None, None)), first(call(layer, *EACH[0], None, None)), atol=0, rtol=0)


@pytest.mark.parametrize("name", mostly_slow(LAYERS, "GPSConv", "GRITConv", "EdgeSetAttention"))
def test_a_compiled_layer_is_one_graph(name: str) -> None:
    layer, call = made(name)
    x, graphs = X.float(), len(SIZES)
    layer = layer.float()
    if call is by_walks:
        walks = walk_encoding(INDEX, len(X), 8, BATCH, graphs)
        given: tuple[Any, ...] = (walks.pairs, walks.relative, walks.degree)
    elif call is by_heat:
        given = diffusion_kernel(INDEX, len(X), 1.0, BATCH, graphs)
    elif name == "ExphormerConv":
        given = (INDEX, None, BATCH, graphs, expander_edges(BATCH, graphs=graphs))
    elif "dge" in name:
        given = (INDEX, None, BATCH, graphs, line_graph(INDEX))
    else:
        given = (BATCH, graphs) if call is plainly else (INDEX, BATCH, graphs)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert_close(first(compiled(x, *given)), first(layer(x, *given)))


@every
def test_low_precision_stays_near_full_precision(name: str) -> None:
    layer, call = made(name)
    x, index = EACH[3]
    exact = first(call(layer, x, index, None, None))
    low = first(call(layer.bfloat16(), x.bfloat16(), index, None, None))
    assert low.dtype == torch.bfloat16
    assert_close(low.double(), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("name", ["GPSConv", "NodeFormerConv", "ExphormerConv", "GRITConv", "EdgeSetAttention"])
def test_mini_batches_of_small_graphs_are_learned(name: str) -> None:
    data = pytest.importorskip("torch_geometric.data")
    loaders = pytest.importorskip("torch_geometric.loader")
    torch.manual_seed(0)
    layer, call = LAYERS[name][0](), LAYERS[name][1]
    head = nn.Linear(6 if name in ("ExphormerConv", "NodeFormerConv") else 8, 2)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
    graphs = []
    for number in range(24):
        nodes, y = 6 + number % 5, number % 2
        ring = torch.arange(nodes)
        index = torch.stack([torch.cat([ring, (ring + 1) % nodes]), torch.cat([(ring + 1) % nodes, ring])])
        graphs.append(data.Data(x=torch.randn(nodes, 8) + (2 * y - 1), edge_index=index, y=y))
    losses = []
    for _ in range(8):
        total = 0.0
        for batch in loaders.DataLoader(graphs, batch_size=8, shuffle=True):
            out = first(call(layer, batch.x, batch.edge_index, batch.batch, batch.num_graphs))
            if out.shape[0] != batch.num_graphs:
                mean = out.new_zeros(batch.num_graphs, out.shape[1]).index_add(0, batch.batch, out)
                out = mean / torch.bincount(batch.batch)[:, None]
            loss = nn.functional.cross_entropy(head(out), batch.y)
            optimiser.zero_grad(), loss.backward(), optimiser.step()
            total += loss.item()
        losses.append(total)
    assert losses[-1] < 0.7 * losses[0]
