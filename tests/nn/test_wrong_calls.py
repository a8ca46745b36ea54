"""One argument of a layer or of its call made wrong at random: a sentence that names it, or finite numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.wrong_calls import Call, everything, verdict
from torch import Tensor, nn

import regard.nn as layers
from regard.core.structures import Causal

X, E = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2, 3], [1, 2, 0, 3]])
TYPES = (["a"], [("a", "to", "a")])
TYPED = {"x_dict": {"a": X}, "edge_index_dict": {("a", "to", "a"): E}}
ATTR, KINDS, BATCH = torch.ones(4, 2), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 0, 1, 1, 1])
GRAPH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # how a layer is built, and how it is called
    "GATConv": ({"in_channels": 4, "out_channels": 3, "edge_dim": 2}, {"x": X, "edge_index": E, "edge_attr": ATTR}),
    "GATv2Conv": ({"in_channels": 4, "out_channels": 3, "edge_dim": 2}, {"x": X, "edge_index": E, "edge_attr": ATTR}),
    "TransformerConv": (
        {"in_channels": 4, "out_channels": 3, "edge_dim": 2},
        {"x": X, "edge_index": E, "edge_attr": ATTR},
    ),
    "AGNNConv": ({}, {"x": X, "edge_index": E}),
    "SuperGATConv": ({"in_channels": 4, "out_channels": 3}, {"x": X, "edge_index": E}),
    "RGATConv": (
        {"in_channels": 4, "out_channels": 3, "num_relations": 2},
        {"x": X, "edge_index": E, "edge_type": KINDS},
    ),
    "HGTConv": ({"in_channels": 4, "out_channels": 4, "metadata": TYPES}, TYPED),
    "HANConv": ({"in_channels": 4, "out_channels": 4, "metadata": TYPES}, TYPED),
    "EdgeGATConv": (
        {"in_channels": 4, "edge_dim": 2, "out_channels": 3, "out_edge_channels": 3},
        {"x": X, "edge_index": E, "edge_attr": ATTR},
    ),
    "GraphTransformerConv": ({"channels": 4, "heads": 2, "edge_dim": 2}, {"x": X, "edge_index": E, "edge_attr": ATTR}),
    "SimpleHGNConv": (
        {"in_channels": 4, "out_channels": 3, "num_relations": 2},
        {"x": X, "edge_index": E, "edge_type": KINDS},
    ),
    "WalkAttention": ({"length": 3}, {"x": X, "edge_index": E}),
    "GraphConv": ({"in_channels": 4, "out_channels": 3}, {"x": X, "edge_index": E}),
    "SAGPooling": ({"in_channels": 4}, {"x": X, "edge_index": E}),
    "AttentionalAggregation": ({"gate_nn": nn.Linear(4, 1)}, {"x": X, "index": BATCH}),
    "GatedReadout": ({"in_channels": 4, "out_channels": 3}, {"h": X, "batch": BATCH}),
    "GlobalNode": ({"channels": 4}, {"x": X, "edge_index": E, "batch": BATCH}),
    "GraphormerAttention": ({"dim": 4, "heads": 2}, {"x": X, "distance": layers.shortest_paths(E, 6)[0]}),
}
ROWS, IMAGE = X[None], torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
PAIR = {"first": ROWS, "second": ROWS}
DENSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Attention": ({"dim": 4, "heads": 2}, {"query": ROWS}),
    "Attend": ({"d_q": 4, "d_k": 4}, {"query": ROWS, "keys": ROWS}),
    "SelfAttention": ({"dim": 4, "heads": 2}, {"features": ROWS}),
    "AttentionPooling": ({"dim": 4}, {"features": ROWS}),
    "MultiHopAttention": ({"dim": 4}, {"query": ROWS, "features": ROWS}),
    "CapsuleAttention": ({"dim": 4, "classes": 3}, {"features": ROWS}),
    "StructuredSelfAttention": ({"dim": 4, "rows": 2}, {"features": ROWS}),
    "DirectionalSelfAttention": ({"dim": 4}, {"features": ROWS}),
    "DiSAN": ({"dim": 4}, {"features": ROWS}),
    "ReinforcedSelfAttention": ({"dim": 4}, {"features": ROWS}),
    "AlternatingCoAttention": ({"first_dim": 4}, PAIR),
    "InteractiveCoAttention": ({"first_dim": 4}, PAIR),
    "ParallelCoAttention": ({"first_dim": 4}, PAIR),
    "AttentionFlow": ({"dim": 4}, PAIR),
    "MultiGrainedCoAttention": ({"dim": 4}, PAIR),
    "RotatoryAttention": ({"target_dim": 4}, {"target": ROWS, "left": ROWS, "right": ROWS}),
    "AttentionViaAttention": ({"dim": 4, "word_dim": 4, "char_dim": 4}, {"query": ROWS, "words": ROWS, "chars": ROWS}),
    "ExternalAttention": ({"dim": 4, "slots": 3}, {"features": ROWS}),
    "AttentionFree": ({"dim": 4, "length": 6}, {"features": ROWS}),
    "NonLocalBlock": ({"channels": 4}, {"x": IMAGE}),
    "SqueezeExcitation": ({"channels": 4}, {"x": IMAGE}),
    "EfficientChannelAttention": ({"channels": 4}, {"x": IMAGE}),
    "ConvolutionalBlockAttention": ({"channels": 4, "kernel": 3}, {"x": IMAGE}),
    "ChannelAttention": ({"channels": 4}, {"x": IMAGE}),
    "DualAttention": ({"channels": 4}, {"x": IMAGE}),
    "DoubleAttention": ({"channels": 4}, {"x": IMAGE}),
    "SpatialAttention": ({"dim": 4}, {"video": torch.ones(1, 2, 3, 4)}),
    "TemporalAttention": ({"dim": 4}, {"video": torch.ones(1, 2, 3, 4)}),
}


def result(found: Any) -> list[Tensor]:
    """What is finite where nothing went wrong: outputs, and gradients with respect to features."""
    return tensors(getattr(found, "out", found))


def tensors(found: Any) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found] if found.is_floating_point() else []
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, (tuple, list)) else ()
    return [x for part in parts for x in tensors(part)]


def calls() -> list[Call]:
    made = []
    for name, (sizes, inputs) in {**GRAPH, **DENSE}.items():
        kind: Callable[..., nn.Module] = getattr(layers, name)

        def used(layer: nn.Module, inputs: dict[str, Any] = inputs) -> list[Tensor]:
            layer.to(torch.float32)  # a dtype of one's own is no mistake
            return result(layer.train()(**inputs)) + result(layer.eval()(**inputs))

        made += [Call(name, kind, sizes, used), Call(f"{name}()", kind(**sizes).forward, inputs, result)]
    made.append(
        Call(
            "Attention() with a cache",
            layers.Attention(4, 2).forward,
            {"query": ROWS, "over": Causal(align="end"), "cache": layers.Cache()},
            result,
        )
    )
    return made


CALLS = [
    x for x in everything(calls()) if x[1:] not in (("GNN", "a class"), ("nonlinearity", "a class"))
]  # which they take


@settings(max_examples=400)
@given(st.sampled_from(CALLS))
def test_an_argument_made_wrong_is_told_by_name_or_gives_finite_numbers(drawn: tuple[Call, str, str]) -> None:
    call, argument, value = drawn
    assert (wrong := verdict(call, argument, value)) is None, f"{call.name}({argument}={value}): {wrong}"


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
def test_the_call_is_right_before_an_argument_is_made_wrong(call: Call) -> None:
    call.use(call.function(**call.good))
