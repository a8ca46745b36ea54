"""What a judge needs of a model: predictions, weights, and what is left when units are gone."""

from dataclasses import replace

import pytest
import torch
from tests import small_models
from tests.judging.built_models import Bottleneck, Leaky, built, texts
from torch import nn
from torch.testing import assert_close

from regard.data.batch import Example
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Inputs, Instance
from regard.judging.attribution.gradients import gradient
from regard.judging.attribution.importance import leave_one_out
from regard.models.builders import text_classifier

SENTENCE = torch.tensor([2, 4, 5, 6, 7, 3])  # [CLS] a cat sat script [SEP]
SPECIAL = torch.tensor([True, False, False, False, False, True])


def bert(**options):
    model = small_models.model("BertForSequenceClassification")
    some = [Instance(SENTENCE, 0, SPECIAL), Instance(SENTENCE[[0, 2, 3, 5]], 1, SPECIAL[[0, 2, 3, 5]])]
    return Adapter(model, some, **options)


def recurrent():
    torch.manual_seed(3)
    model = text_classifier(20, 2, dim=8, width=6, dropout=0.5)
    return Adapter(model, [Example(torch.randint(1, 20, (n,)), torch.tensor(n % 2)) for n in (5, 9, 4)])


def test_deleted_units_are_gone_and_the_rest_moves_up():
    inputs = Inputs.of([Instance(SENTENCE, special=SPECIAL), Instance(SENTENCE[:4])])
    gone = torch.zeros(2, 6, dtype=torch.bool)
    gone[0, [0, 2]] = gone[1, 1] = True  # [CLS] is special and stays
    left = inputs.without(gone)
    assert left.tokens.tolist() == [[2, 4, 6, 7, 3], [2, 5, 6, 0, 0]]
    assert left.real.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert left.special.tolist() == [[True, False, False, False, True], [False] * 5]
    assert left.origin[0].tolist() == [0, 1, 3, 4, 5]


def test_masked_and_blanked_units_leave_the_others_in_their_places():
    inputs, gone = Inputs.of([Instance(SENTENCE)]), torch.arange(6)[None] == 3
    masked, blank = inputs.without(gone, "mask"), inputs.without(gone, "blank", 13)
    assert torch.equal(masked.tokens, inputs.tokens)
    assert torch.equal(masked.real, ~gone)
    assert blank.tokens[0, 3] == 13
    assert bool(blank.real.all())


@pytest.mark.parametrize("removal", ["delete", "mask"])
def test_texts_of_which_units_are_gone_are_run_as_short_as_they_are(removal):
    widths = []
    adapter = bert(removal=removal, size=1)
    plain = adapter.forward
    adapter.forward = lambda model, inputs: (widths.append(inputs.tokens.shape[1]), plain(model, inputs))[1]
    inputs = adapter.inputs([1, 0])  # of 4 and 6 tokens
    gone = torch.zeros_like(inputs.real)
    gone[0, 1] = gone[1, 2] = True
    inputs = replace(inputs, special=torch.zeros_like(gone))
    gone[0, 3] = True  # a hole at the end is a hole
    found = adapter.predict_without(inputs, gone)
    assert widths == ([5, 2] if removal == "delete" else [6, 4])
    for item, long in ((0, 4), (1, 6)):
        alone = inputs.chosen(torch.tensor([item])).cut(long)
        assert_close(found[item], adapter.predict_without(alone, gone[item : item + 1, :long])[0])


@pytest.mark.parametrize("make", [recurrent, bert])
def test_a_batch_says_what_each_item_says_alone(make):
    adapter = make()
    together = torch.stack(adapter.each(lambda inputs: list(adapter.predict(inputs))))
    alone = torch.cat([adapter.predict(adapter.inputs([place])) for place in range(len(adapter))])
    assert_close(together, alone, atol=1e-6, rtol=1e-5)
    weights = adapter.each(lambda inputs: list(adapter.attention(inputs)))
    for place, one in enumerate(weights):
        n = len(adapter.instances[place].tokens)
        assert_close(one[:n], adapter.attention(adapter.inputs([place]))[0], atol=1e-6, rtol=1e-5)
        assert not one[n:].any()


def test_the_model_is_judged_without_dropout_and_left_in_training():
    adapter = recurrent()
    adapter.model.train()
    inputs = adapter.inputs([0, 1])
    assert torch.equal(adapter.predict(inputs), adapter.predict(inputs))
    assert all(module.training for module in adapter.model.modules())


