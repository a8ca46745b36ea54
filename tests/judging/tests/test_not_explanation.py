"""Jain & Wallace's tests: correlation, permutation, the adversary."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.adapters.test_adapter import bert, recurrent
from tests.judging.built_models import Bottleneck, Decorative, built, texts
from torch.testing import assert_close

from regard import intervene, record
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Instance
from regard.judging.statistics.divergence import LARGEST, jsd
from regard.judging.tests.adversarial import Sought, adversary, budgets, seek
from regard.judging.tests.correlation import correlation, kendall, significant, taus
from regard.judging.tests.permutation import Shuffled, moved, permutation

pytest.importorskip("scipy")


def tau_b(a, b):
    """Pairs in the same order less pairs in the other, by the geometric mean of pairs that are not tied."""
    pairs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in itertools.combinations(range(len(a)), 2)]
    both = sum(x * y for x, y in pairs)
    return both / np.sqrt(sum(x != 0 for x, _ in pairs) * sum(y != 0 for _, y in pairs))


def test_kendall_counts_ties():
    draw = np.random.default_rng(0)
    a, b = draw.integers(0, 4, (2, 12)).astype(float)
    assert_allclose(kendall(a, b)[0], tau_b(a, b))


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1, 2, np.nan], [1, 2, 3]), ([], [])],
    ids=["two", "constant", "no gradient", "undefined", "none"],
)
def test_a_rank_correlation_that_says_nothing_is_undefined(a, b):
    assert np.isnan(kendall(np.asarray(a, float), np.asarray(b, float))).all()


def test_significance_is_corrected_for_the_number_of_instances():
    # Benjamini & Hochberg by hand: 0.01 <= 0.05/4 and 0.02 <= 0.05 2/4 hold, 0.04 > 0.05 3/4 does not
    p, tau = np.array([0.02, 0.01, 0.04, np.nan, 0.3]), np.array([0.5, 0.9, 0.4, np.nan, 0.1])
    assert_allclose(significant(tau, p), [1, 1, 0, np.nan, 0])
    assert_allclose(significant(-tau, p), [0, 0, 0, np.nan, 0])  # the opposite order is no agreement


def test_the_ends_and_special_tokens_are_left_out():
    model = Bottleneck()
    tokens = torch.tensor([3, 1, 5, 21, 2, 4])
    whole, inner = taus(Adapter(model, [Instance(tokens)]), ends=True), taus(Adapter(model, [Instance(tokens)]))
    marked = taus(Adapter(model, [Instance(tokens, special=torch.tensor([1, 0, 0, 0, 0, 1]).bool())]), ends=True)
    assert_allclose(marked[0][:, 0], inner[0][:, 0])
    assert inner[1][0, 0] > whole[1][0, 0]  # four units give less evidence than six
    few = taus(Adapter(model, [Instance(tokens[:4])]))
    assert np.isnan(few[0]).all()  # two are left


def test_correlations_have_baselines_and_a_seed_gives_the_same_bits():
    model, some, _ = built("leaky")
    one, two = (correlation(Adapter(model, some[:8]), seed=2) for _ in range(2))
    assert one == two
    assert set(one[0].baselines) == {"random", "position", "gradient and leave one out"}


def test_permuted_weights_are_the_same_numbers_and_special_tokens_keep_theirs():
    adapter = bert(selector=AttentionSelector(layer=-1))
    inputs, site = adapter.inputs([0]), adapter.judged[0]
    plain = adapter.maps(inputs)[site].weights()
    change = Shuffled(adapter.selector, inputs, {site: torch.tensor(7)})
    with torch.no_grad(), intervene(adapter.model, {site: change}), record(adapter.model) as rec:
        adapter.model(inputs.tokens)
    after = rec.maps[site].weights()
    assert_close(after[:, :, 1:], plain[:, :, 1:])  # other rows
    assert_close(after[:, :, 0, [0, 5]], plain[:, :, 0, [0, 5]])  # [CLS] and [SEP]
    assert_close(after[:, :, 0, 1:5].sort().values, plain[:, :, 0, 1:5].sort().values)
    assert (after[:, :, 0] - plain[:, :, 0]).abs().max() > 1e-3


def test_permutation_of_two_units_is_the_swap_or_nothing():
    model, tokens = Bottleneck(), torch.tensor([21, 1])
    says, looked_at = model.vectors.weight.detach()[tokens].unbind(-1)
    weights = looked_at.softmax(0)
    swapped = ((weights * says).sum().sigmoid() - (weights.flip(0) * says).sum().sigmoid()).abs()
    found = moved(Adapter(model, [Instance(tokens)]), times=9)
    assert min(abs(found[0, 0] - float(swapped)), found[0, 0]) < 1e-6
    assert_allclose(found[0, 1], float(weights.max()), rtol=1e-6)


def test_findings_of_permutation_go_by_the_largest_weight():
    model, some, _ = built("decorative")
    found = permutation(Adapter(model, some), times=3)
    assert found[0].n == sum(one.n for one in found[1:])
    assert found == permutation(Adapter(model, some), times=3)


def test_where_attention_is_decoration_the_adversary_nears_the_least_attended_unit():
    adapter = Adapter(Decorative(), texts(6)[0])
    found = seek(adapter, starts=5, steps=100, rate=0.2)
    for place, one in enumerate(adapter.instances):
        weights = adapter.attention(adapter.inputs([place]))[0]
        corners = torch.stack([jsd(corner, weights) for corner in torch.eye(len(one.tokens)).double()])
        assert_allclose(found.limit[place], float(corners.max()), rtol=1e-6)
    assert (found.moved < 1e-6).all()
    assert (found.best(0.01) > 0.9 * found.limit).all()
    assert (found.best(0.01) <= found.limit + 1e-6).all()
    assert (found.limit < LARGEST).all()


def test_one_unit_has_no_adversary():
    found = seek(Adapter(Bottleneck(), [Instance(torch.tensor([21]))]), starts=2, steps=2)
    assert_allclose(found.far, 0.0, atol=1e-9)
    assert found.limit.tolist() == [0.0]


def test_the_search_stays_within_its_budget_and_goes_further_than_it_began():
    adapter = Adapter(Bottleneck(), texts(6)[0])
    found = seek(adapter, starts=3, steps=150, rate=0.1)
    assert found.moved.mean() < 0.06 < found.start_moved.mean()
    assert found.best(0.05).mean() > 0.0
    assert all(a.value <= b.value for a, b in itertools.pairwise(budgets(found)))


def test_candidates_are_distributions_on_units_and_special_tokens_keep_their_weight():
    adapter = bert()
    inputs, site = adapter.inputs([0, 1]), adapter.judged[0]
    plain = adapter.maps(inputs)[site].weights()
    sought = Sought(adapter.selector, inputs, {site: torch.randn(plain.shape) * 3})
    adapter.predict(inputs, {site: sought})
    made = sought.made[site]
    assert_close(made[:, :, 0].sum(-1), torch.ones(2, 2))
    keep = ~inputs.units[:, None, :].expand(2, 2, 6)
    assert_close(made[:, :, 0][keep], plain[:, :, 0][keep])
    assert (made[:, :, 0] - plain[:, :, 0]).abs().max() > 0.01


def test_every_model_has_an_adversary_and_a_seed_gives_the_same_bits():
    for adapter in (recurrent(), bert(), bert(selector=AttentionSelector(layer="mean", row="mean"))):
        one, two = (adversary(adapter, starts=2, steps=3) for _ in range(2))
        assert one == two
        assert one[0].value is not None and set(one[0].baselines) == {"random", "within 0.01", "limit"}
