"""Splits, what a model may know, and measures."""

from dataclasses import replace

import numpy as np
import pytest

from regard.lab.drug_response.evaluation.metrics import measures
from regard.lab.drug_response.models.candidates import draws, model_of
from regard.lab.drug_response.models.linear import carried
from regard.lab.drug_response.protocol.fold import Fold, mean_effects
from regard.lab.drug_response.protocol.splits import FOLDS, SPLITS, divide, scaffold_groups, tanimoto

TREES = {"trees": 3, "leaf": 2, "share": 1.0, "rows": 0.5}, {"rounds": 3, "leaves": 4, "leaf": 2, "l2": 0.0}
QUICK = {
    "means": {},
    "ridge": {"components": 3, "penalty": 10, "smoothing": 1.0},
    "elastic-net": {"penalty": 0.1, "share": 0.5, "genes": 5, "smoothing": 1.0},
    "neighbours": {"neighbours": 3, "shrink": 1.0},
    "forest": TREES[0],
    "boosting": TREES[1] | {"rate": 0.3, "share": 1.0},
    "mlp": {"width": 8, "epochs": 1, "rate": 1e-2, "decay": 0.1},
    "edge": {"width": 8, "layers": 1, "epochs": 1, "rate": 1e-2, "decay": 0.1},
    "cross": {"width": 8, "heads": 1, "epochs": 1, "rate": 1e-2, "decay": 0.1},
}


@pytest.mark.parametrize("kind", SPLITS)
def test_the_folds_of_a_division_judge_every_pair_once_and_the_inner_division_knows_none_of_it(small_panel, kind):
    judged = np.zeros(small_panel.response.shape, dtype=int)
    for seed in range(FOLDS):
        fold = Fold.of(small_panel, kind, seed)
        inner = fold.inner()
        judged += fold.test
        assert (fold.train ^ fold.test)[small_panel.measured].all() and not (fold.train & fold.test).any()
        assert ((inner.train | inner.test) == fold.train).all() and not (inner.train & inner.test).any()
        assert inner.test.any() and inner.train.any()
    assert (judged == small_panel.measured).all()


@pytest.mark.parametrize(
    ("kind", "axis", "groups"),
    [
        ("cells", 0, lambda panel: panel.lines),
        ("tissues", 0, lambda panel: panel.tissues),
        ("drugs", 1, lambda panel: panel.names),
        ("scaffolds", 1, lambda panel: scaffold_groups(panel.scaffolds)),
    ],
)
def test_no_group_is_on_both_sides_of_a_division(small_panel, kind, axis, groups):
    names = np.asarray(groups(small_panel))
    for seed in range(2 * FOLDS):
        fold = Fold.of(small_panel, kind, seed)
        for part in (fold, fold.inner()):
            assert not set(names[part.train.any(axis)]) & set(names[part.test.any(axis)])


def test_another_division_draws_other_folds(small_panel):
    assert (divide(small_panel, "cells", 0)[1] != divide(small_panel, "cells", FOLDS)[1]).any()


def test_an_unknown_split_is_answered_by_those_that_exist(small_panel):
    with pytest.raises(ValueError, match=r"kind='lines'.*expected pairs, cells, tissues, drugs, scaffolds"):
        divide(small_panel, "lines", 0)


