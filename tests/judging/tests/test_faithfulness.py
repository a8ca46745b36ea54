"""Erasure: what is lost without the units of largest weight, and what is kept with them alone."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.built_models import Bottleneck, built

from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.attribution.importance import IMPORTANCES, attention, chance, uniform
from regard.judging.tests.faithfulness import (
    BINS,
    erased,
    erased_by,
    faithfulness,
    faithfulness_of_all,
    predict_each,
    ranked,
    sizes,
)


def by_hand(model, tokens: torch.Tensor, special: torch.Tensor) -> tuple[float, float]:
    """Comprehensiveness and sufficiency of one text, sentence by sentence."""

    def p(keep: list[int]) -> float:
        some = tokens[sorted(keep)][None]
        logit = float(model(some, torch.ones_like(some, dtype=torch.bool)).detach())
        return 1 / (1 + math.exp(-logit))

    everything = list(range(len(tokens)))
    units = [i for i in everything if not special[i]]
    best = sorted(units, key=lambda i: -float(model.vectors.weight[tokens[i], 1].detach()))
    sure = p(everything) > 0.5
    comprehensive, sufficient = [], []
    for k in {max(1, math.ceil(share * len(units) - 1e-9)) for share in BINS}:
        gone = set(best[:k])
        for found, keep in (
            (comprehensive, [i for i in everything if i not in gone]),
            (sufficient, [i for i in everything if i in gone or special[i]]),
        ):
            found.append((p(everything) - p(keep)) * (1 if sure else -1))
    return float(np.mean(comprehensive)), float(np.mean(sufficient))


def test_comprehensiveness_and_sufficiency_are_what_a_hand_computes():
    model, some, _ = built("bottleneck")
    some = [Instance(one.tokens, one.label, torch.arange(len(one.tokens)) == 0) for one in some[:8]]
    found = erased(Adapter(model, some, size=3), attention)
    expected = np.array([by_hand(model, one.tokens, one.special) for one in some])
    assert_allclose(found[:, :2], expected, atol=1e-6)
    assert (expected[:, 0] - expected[:, 1] > 0.2).all()  # the two are not the same number


def test_bins_are_rounded_up_erase_at_least_one_and_count_once():
    assert sizes(100) == [1, 5, 10, 20, 50]
    assert sizes(30) == [1, 2, 3, 6, 15]
    assert sizes(100, (0.07,)) == [7]  # 0.07 * 100 is a little more than 7
    assert sizes(8) == [1, 2, 4]
    assert sizes(1) == [1]
    assert sizes(0) == []


def test_the_share_of_units_to_flip_is_found_by_removing_one_after_the_other():
    model = Bottleneck()
    # the evidence is for class 1, everything else against it: without it the decision flips
    flips, never = torch.tensor([21, 2, 4, 6]), torch.tensor([21, 1, 3, 5])
    found = erased(Adapter(model, [Instance(flips), Instance(never)]), attention)
    assert found[0, 2:].tolist() == [0.25, 1.0]
    assert found[1, 2:].tolist() == [1.0, 0.0]


def test_ranks_begin_at_the_largest_and_leave_out_what_is_no_unit():
    scores = torch.tensor([[0.2, 0.9, 0.5, 0.7], [0.1, float("nan"), 0.3, 0.2]])
    units = torch.tensor([[True, False, True, True], [True, True, True, False]])
    assert ranked(scores, units, torch.Generator()).tolist() == [[2, 3, 1, 0], [1, 2, 0, 3]]


def test_equal_scores_are_ranked_in_a_drawn_order():
    order = ranked(torch.zeros(400, 3), torch.ones(400, 3, dtype=torch.bool), torch.Generator().manual_seed(0))
    assert_allclose((order == 0).double().mean(0), 1 / 3, atol=0.1)


def test_one_unit_alone_is_undefined():
    model = Bottleneck()
    found = faithfulness(Adapter(model, [Instance(torch.tensor([21])), Instance(torch.tensor([21, 1, 2]))]))
    assert found[0].n == 1
    assert found[0].undefined == 1


def test_random_and_gradient_stand_beside_and_a_seed_gives_the_same_bits():
    model, some, _ = built("decorative")
    one, two = (faithfulness(Adapter(model, some[:6]), seed=4) for _ in range(2))
    assert one == two
    assert all(
        set(found.baselines) == {"gradient", "position", "random"} and found.interval is not None for found in one
    )
    assert [found.better for found in one] == ["higher", "lower", "lower", "higher"]


def test_measures_that_share_their_runs_get_what_each_gets_alone():
    model, some, _ = built("shortcut")
    adapter = Adapter(model, some[:10], size=4)
    measures = {name: IMPORTANCES[name] for name in ("attention", "gradient x input", "integrated gradients")}
    together = erased_by(adapter, measures, seed=3)
    assert set(together) == {*measures, "random"}
    for name, measure in measures.items():
        assert_allclose(together[name], erased(adapter, measure, seed=3), atol=1e-7)
    without = erased_by(adapter, measures, seed=3, flips=False)
    for name in together:
        assert_allclose(without[name][..., :2], together[name][..., :2], atol=1e-7)
        assert np.isnan(without[name][..., 2:]).all()
    drawn = [erased(adapter, chance(4 + draw), seed=3) for draw in range(10)]
    assert_allclose(together["random"], drawn, atol=1e-7)


def test_equal_weights_are_erased_in_every_order_alike():
    model, some, _ = built("shortcut")
    adapter = Adapter(model, some[:30])
    even = np.mean([erased(adapter, uniform, seed=seed)[:, 0].mean() for seed in range(5)])
    random = erased_by(adapter, {}, seed=9, draws=40, flips=False)["random"][..., 0]
    spread = random.mean(1).std(ddof=1) / np.sqrt(25)  # 5 seeds of 5 orders
    assert abs(even - random.mean()) < 4 * spread


def test_what_is_asked_for_twice_is_run_once():
    model, ran = Bottleneck(), []
    adapter = Adapter(
        model,
        [Instance(torch.tensor([21, 1, 2]))],
        forward=lambda model, inputs: (ran.append(len(inputs)), model(inputs.tokens, inputs.real))[1],
    )
    gone = torch.tensor([[True, False, False], [False, True, False], [True, False, False]])
    found = predict_each(adapter, adapter.inputs([0]), torch.zeros(3, dtype=torch.long), gone)
    assert sum(ran) == 2
    assert_allclose(found[0], found[2])
    assert_allclose(found, adapter.predict_without(adapter.inputs([0, 0, 0]), gone), atol=1e-7)


def test_every_importance_is_judged_beside_random_and_even_ones():
    model, some, _ = built("bottleneck")
    found = {one.name: one for one in faithfulness_of_all(Adapter(model, some[:20]))}
    assert len(found) == 4 * (len(IMPORTANCES) - 4)  # one row has no rollout, flow, norms and relevance
    assert all({"random", "uniform"} <= set(one.baselines) for one in found.values())
    for name in ("attention", "gradient x input", "integrated gradients", "leave one out"):
        assert found[f"comprehensiveness of {name}"].against("random") == "better"
    assert found["comprehensiveness of position"].against("attention") == "worse"
    alone = faithfulness(Adapter(model, some[:20]))
    assert [one.value for one in alone] == pytest.approx([found[one.name].value for one in alone])


@pytest.mark.parametrize("size", [1, 4])
def test_the_size_of_batches_changes_nothing(size):
    model, some, _ = built("bottleneck")
    assert_allclose(
        erased(Adapter(model, some[:6], size=size), attention),
        erased(Adapter(model, some[:6], size=64), attention),
        atol=1e-7,
    )
