"""What a head does with what it sees: by gradients, and straight into the logit."""

import pytest
import torch

import regard
from regard.interventions import KnockOut, Shift

transformers = pytest.importorskip("transformers")
from tests.tiny_transformers import inputs_of, tiny_model  # noqa: E402


def recorded(kind):
    model = tiny_model(kind, auto=transformers.AutoModelForCausalLM)
    inputs = inputs_of(model)
    with torch.no_grad(), regard.record(model) as rec:
        model(**inputs)
    return rec, model, inputs


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gpt_neox"])
def test_the_logit_is_the_sum_of_what_was_written_into_it(kind):
    rec, model, inputs = recorded(kind)
    found = regard.why(rec, list(rec.maps)[1], 1, 7, 3).effect(target=5, position=7)
    with torch.no_grad():
        logit = float(model(**inputs).logits[0, 7, 5])
    assert sum(value for _, value in found.direct) == pytest.approx(logit, abs=1e-4)
    last = regard.why(rec, list(rec.maps)[-1], 1, 7, 3)
    assert {w.label for w, _ in last.effect(target=5, position=7).direct} >= {"head 1.1", "MLP 1", "embedding"}


def test_the_effect_of_a_weight_is_the_slope_of_the_target():
    rec, model, inputs = recorded("llama")
    site, head, i, j = next(iter(rec.maps)), 2, 6, 3
    found = regard.why(rec, site, head, i, j).effect(target=5, position=9)
    weights = rec.maps[site].weights()

    def logit(scale):
        changed = weights.clone()
        changed[0, head, i, j] *= scale
        with torch.no_grad(), regard.intervene(model, {site: regard.interventions.Replace(changed)}):
            return float(model(**inputs).logits[0, 9, 5].double())

    step = 0.05
    assert found.value == pytest.approx((logit(1 + step) - logit(1 - step)) / (2 * step), rel=0.02, abs=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_writers_of_a_value_sum_to_the_effect_of_its_weight(kind):
    rec, _, _ = recorded(kind)
    site = list(rec.maps)[1]
    one = regard.why(rec, site, 1, 7, 3).effect(target=5, position=7)
    assert sum(x for _, x in one.values) == pytest.approx(one.value, rel=1e-4, abs=1e-7)
    assert {w.label for w, _ in one.values} >= {"head 0.0", "embedding", "MLP 0"}
    row = regard.why(rec, site, 1, 7).effect(target=5, position=7)
    assert sum(x for _, x in row.values) == pytest.approx(float(row.by_key.sum()), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_direction_that_is_a_row_of_the_unembedding_is_that_logit(kind):
    rec, model, _ = recorded(kind)
    one = regard.why(rec, list(rec.maps)[1], 1, 7, 3)
    logit = one.effect(target=5, position=7)
    along = one.effect(target=model.get_output_embeddings().weight[5].detach(), position=7)
    assert along.value == pytest.approx(logit.value, rel=1e-4)
    assert along.own == pytest.approx(logit.own, rel=1e-4) and "the direction" in str(along)
    with pytest.raises(ValueError, match="the model's last hidden state has width"):
        one.effect(target=torch.ones(3))


def test_a_shift_changes_the_row_of_one_head_alone():
    rec, model, inputs = recorded("llama")
    site, width = list(rec.maps)[1], 8
    with (
        torch.no_grad(),
        regard.record(model) as changed,
        regard.intervene(
            model, {site: Shift(query={(0, 1, 5): torch.ones(width)}, key={(1, 2, 3): torch.ones(width)})}
        ),
    ):
        model(**inputs)
    moved = (changed.maps[site].weights() - rec.maps[site].weights()).abs().amax(-1)
    rows = {(b, h, i) for b, h, i in moved.gt(1e-6).nonzero().tolist()}
    assert (0, 1, 5) in rows and rows - {(0, 1, 5)} <= {(1, 2, i) for i in range(3, 12)}
    with (
        pytest.raises(ValueError, match=r"width 8"),
        regard.intervene(model, {site: Shift(query={(0, 1, 5): torch.ones(3)})}),
    ):
        model(**inputs)
    with pytest.raises(ValueError, match=r"item, head, token"):
        Shift(query={(0, 1): torch.ones(3)})


def test_scores_that_are_not_known_refuse_a_shift():
    rec, model, inputs = recorded("llama")
    site = next(iter(rec.maps))
    both = [KnockOut([(3, 1)], renormalise=False), Shift(query={(0, 0, 3): torch.ones(8)})]
    with pytest.raises(TypeError, match=r"use Replace\(weights\)"), regard.intervene(model, {site: both}):
        model(**inputs)
