"""One argument of a right call made wrong at random: a sentence that names it or finite numbers, nothing else."""

import inspect
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.mechanisms import HEADS, WIDTH, inputs
from tests.core.wrong_calls import Call, everything, verdict

from regard import alignments, attend, plan, scores
from regard.core.structures import Causal, Mask, Padding, Segments, Window
from regard.core.structures.edges import Edges

Q, K, V = (x.detach() for x in inputs(n=5, m=5))
SIZED = {
    "d_q": WIDTH,
    "d_k": WIDTH,
    "d": WIDTH,
    "heads": HEADS,
    "length": 9,
    "k": 2,
    "window": 2,
    "reach": 2,
    "cap": 3.0,
    "bound": 2.0,
    "bias": torch.ones(HEADS, 5, 5, dtype=torch.float64),
}


def score_used(made: Any) -> Any:
    if isinstance(made, scores.Modifier):
        edges = Edges(torch.tensor([[0, 1, 2], [1, 2, 2]])) if isinstance(made, scores.EdgeBias) else None
        return run(scores.ScaledDot() | made.double(), over=edges)
    return made(Q) if isinstance(made, scores.Rotary) else run(made.double())


def run(score: Any = "scaled_dot", align: Any = "softmax", over: Any = None) -> Any:
    """The output and every gradient, in fp64 and in fp32, wherever it runs by itself."""
    found = []
    for dtype in (torch.float64, torch.float32):
        q, k, v = (x.to(dtype).requires_grad_() for x in (Q, K, V))
        out = attend(q, k, v, score, align, over).out
        found += [out, *torch.autograd.grad(out.sum(), (q, k, v), allow_unused=True)]
    return found


def needed(cls: type) -> dict[str, Any]:
    return {
        name: SIZED[name]
        for name, p in inspect.signature(cls).parameters.items()
        if p.default is p.empty and p.kind not in (2, 4)
    }


def calls() -> list[Call]:
    made = [
        Call("attend", attend, {"q": Q, "k": K, "v": V, "dropout": 0.1}, lambda found: found.out),
        Call("plan", plan, {"q": Q, "k": K, "v": V}, str),
    ]
    for name in (
        "Additive",
        "General",
        "BiasedGeneral",
        "ActivatedGeneral",
        "Content",
        "Cosine",
        "Dot",
        "GAT",
        "GATv2",
        "Gaussian",
        "Laplace",
        "LearnedQuery",
        "LinearKernel",
        "Location",
        "LocationAware",
        "QueryFree",
        "Rotary",
        "ScaledDot",
        "Trilinear",
        "ALiBi",
        "Activation",
        "Clamp",
        "PairBias",
        "EdgeBias",
        "RelativeBias",
        "Sink",
        "SoftCap",
    ):
        cls = getattr(scores, name)
        good = {
            "ALiBi": {"heads": HEADS},
            "Activation": {"name": "tanh"},
            "EdgeBias": {"bias": torch.ones(HEADS, 3, dtype=torch.float64)},
        }.get(name)
        made.append(Call(name, cls, needed(cls) if good is None else good, score_used))
        if name in ("Additive", "General", "BiasedGeneral", "ActivatedGeneral", "QueryFree", "Content"):
            sized = {"d_k": WIDTH} if name == "QueryFree" else {"d_q": WIDTH}
            made.append(Call(f"{name}, sized", cls, {**sized, "heads": HEADS}, score_used))
    for name in (
        "Entmax",
        "Gumbel",
        "Hard",
        "Local",
        "LocalPredictive",
        "Monotonic",
        "ReLU",
        "Reinforced",
        "Sigmoid",
        "Softmax",
        "Sparsemax",
        "TopK",
        "Uniform",
    ):
        cls = getattr(alignments, name)
        made.append(Call(name, cls, needed(cls), lambda found: run(align=found.double())))
    index, ids = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.zeros(5, dtype=torch.long)
    for cls, good in (
        (Causal, {}),
        (Window, {"left": 1, "right": 1}),
        (Padding, {"lengths": torch.tensor([3, 4])}),
        (Mask, {"keep": torch.ones(5, 5, dtype=torch.bool)}),
        (Segments, {"ids": ids}),
    ):
        made.append(Call(cls.__name__, cls, good, lambda found: run(over=found)))

    def edges(
        edge_index: Any,
        size: Any = None,
        self_loops: bool = False,
        key: Any = None,
        value: Any = None,
        join: str = "add",
    ) -> Edges:
        return Edges(edge_index, size, self_loops, key, value, join)

    made.append(Call("Edges", edges, {"edge_index": index}, lambda found: run(over=found)))
    return made


CALLS = list(everything(calls()))


@settings(max_examples=400)
@given(st.sampled_from(CALLS))
def test_an_argument_made_wrong_is_told_by_name_or_gives_finite_numbers(drawn: tuple[Call, str, str]) -> None:
    call, argument, value = drawn
    assert (wrong := verdict(call, argument, value)) is None, f"{call.name}({argument}={value}): {wrong}"


@pytest.mark.parametrize("call", calls(), ids=lambda call: call.name)
def test_the_call_is_right_before_an_argument_is_made_wrong(call: Call) -> None:
    call.use(call.function(**call.good))
