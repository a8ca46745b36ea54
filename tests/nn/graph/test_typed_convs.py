"""HGTConv and HANConv beside torch_geometric's: several types of nodes and edges."""

from typing import Any

import pytest
import torch
from tests.nn.graph.parity import assert_same, features
from torch import Tensor
from torch.testing import assert_close

from regard.nn import HANConv, HGTConv

peer = pytest.importorskip("torch_geometric.nn")

SIZES = {"author": (4, 5), "paper": (6, 8), "venue": (2, 3)}
EDGES = {
    ("author", "writes", "paper"): torch.tensor([[0, 1, 3, 3, 2], [0, 0, 1, 5, 5]]),
    ("paper", "by", "author"): torch.tensor([[0, 0, 1, 5], [0, 1, 3, 3]]),
    ("paper", "cites", "paper"): torch.tensor([[1, 2, 2, 4], [0, 0, 2, 5]]),
    ("venue", "shows", "paper"): torch.tensor([[0, 1, 1], [0, 2, 4]]),
    ("paper", "in", "venue"): torch.zeros(2, 0, dtype=torch.long),
}
METADATA = (list(SIZES), list(EDGES))


def x_dict(leaves: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return dict(zip(SIZES, leaves, strict=True))


def inputs() -> list[Tensor]:
    return [features(*size) for size in SIZES.values()]


def both(kind: type, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return kind(*arguments, **options), getattr(peer, kind.__name__)(*arguments, **options)


WIDTHS = {name: width for name, (_, width) in SIZES.items()}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", [HGTConv, HANConv])
def test_values_and_gradients_are_those_of_torch_geometric(kind: type, heads: int) -> None:
    ours, theirs = both(kind, WIDTHS, 8, METADATA, heads=heads)  # 8 is the width of papers: they have a skip
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "p_rel" in name or "skip" in name:
                parameter.uniform_(0.5, 1.5)
    assert_same(ours, theirs, lambda layer, *x: layer(x_dict(x), EDGES), inputs())


def test_semantic_weights_of_han() -> None:
    ours, theirs = both(HANConv, WIDTHS, 6, METADATA, heads=2)
    call = lambda layer, *x: layer(x_dict(x), EDGES, return_semantic_attention_weights=True)  # noqa: E731
    assert_same(ours, theirs, call, inputs())


def test_a_part_of_the_edge_types() -> None:
    ours, theirs = both(HGTConv, WIDTHS, 6, METADATA, heads=2)
    some = {kind: EDGES[kind] for kind in list(EDGES)[2:4]}
    assert_same(ours, theirs, lambda layer, *x: layer(x_dict(x), some), inputs())


def test_hgt_weights_stand_on_the_edges_of_each_type_and_sum_to_one_over_all() -> None:
    """torch_geometric cannot give them: its explainer collects nothing from HGTConv."""
    layer = HGTConv(WIDTHS, 6, METADATA, heads=2).double()
    _, typed = layer(x_dict(tuple(inputs())), EDGES, return_map=True)
    assert set(typed) == set(EDGES)
    total = torch.zeros(2, 6, dtype=torch.float64)
    for kind, index in EDGES.items():
        assert typed[kind].shape == (2, index.shape[1])
        if kind[-1] == "paper":
            total = total.index_add(1, index[1], typed[kind])
    assert_close(total[:, [0, 1, 2, 4, 5]], torch.ones(2, 5, dtype=torch.float64))
    assert (total[:, 3] == 0).all()


def test_han_gives_the_map_of_each_path_and_the_weights_of_paths() -> None:
    layer = HANConv(WIDTHS, 6, METADATA, heads=2).double()
    _, maps, semantic = layer(x_dict(tuple(inputs())), EDGES, return_map=True)
    index = EDGES["author", "writes", "paper"]
    weights = maps["author", "writes", "paper"].edges()
    assert_close(weights[:, 0] + weights[:, 1], torch.ones(2, dtype=torch.float64))
    assert_close(semantic["paper"].sum(), torch.ones((), dtype=torch.float64))
    assert_close(semantic["author"], torch.ones(1, dtype=torch.float64))
    assert weights.shape[1] == index.shape[1]


def test_one_type_with_identity_metrics_is_scaled_dot_attention_over_edges() -> None:
    from regard import Edges, attend

    index = EDGES["paper", "cites", "paper"]
    layer = HGTConv(8, 6, (["paper"], [("paper", "cites", "paper")])).double()
    with torch.no_grad():
        layer.k_rel.weight.copy_(torch.eye(6).expand(1, 6, 6))
        layer.v_rel.weight.copy_(torch.eye(6).expand(1, 6, 6))
    x = features(6, 8)
    k, q, v = layer.kqv_lin({"paper": x})["paper"].chunk(3, -1)
    mixed = torch.nn.functional.gelu(attend(q, k, v, over=Edges(index)).out)
    assert_close(
        layer({"paper": x}, {("paper", "cites", "paper"): index})["paper"], layer.out_lin({"paper": mixed})["paper"]
    )


def test_widths_may_come_with_the_input() -> None:
    for kind in (HGTConv, HANConv):
        layer = kind(-1, 6, METADATA, heads=2).double()
        assert layer(x_dict(tuple(inputs())), EDGES)["paper"].shape == (6, 6)