def test_mean_effects_recover_additive_responses_and_give_nothing_to_whom_they_do_not_know():
    draw = np.random.default_rng(0)
    y = 3 + draw.normal(size=(30, 1)) + draw.normal(size=(1, 50))
    assert np.abs(mean_effects(y, shrink=0.0, rounds=50) - y).max() < 1e-9
    y[4], y[:, 7] = np.nan, np.nan
    found = mean_effects(y)
    assert np.ptp(found[4] - found[4, 7] - (found[0] - found[0, 7])) < 1e-12
    assert found[4, 7] == pytest.approx(np.nanmean(y))


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("kind", ["cells", "drugs"])
def test_what_is_held_out_changes_no_prediction(small_panel, name, kind):
    """Neither responses of the test part, nor omics of its other lines: nothing is standardised or chosen by them."""
    fold = Fold.of(small_panel, kind, 0)
    known = small_panel.response.copy()
    known[fold.test] += 100
    other = replace(small_panel, response=known)
    lines = fold.test.any(0) & ~fold.train.any(0)
    asked = np.flatnonzero(fold.test.any(0))[0]
    if lines.any():
        changed = small_panel.expression.copy()
        changed[np.setdiff1d(np.flatnonzero(lines), [asked])] += 50
        other = replace(other, expression=changed)
    again = Fold(other, kind, fold.train, fold.test)

    def guess(one):
        return model_of(name).fit(one, QUICK[name], 0, "cpu", lambda share: None).response[:, asked]

    some = fold.test[:, asked]
    assert some.any() and np.array_equal(guess(fold)[some], guess(again)[some])


@pytest.mark.parametrize("name", QUICK)
def test_every_model_answers_every_pair_of_every_split(small_panel, name):
    for kind in SPLITS:
        fold = Fold.of(small_panel, kind, 1)
        made = model_of(name).fit(fold, QUICK[name], 0, "cpu", lambda share: None).response
        assert np.isfinite(made[fold.test]).all()


def test_a_ridge_finds_the_slope_that_the_mean_effects_leave(small_panel):
    fold = Fold.of(small_panel, "cells", 0)
    made = model_of("ridge").fit(fold, QUICK["ridge"] | {"components": 9, "penalty": 1}, 0, "cpu", lambda share: None)
    found = measures(made.response, small_panel.response, fold.test, fold.offset)
    assert found["explained"] > 0.2 and found["rmse"] < 1.5


def test_weights_of_a_drug_that_is_known_are_carried_back_to_it(small_panel):
    fold = Fold.of(small_panel, "drugs", 0)
    weights = np.random.default_rng(0).normal(size=(len(small_panel.names), 3))
    assert np.allclose(carried(fold, weights, 1e-9)[fold.drugs], weights[fold.drugs], atol=1e-4)


def test_a_perfect_prediction_has_every_measure_at_its_best_and_the_mean_effects_explain_nothing():
    draw = np.random.default_rng(0)
    y = draw.normal(size=(60, 15)) + 2 * draw.normal(size=(60, 1))
    test, effects = np.ones(y.shape, dtype=bool), np.broadcast_to(y.mean(1, keepdims=True), y.shape)
    best = measures(y, y, test, effects)
    assert best["rmse"] == 0 and best["explained"] == 1
    assert all(best[name] == pytest.approx(1) for name in ("pearson", "within_drug", "within_line", "ranking", "top"))
    trivial = measures(effects, y, test, effects)
    assert trivial["explained"] == 0 and trivial["within_drug"] == 0 and trivial["ranking"] == 0
    assert trivial["top"] == pytest.approx(10 / 60) and trivial["within_line"] > 0.5


def test_the_similarity_of_a_molecule_to_itself_is_one_and_to_one_without_its_bits_zero():
    assert np.array_equal(tanimoto(np.eye(3), np.eye(3)), np.eye(3))


def test_all_models_try_equally_many_settings_the_usual_one_first_and_ablations_what_their_place_tries():
    for name in ("ridge", "elastic-net", "neighbours", "forest", "boosting", "mlp", "gat", "cross/frozen"):
        found = draws(name, 5, 3)
        assert len(found) == 5 and found[0] == dict(model_of(name).usual)
        assert all(one not in found[:at] for at, one in enumerate(found))
    assert draws("means", 5, 3) == [{}]
    assert draws("gat", 4, 1) == draws("gat/uniform", 4, 1)


def test_a_model_that_does_not_exist_is_answered_by_those_that_do():
    with pytest.raises(ValueError, match="no network 'mlp/uniform'; expected one of mlp, mean, gcn"):
        model_of("mlp/uniform")
