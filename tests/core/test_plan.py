"""The plan: what attend would do and why, for people."""

import re

import pytest
import torch
from tests.core.mechanisms import Own, built, inputs, product

from regard import Causal, Dot, Edges, Padding, Refused, ScaledDot, SoftCap, Window, attend, plan
from regard.core.registry import backends


def test_a_plan_prints_shape_score_alignment_structure_backend_refusals_and_cost() -> None:
    q, k, v = inputs(n=3, m=5)
    text = str(plan(q, k, v, "additive", "sparsemax", Padding(torch.tensor([5, 3]))))
    for line in (
        "shape      batch 2, heads 2, queries 3, keys 5, width 4, value width 4, float64",
        "score      Additive -> pair tanh(a + b) (width 4, 1 out)",
        "alignment  Sparsemax",
        "structure  Padding(lengths=(2,))",
        "backend    chunked",
        "  not sdpa: Its alignment is softmax; this is Sparsemax.",
        "  not linear: It runs scores with a feature map, such as linear_kernel: other scores do not factorise.",
        "cost       60 pairs, 960 operations",
    ):
        assert line in text


@pytest.mark.parametrize("score", ["gaussian", "trilinear"])
def test_a_score_with_a_part_of_the_key_is_dot_and_key_bias_on_sdpa(score: str) -> None:
    made = plan(*inputs(), score)
    assert made.backend == "sdpa"
    assert re.search(r"-> dot\(width 4, scale 1\) \+ a bias for each key \(fp32\)\n", str(made))


@pytest.mark.parametrize("score", ["cosine", "general", "biased_general", "content", "location", "scaled_dot"])
def test_bilinear_cosine_and_location_scores_are_dot_on_sdpa(score: str) -> None:
    made = plan(*inputs(), built(score))
    assert made.backend == "sdpa"
    line = next(line for line in str(made).splitlines() if line.startswith("score"))
    assert "-> dot(width 4" in line and "bias" not in line


def test_sigmoid_keeps_the_constant_of_a_row_and_softmax_drops_it() -> None:
    q, k, v = inputs()
    assert "+ a constant for each row" in str(plan(q, k, v, "gaussian", "sigmoid"))
    assert "constant" not in str(plan(q, k, v, "gaussian", "softmax"))
    assert "+ a constant for each row" in str(plan(q, k, v, built("gaussian") | SoftCap(2.0)))


def test_a_score_of_ones_own_is_called_that() -> None:
    made = plan(*inputs(), Own().double())
    assert "own score Own" in str(made)
    assert made.backend == "chunked"


def test_modifiers_sinks_bells_and_edges_are_named() -> None:
    q, k, v = inputs()
    text = str(plan(q, k, v, built("sink") | SoftCap(2.0), "local_predictive", Edges(torch.tensor([[0], [1]]))))
    assert "| SoftCap | Sink" in text
    assert "LocalPredictive times a bell" in text
    assert "Edges(1 edges)" in text


@pytest.mark.covered(4)
@pytest.mark.parametrize(("score", "align"), product())
def test_a_plan_names_the_backend_that_attend_takes_and_each_other_runs_or_says_why(score: str, align: str) -> None:
    q, k, v = (x.detach() for x in inputs())
    made = built(score), built(align)
    planned = plan(q, k, v, *made)
    assert planned.backend == next(name for name, reasons in planned.refusals.items() if not reasons)
    for name, reasons in planned.refusals.items():
        if reasons:
            assert all(r.endswith(".") and r[0].isupper() for r in reasons)
            with pytest.raises(Refused, match=re.escape(reasons[0])):
                attend(q, k, v, *made, backend=name)
        else:
            attend(q, k, v, *made, backend=name)
    assert planned.backend in str(planned)


def test_refusals_are_sentences_for_every_reason_at_once() -> None:
    q, k, v = inputs(n=5)
    reasons = plan(q, k, v, align="sparsemax", over=Window(1, 1), dropout=0.5, seed=1).refusals["sdpa"]
    assert len(reasons) == 3
    with pytest.raises(Refused) as caught:
        attend(q, k, v, align="sparsemax", over=Window(1, 1), dropout=0.5, seed=1, backend="sdpa")
    assert all(reason in str(caught.value) for reason in reasons)
    assert 'backend="auto" picks one that does' in str(caught.value)


def test_no_backend_at_all_is_an_error_with_the_reasons_of_each() -> None:
    q, k, v = inputs()
    with pytest.raises(Refused, match="No backend runs this attention") as caught:
        attend(q, k, v, built("location_aware"), "monotonic")
    for backend in backends():
        assert f"{backend.name}:" in str(caught.value)


def test_stepwise_mechanisms_with_edges_or_a_sink_are_refused_in_words() -> None:
    q, k, v = inputs(n=5)
    with pytest.raises(Refused, match="needs ordered keys, which edges do not"):
        attend(q, k, v, align="monotonic", over=Edges(torch.tensor([[0], [1]])), backend="reference")
    with pytest.raises(Refused, match="a sink has no position among them"):
        attend(q, k, v, built("sink"), "monotonic", backend="reference")
    with pytest.raises(Refused, match="needs each row before the next"):
        attend(q, k, v, align="monotonic", backend="chunked")


def test_planning_runs_nothing_and_causal_decoding_of_one_row_is_plain() -> None:
    q, k, v = inputs(n=1)
    assert plan(q, k, v, over=Causal("end")).backend == "sdpa"
    meta = [x.to("meta") for x in (q, k, v)]
    assert plan(*meta, Dot()).backend == "sdpa"
    assert "dot(width 4, scale 0.5)" in str(plan(*meta, ScaledDot()))
