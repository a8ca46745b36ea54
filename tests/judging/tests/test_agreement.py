"""Importances beside one another: what they foretell, and whether they agree."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.built_models import Bag, built

from regard.judging import from_json, to_json
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.attribution.importance import IMPORTANCES, chance
from regard.judging.tests.agreement import agreement, matrix, taus_of
from regard.judging.tests.infidelity import infidelity, shuffled, subsets

pytest.importorskip("scipy")
NAMES = ["attention", "gradient", "gradient x input", "leave one out"]


def adapter(name="bottleneck", count=20) -> Adapter:
    model, some, _ = built(name)
    return Adapter(model, some[:count])


def test_the_matrix_is_symmetric_with_a_diagonal_of_one_and_holds_the_means():
    found = matrix(from_json(to_json(agreement(adapter(), NAMES))))
    assert found.names == (*NAMES, "random")
    assert_allclose(found.tau, found.tau.T)
    assert_allclose(np.diag(found.tau), 1)
    measures = {name: IMPORTANCES[name] for name in NAMES} | {"random": chance(1)}
    assert_allclose(found.tau, taus_of(adapter(), measures).mean(0))
    off = ~np.eye(len(NAMES) + 1, dtype=bool)
    assert (found.low[off] <= found.tau[off]).all() and (found.tau[off] <= found.high[off]).all()


def test_weights_and_gradients_of_a_bottleneck_agree_and_those_of_a_decoration_do_not():
    bottle, decoration = (matrix(agreement(adapter(name), NAMES)) for name in ("bottleneck", "decorative"))
    assert bottle.tau[0, 1] == 1  # with the first and last word too
    assert decoration.low[0, 1] < 0 < decoration.high[0, 1]
    assert bottle.high[-1, :-1].max() < 0.35  # nothing agrees with chance


def test_of_texts_that_are_too_short_nothing_is_said():
    found = agreement(Adapter(Bag(), [Instance(torch.tensor([1, 2]))]), ["gradient x input", "leave one out"])
    assert all(one.value is None and "undefined" in one.says for one in found)
    assert np.isnan(matrix(found).tau[0, 1])


def test_infidelity_is_nothing_for_the_gradient_of_a_sum_and_stands_beside_even_and_random_ones():
    some = [Instance(torch.tensor(x)) for x in ([1, 2, 3, 4], [4, 4, 1], [3, 2, 1, 1, 4]) for _ in range(4)]
    found = {one.name: one for one in infidelity(Adapter(Bag(), some), ["gradient x input", "leave one out"])}
    one, other = found["infidelity of gradient x input"], found["infidelity of leave one out"]
    assert one.value == pytest.approx(0, abs=1e-9) and other.value > 0.2
    assert one.against("uniform") == one.against("random") == "better" and one.better == "lower"


def test_sets_of_units_are_half_of_them_at_most_and_never_special():
    units = torch.tensor([[True] * 7 + [False], [False, True] + [False] * 6, [False] * 8])
    gone = subsets(units, 400, torch.Generator().manual_seed(0))
    sizes = gone.sum(-1)
    assert set(sizes[:, 0].tolist()) == {1, 2, 3} and bool((sizes[:, 1] == 1).all()) and not bool(gone[:, 2].any())
    assert not bool((gone & ~units).any())
    assert_allclose(gone[:, 0, :7].double().mean(0), 2 / 7, atol=0.08)  # each unit as often as the others


def test_a_seed_gives_the_same_bits():
    assert infidelity(adapter(count=5), NAMES, seed=2) == infidelity(adapter(count=5), NAMES, seed=2)
    assert agreement(adapter(count=5), NAMES, seed=2) == agreement(adapter(count=5), NAMES, seed=2)
    assert infidelity(adapter(count=5), NAMES, seed=2) != infidelity(adapter(count=5), NAMES, seed=3)
    with pytest.raises(ValueError, match="times=0"):
        infidelity(adapter(count=2), NAMES, times=0)


def test_the_random_baseline_of_infidelity_has_the_same_numbers_on_other_units():
    units = torch.tensor([[False, True, True, False, True, True], [True, True, True, False, False, False]])
    scores = torch.arange(12, dtype=torch.float64).reshape(2, 6)
    moved = shuffled(scores, units, torch.Generator().manual_seed(0))
    assert torch.equal(moved[~units], scores[~units])
    for item in range(2):
        assert sorted(moved[item, units[item]].tolist()) == scores[item, units[item]].tolist()
    drawn = torch.stack([shuffled(scores, units, torch.Generator().manual_seed(seed)) for seed in range(600)])
    assert_allclose(drawn[:, 0, [1, 2, 4, 5]].mean(0), 3.0, atol=0.2)  # each number on each unit as often
