"""Importances of units: by gradients, by maps, each against a second computation."""

import pytest
import torch
from tests.judging.adapters.test_adapter import SENTENCE, SPECIAL, bert, recurrent
from tests.judging.built_models import Bag, Bottleneck
from torch.testing import assert_close

from regard import derived
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.graph_adapter import on_graph
from regard.judging.adapters.inputs import Inputs, Instance
from regard.judging.attribution.gradients import gradient_times_input, integrated_gradients, log_odds
from regard.judging.attribution.importance import IMPORTANCES, importances, uniform


def bag() -> Adapter:
    return Adapter(Bag(), [Instance(torch.tensor([1, 2, 3])), Instance(torch.tensor([4, 1]))])


def odds_without_vectors(adapter: Adapter, inputs: Inputs, said: torch.Tensor) -> torch.Tensor:
    """The log-odds when the vectors of units are 0."""
    hook = adapter.vectors[0].register_forward_hook(lambda module, given, out: out * ~inputs.units[..., None])
    with torch.no_grad():
        found = log_odds(adapter.logits(inputs), said)
    hook.remove()
    return found


def test_gradient_times_input_of_a_sum_is_each_words_share_with_its_sign():
    adapter = bag()
    found = gradient_times_input(adapter, adapter.inputs([0, 1]))
    # class 1 is predicted of the first text, class 0 of the second
    assert_close(found, torch.tensor([[1.5, -0.5, 0.25], [2.0, -1.5, 0.0]], dtype=torch.float64))
    assert_close(integrated_gradients(adapter, adapter.inputs([0, 1]), steps=1), found)


@pytest.mark.parametrize("make", [bert, recurrent])
def test_integrated_gradients_sum_to_what_the_units_did_to_the_log_odds(make):
    adapter = make()
    inputs = adapter.inputs(range(len(adapter)))
    with torch.no_grad():
        whole = adapter.logits(inputs)
    said = whole.argmax(-1, keepdim=True)
    change = (log_odds(whole) - odds_without_vectors(adapter, inputs, said)).double()
    errors = [
        (integrated_gradients(adapter, inputs, steps).sum(-1) - change).abs().max() / change.abs().max()
        for steps in (1, 4, 40)
    ]
    assert errors[0] > 0.01  # one step is not enough: the path matters
    assert errors[1] < errors[0] and errors[2] < max(errors[1] / 2, 1e-5)
    assert bool((integrated_gradients(adapter, inputs)[~inputs.units] == 0).all())


def by_hand(adapter: Adapter, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Maps of a small BERT from its own eager weights; the row of [CLS]."""
    model = adapter.model
    model.set_attn_implementation("eager")
    kept = []
    selves = [layer.attention.self for layer in model.bert.encoder.layer]
    hooks = [one.value.register_forward_hook(lambda m, x, out: kept.append(out)) for one in selves]
    out = model(inputs.tokens, attention_mask=inputs.real.long(), output_attentions=True)
    for hook in hooks:
        hook.remove()
    weights, values = [w.double() for w in out.attentions], kept
    pulls = [g.double() for g in torch.autograd.grad(log_odds(out.logits).sum(), out.attentions)]
    one = torch.eye(weights[0].shape[-1], dtype=torch.float64)
    mixed = [0.5 * one + 0.5 * w.mean(1) for w in weights]
    last = weights[1]
    split = values[1].double().unflatten(-1, (2, -1)).transpose(1, 2)  # (B, H, n, d_v)
    projection = model.bert.encoder.layer[1].attention.output.dense.weight.double().unflatten(-1, (2, -1))
    handed = torch.einsum("bhij,bhjd,ohd->bijo", last, split, projection)
    related = one
    for w, pull in zip(weights, pulls, strict=True):
        related = related + (w * pull).clamp_min(0).mean(1) @ related
    return {
        "attention": last.mean(1)[:, 0],
        "rollout": (mixed[1] @ mixed[0])[:, 0],
        # two layers: every way from [CLS] to a token has one token in the middle
        "flow": torch.minimum(mixed[1][:, 0, :, None], mixed[0]).sum(1),
        "norms": handed.norm(dim=-1)[:, 0],
        "gradient x attention": (last * pulls[1]).mean(1)[:, 0],
        "relevance": (related - one)[:, 0],
    }


@pytest.mark.parametrize("name", ["attention", "rollout", "flow", "norms", "gradient x attention", "relevance"])
def test_an_importance_by_maps_is_what_eager_weights_give(name):
    adapter = bert()
    inputs = adapter.inputs([0])
    found = IMPORTANCES[name](adapter, inputs)
    assert_close(found, by_hand(adapter, inputs)[name].detach(), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", IMPORTANCES)
def test_an_importance_is_the_same_alone_and_in_a_batch(name):
    adapter = bert()
    together = IMPORTANCES[name](adapter, adapter.inputs([0, 1]))
    alone = IMPORTANCES[name](adapter, adapter.inputs([1]))
    assert_close(together[1, :4], alone[0], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    "selector",
    [
        AttentionSelector(row="mean"),
        AttentionSelector(row=-1),
        AttentionSelector(layer=0),
        AttentionSelector(layer="mean"),
    ],
)
def test_every_importance_reads_what_the_selector_reads(selector):
    had, missing = importances(bert(selector=selector))
    assert list(had) == list(IMPORTANCES) and not missing


def test_flow_from_the_mean_of_rows_is_the_mean_of_their_flows():
    adapter = bert(selector=AttentionSelector(row="mean"))
    inputs = adapter.inputs([0])
    every = derived.flow(list(adapter.maps(inputs).values())).weights()[:, 0]
    assert_close(IMPORTANCES["flow"](adapter, inputs), every.mean(1).double())


def test_a_model_whose_attention_pools_says_what_it_has_not_and_why():
    adapter = Adapter(Bottleneck(), [Instance(torch.tensor([21, 1, 2]))])
    had, missing = importances(adapter)
    assert set(missing) == {"rollout", "flow", "norms", "relevance"}
    assert "expected as many of both" in missing["rollout"]
    assert {"attention", "gradient x attention", "integrated gradients", "leave one out"} <= set(had)
    with pytest.raises(ValueError, match="as many of both"):
        importances(adapter, ["rollout"])
    with pytest.raises(ValueError, match="telepathy"):
        importances(adapter, ["telepathy"])


def test_uniform_is_the_same_for_all_and_graphs_say_what_they_have_not():
    inputs = Inputs.of([Instance(SENTENCE, special=SPECIAL)])
    assert uniform(bag(), inputs)[0].unique().numel() == 1

    from regard.nn import GATConv

    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]])
    had, missing = importances(on_graph(GATConv(4, 2, heads=1), torch.randn(4, 4), edges))
    assert {"attention", "gradient", "leave one out"} <= set(had)
    assert {"rollout", "flow", "norms", "gradient x attention", "relevance", "integrated gradients"} <= set(missing)
    assert "edges" in missing["rollout"]
