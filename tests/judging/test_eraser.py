"""ERASER's rows: the names that its benchmark reads, and numbers that a second computation confirms."""

import json
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.adapters.test_adapter import SENTENCE, SPECIAL, bert
from tests.judging.built_models import built
from tests.judging.test_suite import marked

from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.eraser import by_word, rows, word_of
from regard.judging.tests.faithfulness import BINS


def test_scores_are_those_of_the_text_without_its_rationale_and_of_the_rationale_alone():
    adapter = marked(count=8)
    for one, row in zip(adapter.instances, rows(adapter), strict=True):
        soft = row["rationales"][0]["soft_rationale_predictions"]
        assert_allclose(sum(soft), 1.0, atol=1e-4)
        hard = [
            i
            for span in row["rationales"][0]["hard_rationale_predictions"]
            for i in range(span["start_token"], span["end_token"])
        ]
        assert min(soft[i] for i in hard) >= max(soft[i] for i in range(len(soft)) if i not in hard)
        keep = [i for i in range(len(soft)) if i not in hard]
        for name, left in (("comprehensiveness", keep), ("sufficiency", hard)):
            alone = Adapter(adapter.model, [Instance(one.tokens[left])])
            told = alone.predict(alone.inputs([0]))[0].tolist()
            assert_allclose(list(row[f"{name}_classification_scores"].values()), told, atol=1e-5)
        assert row["classification"] == max(row["classification_scores"], key=row["classification_scores"].get)
        assert list(row["classification_scores"]) == ["negative", "positive"]
        assert [part["threshold"] for part in row["thresholded_scores"]] == list(BINS)


def test_the_amount_is_what_people_marked_and_a_fifth_where_nobody_did():
    model, texts, _ = built("bottleneck")
    for adapter, share in ((Adapter(model, texts[:8]), 0.2), (marked(count=8), None)):
        if share is None:
            share = np.mean([1 / len(one.tokens) for one in adapter.instances])
        for one, row in zip(adapter.instances, rows(adapter), strict=True):
            spans = row["rationales"][0]["hard_rationale_predictions"]
            assert sum(x["end_token"] - x["start_token"] for x in spans) == math.ceil(share * len(one.tokens) - 1e-9)


def test_pieces_of_a_word_are_weighed_and_taken_away_together():
    one = Instance(SENTENCE, 0, SPECIAL, places=torch.tensor([-1, 0, 0, 1, 2, -1]), total=5)
    assert word_of(one).tolist() == [-1, 0, 0, 1, 2, -1]
    weights = torch.tensor([0.0, 0.1, 0.3, 0.4, 0.2, 0.0], dtype=torch.float64)
    assert_allclose(by_word(one, weights), [0.4, 0.4, 0.2, 0.0, 0.0])
    adapter = bert()
    adapter.instances = [one]
    row = rows(adapter, share=0.2)[0]
    assert len(row["rationales"][0]["soft_rationale_predictions"]) == 5
    first = row["rationales"][0]["hard_rationale_predictions"][0]["start_token"]
    gone = (word_of(one) == first)[None]
    told = adapter.predict_without(adapter.inputs([0]), gone)[0]
    assert_allclose(list(row["comprehensiveness_classification_scores"].values()), told, atol=1e-5)


def test_a_text_of_which_nothing_is_left_has_no_such_scores():
    model, texts, _ = built("bottleneck")
    row = rows(Adapter(model, [Instance(texts[0].tokens[:1])]))[0]
    assert "comprehensiveness_classification_scores" not in row
    assert "sufficiency_classification_scores" in row
    json.dumps(row, allow_nan=False)


def test_an_instance_of_special_tokens_alone_has_an_empty_rationale():
    adapter = bert()
    adapter.instances = [Instance(SENTENCE[[0, 5]], 0, torch.tensor([True, True]))]
    row = rows(adapter)[0]
    assert row["rationales"][0]["hard_rationale_predictions"] == []
    assert row["rationales"][0]["soft_rationale_predictions"] == []


@pytest.mark.parametrize(
    "name",
    [
        "annotation_id",
        "rationales",
        "classification",
        "classification_scores",
        "comprehensiveness_classification_scores",
        "sufficiency_classification_scores",
        "thresholded_scores",
    ],
)
def test_every_row_has_what_the_benchmark_reads(name):
    assert all(name in row for row in rows(marked(count=3)))