def test_the_first_row_of_the_last_layer_is_read_unless_told():
    adapter = bert()
    inputs = adapter.inputs([0])
    maps = adapter.maps(inputs)
    last, first = (maps[adapter.sites[at]].weights()[0].mean(0).double() for at in (-1, 0))
    assert len(adapter.sites) == 2
    assert_close(adapter.attention(inputs)[0], last[0])
    for selector, expected in (
        (AttentionSelector(layer=0), first[0]),
        (AttentionSelector(layer=0, row=-1), first[-1]),
        (AttentionSelector(layer="mean"), (first[0] + last[0]) / 2),
        (AttentionSelector(row="mean"), last.mean(0)),
    ):
        adapter.selector = selector
        assert_close(adapter.attention(inputs)[0], expected, atol=1e-6, rtol=1e-5)


def test_rollout_is_the_product_of_the_layers_with_half_of_the_stream():
    adapter = bert(selector=AttentionSelector(layer="rollout"))
    inputs = adapter.inputs([0])
    one, two = (m.weights()[0].mean(0).double() / 2 + torch.eye(6) / 2 for m in adapter.maps(inputs).values())
    assert_close(adapter.attention(inputs)[0], (two @ one)[0], atol=1e-6, rtol=1e-5)


def test_the_row_of_the_last_token_is_that_of_each_text():
    adapter = bert(selector=AttentionSelector(row=-1))
    inputs = adapter.inputs([0, 1])
    weights = adapter.maps(inputs)[adapter.sites[-1]].weights().mean(1).double()
    assert_close(adapter.attention(inputs), torch.stack([weights[0, 5], weights[1, 3]]))


def test_one_logit_is_that_of_the_second_class():
    model, some, _ = built("bottleneck")
    adapter = Adapter(model, some[:3])
    inputs = adapter.inputs([0, 1, 2])
    assert_close(adapter.predict(inputs)[:, 1], model(inputs.tokens, inputs.real).detach().double().sigmoid())


def test_gradients_are_the_slope_of_the_log_odds_along_the_vector():
    adapter = Adapter(Leaky().double(), texts(4)[0])
    inputs = adapter.inputs([0])
    found = gradient(adapter, inputs)[0]
    table, step = adapter.model.vectors.weight, 1e-6
    with torch.no_grad():  # no word stands twice in a text; what is looked at is fixed in both
        weights = adapter.maps(inputs)["attention"].weights()[0, 0, 0]
        for place, word in enumerate(inputs.tokens[0].tolist()):
            told = float(table[word, 0])
            after = float(weights[place + 1]) if place + 1 < len(weights) else 0.0
            assert_close(float(found[place]), abs(told * after), atol=step, rtol=1e-6)


def test_leaving_a_unit_out_is_running_the_text_without_it():
    adapter = recurrent()
    inputs = adapter.inputs([0, 2])
    found = leave_one_out(adapter, inputs)
    whole = adapter.predict(inputs)
    for item, n in ((0, 5), (1, 4)):
        for place in range(n):
            tokens = inputs.tokens[item, :n]
            rest = Inputs.of([Instance(torch.cat([tokens[:place], tokens[place + 1 :]]))])
            assert_close(
                found[item, place], (adapter.predict(rest)[0] - whole[item]).abs().sum() / 2, atol=1e-6, rtol=1e-4
            )
    assert not found[1, 4:].any()


def test_a_text_of_which_nothing_is_left_is_undefined():
    adapter = Adapter(Bottleneck(), [Instance(torch.tensor([21])), Instance(torch.tensor([1, 21]))])
    inputs = adapter.inputs([0, 1])
    found = adapter.predict_without(inputs, torch.tensor([[True, False], [True, False]]))
    assert bool(found[0].isnan().all())
    assert bool(found[1].isfinite().all())
    assert bool(adapter.predict_without(inputs, inputs.real).isnan().all())


class Strange(nn.Module):
    def forward(self, tokens, real):
        return {"scores": tokens}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Adapter(Bottleneck(), []), "at least one"),
        (lambda: Adapter(Bottleneck(), [Instance(SENTENCE)], removal="hide"), "'delete', 'mask', 'blank'"),
        (lambda: Adapter(Bottleneck(), [Instance(SENTENCE)], removal="blank"), "a blank is given"),
        (lambda: Adapter(text_classifier(9, 2), [Instance(SENTENCE)], removal="mask"), "no holes"),
        (lambda: Instance(SENTENCE.float()), "whole numbers"),
        (lambda: Instance(SENTENCE, special=SPECIAL[1:]), "special"),
        (lambda: AttentionSelector(layer="first"), "rollout"),
        (lambda: AttentionSelector(row=7), "the first token"),
        (
            lambda: Adapter(Bottleneck(), [Instance(SENTENCE)], selector=AttentionSelector(layer=3)).judged,
            "expected -1 to 0",
        ),
        (lambda: Adapter(Strange(), [Instance(SENTENCE)]).predict(Inputs.of([Instance(SENTENCE)])), "forward="),
    ],
)
def test_errors_name_what_to_do(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
