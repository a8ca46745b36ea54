"""Known targets ranked by importance."""

import numpy as np
import pytest
import torch

from regard.judging.finding import Finding
from regard.lab.drug_response.evaluation.attention_judgement import (
    area,
    attention_on_genes,
    forest_on_genes,
    gradient_on_genes,
    judge_reasons,
    ridge_on_genes,
)
from regard.lab.drug_response.evaluation.drug_targets import target_genes, with_neighbours
from regard.lab.drug_response.models.network import ResponseNetwork
from regard.lab.drug_response.protocol.fold import Fold

SETTING = {"width": 8, "heads": 1, "rate": 1e-2, "decay": 0.1, "epochs": 1}


def test_the_area_is_that_of_scikit_learn_and_ties_count_half():
    from sklearn.metrics import roc_auc_score

    draw = np.random.default_rng(0)
    scores, genes = draw.integers(0, 5, size=40).astype(float), [3, 7, 20]
    truth = np.isin(np.arange(40), genes)
    assert area(scores, genes) == pytest.approx(roc_auc_score(truth, scores))
    assert area(np.zeros(40), genes) == 0.5 and area(truth.astype(float), genes) == 1


def test_the_gene_that_responses_follow_is_first_for_forest_and_ridge(small_panel):
    """The panel was drawn so that responses follow the first gene, by a slope of each drug."""
    fold = Fold.of(small_panel, "pairs", 0)  # where the effects of lines are taken off
    drugs = list(range(len(small_panel.names)))
    for table in (forest_on_genes(fold, drugs, 0, 0.5), ridge_on_genes(fold, 1.0)):
        assert np.mean(table.argmax(1) == 0) > 0.6


def test_attention_sums_to_one_and_gradients_are_those_of_expression(small_panel):
    torch.manual_seed(0)
    network = ResponseNetwork(Fold.of(small_panel, "cells", 0), "cross", width=8, heads=2).eval()
    lines = torch.arange(40)
    weights = attention_on_genes(network, lines)
    assert weights.shape == (16, 9) and np.allclose(weights.sum(1), 1)
    slopes = gradient_on_genes(network, lines[:1])
    step = 1e-2
    before = network(torch.tensor([2]), lines[:1]).item()
    network.expression[0, 4] += step
    after = network(torch.tensor([2]), lines[:1]).item()
    assert abs(after - before) / step == pytest.approx(slopes[2, 4], rel=0.2, abs=1e-3)


def test_targets_are_genes_of_the_panel_and_families_are_spelt_out(small_panel):
    from dataclasses import replace

    panel = replace(small_panel, symbols=("BRAF", "RAF1", "KDR", "X"), targets=("RAF, others", "VEGFR", "not defined"))
    assert target_genes(panel) == [[0, 1], [2], []]
    assert with_neighbours([0], np.array([[0, 2, 1], [2, 0, 3]])) == [0, 2]


def test_findings_stand_beside_chance_and_a_run_resumes_from_what_is_saved(small_panel, tmp_path):
    found = judge_reasons(small_panel, SETTING, 2, out=tmp_path)
    assert [type(one) for one in found] == [Finding, Finding]
    assert {"chance", "gradient", "forest of the drug", "frozen attention", "another drug's weights"} <= set(
        found[0].baselines
    )
    again = judge_reasons(small_panel, SETTING, 2, out=tmp_path, compute=False)
    assert [one.value for one in again] == [one.value for one in found]
    assert judge_reasons(small_panel, SETTING, 2, out=tmp_path / "empty", compute=False) == []
