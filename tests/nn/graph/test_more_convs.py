"""AGNNConv, SuperGATConv and RGATConv beside torch_geometric's."""

from typing import Any

import pytest
import torch
from tests.nn.graph.parity import GRAPHS, NODES, assert_same, features
from torch.testing import assert_close

from regard.nn import AGNNConv, RGATConv, SuperGATConv

peer = pytest.importorskip("torch_geometric.nn")
GRAPH_NAMES = list(GRAPHS)


def both(kind: type, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return kind(*arguments, **options), getattr(peer, kind.__name__)(*arguments, **options)


@pytest.mark.parametrize("graph", GRAPH_NAMES)
@pytest.mark.parametrize("options", [{}, {"requires_grad": False}, {"add_self_loops": False}], ids=str)
def test_agnn(options: dict[str, bool], graph: str) -> None:
    ours, theirs = both(AGNNConv, **options)
    if ours.requires_grad:
        with torch.no_grad():
            theirs.beta.fill_(1.7)
    assert_same(ours, theirs, lambda layer, x: layer(x, GRAPHS[graph]), [features(NODES, 5)])


@pytest.mark.parametrize("graph", GRAPH_NAMES)
@pytest.mark.parametrize("attention_type", ["MX", "SD"])
@pytest.mark.parametrize("concat", [True, False])
def test_supergat(concat: bool, attention_type: str, graph: str) -> None:
    ours, theirs = both(SuperGATConv, 5, 3, heads=2, concat=concat, attention_type=attention_type)
    ours.eval(), theirs.eval()
    assert_same(ours, theirs, lambda layer, x: layer(x, GRAPHS[graph]), [features(NODES, 5)])


@pytest.mark.parametrize("attention_type", ["MX", "SD"])
@pytest.mark.parametrize("loops", [True, False])
def test_the_second_task_of_supergat(loops: bool, attention_type: str) -> None:
    ours, theirs = both(SuperGATConv, 5, 3, heads=2, attention_type=attention_type, add_self_loops=loops)
    no_edges = torch.tensor([[0, 1, 5], [2, 3, 5]])

    def call(layer: Any, x: torch.Tensor) -> Any:
        return layer(x, GRAPHS["with loops"], no_edges), layer.get_attention_loss()

    assert_same(ours, theirs, call, [features(NODES, 5)])


def test_non_edges_that_supergat_draws_are_none_and_stay_within_their_graph() -> None:
    from regard.nn.graph.supergat_conv import non_edges

    index, batch = GRAPHS["directed"], torch.tensor([0, 0, 1, 1, 0, 1])
    torch.manual_seed(0)
    drawn = non_edges(index, NODES, 12, batch)
    assert drawn.shape[1] > 0
    assert (batch[drawn[0]] == batch[drawn[1]]).all()
    edges = {*map(tuple, index.T.tolist()), *map(tuple, index.flip(0).T.tolist())}
    assert not edges & {*map(tuple, drawn.T.tolist())}


RGAT = [
    {},
    {"concat": False},
    {"edge_dim": 4},
    {"num_bases": 2},
    {"num_blocks": 2},
    {"attention_mechanism": "within-relation"},
    {"attention_mechanism": "within-relation", "edge_dim": 4, "mod": "additive"},
    {"attention_mode": "multiplicative-self-attention"},
    {"attention_mode": "multiplicative-self-attention", "dim": 2, "concat": False},
    {"attention_mode": "multiplicative-self-attention", "dim": 2, "edge_dim": 4, "mod": "scaled"},
    {"attention_mode": "multiplicative-self-attention", "dim": 2, "mod": "additive"},
    {"attention_mode": "multiplicative-self-attention", "attention_mechanism": "within-relation", "edge_dim": 4},
    {"mod": "additive"},
    {"mod": "scaled"},
    {"mod": "f-additive"},
    {"mod": "f-scaled"},
]


@pytest.mark.parametrize("graph", ["directed", "with loops", "repeated edges", "isolated nodes"])
@pytest.mark.parametrize("options", RGAT, ids=str)
def test_rgat(options: dict[str, Any], graph: str) -> None:
    index = GRAPHS[graph]
    ours, theirs = both(RGATConv, 6, 4, 3, heads=2, **options)
    with torch.no_grad():
        theirs.l2.fill_(0.25)  # torch_geometric leaves it as memory was
        theirs.w.copy_(torch.linspace(0.5, 1.5, 4))
    kinds = torch.arange(index.shape[1]) % 3
    leaves = [features(NODES, 6)] + ([features(index.shape[1], 4)] if "edge_dim" in options else [])
    call = lambda layer, x, e=None: layer(x, index, kinds, e, return_attention_weights=True)  # noqa: E731
    assert_same(ours, theirs, call, leaves)


def test_rgat_weights_sum_to_one_across_relations_and_to_their_number_within() -> None:
    index, kinds = GRAPHS["directed"], torch.tensor([0, 1, 0, 1, 0, 1, 0, 0, 1])
    x = features(NODES, 6)
    for mechanism in ("across-relation", "within-relation"):
        layer = RGATConv(6, 4, 2, attention_mechanism=mechanism).double()
        _, amap = layer(x, index, kinds, return_map=True)
        total = torch.zeros(NODES, dtype=x.dtype).index_add(0, index[1], amap.edges()[0])
        reached = torch.stack([torch.bincount(index[1][kinds == r], minlength=NODES) > 0 for r in range(2)]).sum(0)
        expected = reached.clamp(max=1) if mechanism == "across-relation" else reached
        assert_close(total, expected.to(x.dtype))


def test_rgat_starts_with_numbers_and_not_with_memory() -> None:
    """torch_geometric makes the start of l2 and throws it away."""
    assert_close(RGATConv(6, 4, 3).l2, torch.full((4, 4), 0.25))
    assert isinstance(
        RGATConv(6, 4, 1)(
            features(NODES, 6).float(), GRAPHS["directed"], torch.zeros(9).long(), return_attention_weights=False
        ),
        torch.Tensor,
    )


@pytest.mark.parametrize("make", [AGNNConv, lambda: SuperGATConv(6, 3), lambda: RGATConv(6, 4, 1)])
def test_renaming_nodes_renames_the_result(make: Any) -> None:
    layer, x, index = make().double().eval(), features(NODES, 6), GRAPHS["with loops"]
    more = (torch.zeros(index.shape[1]).long(),) if isinstance(layer, RGATConv) else ()
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    assert_close(layer(x[order], torch.argsort(order)[index], *more), layer(x, index, *more)[order])
