"""A measure beside its baselines: the level where nothing is there, what is found where something is, and the edges."""

import itertools

import numpy as np
import pytest

from regard.judging import Finding, compare
from regard.judging.statistics.exchange import exchange_p
from regard.judging.statistics.intervals import mean, median

stats = pytest.importorskip("scipy.stats")


def verdict(values, baselines, **options):
    found = compare(values, baselines, **options)
    return Finding.of(found, name="a", says="So.", better="higher").standing[1]


NULLS = {
    "uniform": (lambda draw, shape: draw.random(shape), (0.0, 1.0)),
    "many zeros": (lambda draw, shape: (draw.random(shape) < 0.2) * draw.random(shape), (0.0, 1.0)),
    "right or wrong": (lambda draw, shape: (draw.random(shape) < 0.8).astype(float), "share"),
    "one instance like no other": (lambda draw, shape: draw.random(shape) * np.geomspace(1, 1000, shape[-1]), "real"),
}


@pytest.mark.parametrize("draws", [1, 10])
@pytest.mark.parametrize("name", NULLS)
def test_where_nothing_is_there_each_side_is_found_in_at_most_one_of_forty(name, draws):
    null, scale = NULLS[name]
    random, told = np.random.default_rng(7), []
    for _ in range(240):
        table = null(random, (1 + draws, 12))
        told.append(verdict(table[0], {"random": table[1:]}, scale=scale, resamples=300))
    limit = stats.binom.ppf(0.995, 240, 0.025)  # 13
    assert told.count("better") <= limit and told.count("worse") <= limit


def test_what_is_there_is_found():
    random = np.random.default_rng(0)
    for scale, shift in (((-1.0, 2.0), 0.3), ("real", 0.3)):
        values = random.random(60)
        assert verdict(values + shift, {"random": random.random((10, 60))}, scale=scale) == "better"
        assert verdict(values - shift, {"random": random.random((10, 60))}, scale=scale) == "worse"
    right = (random.random(80) < 0.9).astype(float)
    assert verdict(right, {"random": (random.random((10, 80)) < 0.5).astype(float)}, scale="share") == "better"
    assert verdict(right, {"chance": 0.5}, scale="share") == "better"


def test_exchange_of_one_draw_is_the_exact_sign_flip_test_and_of_several_the_whole_product():
    random = np.random.default_rng(1)
    a, b = random.normal(loc=0.8, size=7), random.normal(size=7)
    theirs = stats.permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf)
    assert exchange_p(a, b[None]) == pytest.approx(theirs.pvalue)
    table = random.random((3, 6))
    table[0] += 0.4
    whole = [sum(row) for row in itertools.product(*table.T)]  # 3^6: each instance takes one of its three rows
    exact = 2 * np.mean(np.array(whole) >= table[0].sum() - 1e-12)
    assert exchange_p(table[0], table[1:]) == pytest.approx(exact, abs=0.02)


def test_figures_of_a_corpus_are_compared_by_exchanging_documents():
    random = np.random.default_rng(2)

    def ratio(x):
        return x[:, 0].sum() / x[:, 1].sum()

    size = np.full(40, 20)
    ours, theirs = (np.stack([random.binomial(20, p, size=40), size], -1).astype(float) for p in (0.7, 0.55))
    again = np.stack([random.binomial(20, 0.55, size=40), size], -1).astype(float)
    assert verdict(ours, {"random": theirs}, statistic=ratio, resamples=300) == "better"
    assert verdict(theirs, {"random": again}, statistic=ratio, resamples=300) == "not significantly different"
    found = compare(ours, {"random": theirs}, ratio, resamples=300).differences["random"]
    assert found.value == pytest.approx(ratio(ours) - ratio(theirs)) and found.interval[0] > 0


def test_medians_are_compared_too():
    random = np.random.default_rng(3)
    values = random.exponential(size=50)
    assert verdict(values + 0.6, {"random": random.exponential(size=(5, 50))}, statistic=median) == "better"
    found = compare(values, {"random": random.exponential(size=(5, 50))}, median)
    assert found.differences["random"].value == pytest.approx(found.value - found.baselines["random"])


def test_seeds_need_six_to_show_anything():
    random = np.random.default_rng(4)
    for seeds, how in ((5, "not significantly different"), (8, "better")):
        values = 1.0 + 0.1 * random.normal(size=(seeds, 30))
        assert verdict(values, {"nothing": 0.0}, seeds=True) == how
        assert verdict(values, {"other": np.zeros_like(values)}, seeds=True) == how


def test_too_few_instances_of_their_scale_have_no_verdict_whatever_they_are():
    for scale, n in (("real", 7), ("skewed", 29), ((0.0, 2.0), 7)):
        found = compare(np.ones(n), {"random": np.zeros(n)}, scale=scale).differences["random"]
        assert found.p is None and found.value == 1.0 and "instances: a verdict needs" in found.why
        more = compare(np.ones(n + 1), {"random": np.zeros(n + 1)}, scale=scale).differences["random"]
        assert more.p is not None


def test_instances_on_which_either_is_undefined_are_not_compared():
    values, other = np.arange(12.0), np.zeros(12)
    values[0], other[1] = np.nan, np.nan
    found = compare(values, {"other": other, "gone": None, "never": np.full(12, np.nan)})
    assert found.differences["other"].n == 10 and found.differences["other"].value == pytest.approx(6.5)
    assert found.baselines["gone"] is None and found.differences["gone"].why == "gone is undefined"
    assert found.differences["never"].value is None and found.differences["never"].p is None


@pytest.mark.parametrize("values", [[], [0.5], [np.nan] * 9, [np.inf] + [1.0] * 9, [0.5] * 9], ids=str)
def test_edges_give_a_finding_and_no_false_verdict(values):
    table = np.array(values)
    for statistic in (mean, median):
        found = compare(table, {"random": np.stack([table] * 3), "number": 0.5}, statistic, scale="skewed")
        one = Finding.of(found, name="a", says="So.", better="higher")
        assert one.standing[1] in ("undefined", "not significantly different")
        assert one.standing[1] != "undefined" or one.why


def test_baselines_of_another_shape_are_refused():
    for other in (np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1, 4))):
        with pytest.raises(ValueError, match="expected the same"):
            compare(np.zeros(4), {"random": other})
