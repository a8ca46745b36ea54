"""What a caller adds to a page: a rationale beside the weights, the importance of heads."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from tests.views.driving import choice, eventually, says

import regard
from regard.core.maps.stored import StoredMap
from regard.views.page import page_data
from regard.views.payload.annotations import rationale_payload

WORDS = ["[CLS]", "a", "<i>gripping</i>", "film", "with", "dull", "scenes", "[SEP]"]
MARKS = [0, 0, 1, 0, 0, 1, 1, 0]
SITES = [{"site": "map", "m": 8, "heads": 2, "numbers": [{}, {}]}]


def marked(seed=0) -> regard.AttentionMap:
    torch.manual_seed(seed)
    q, k = 2 * torch.randn(2, 2, 8, 4)
    amap = regard.attend(q, k, k).map
    amap.rows = amap.columns = WORDS
    return amap


def test_marks_and_spans_say_the_same():
    found = rationale_payload(MARKS, SITES)
    assert found == {"spans": [[2, 3], [5, 7]], "length": 8}
    assert rationale_payload([(2, 3), (5, 7)], SITES)["spans"] == found["spans"]
    assert rationale_payload(torch.tensor(MARKS).bool(), SITES) == found == rationale_payload(np.array(MARKS), SITES)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([0, 1], "2 tokens are marked, and the maps have 8 columns"),
        ([(7, 9)], "a span ends at 9"),
        ([(3, 3)], "0 <= start < stop"),
        ([0.5] * 8, "expected 0 or 1"),
        ([], "expected 0 or 1"),
        ([0] * 8, "no token is marked"),
    ],
)
def test_marks_that_fit_no_map_are_refused_with_a_sentence(given, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        rationale_payload(given, SITES)
    with pytest.raises(ValueError, match="make separate pages"):
        page_data(marked(), rationale=MARKS, beside=marked(1))


def test_importance_stands_beside_each_head_or_is_refused():
    (site,) = page_data(marked(), importance={"map": torch.tensor([0.25, 3.0])})[0]["sites"]
    assert [x["importance"] for x in site["numbers"]] == [0.25, 3.0]
    with pytest.raises(ValueError, match="importance= names 'nowhere'; the page has map"):
        page_data(marked(), importance={"nowhere": [1, 2]})
    with pytest.raises(ValueError, match="a number for each of 2 heads"):
        page_data(marked(), importance={"map": [1.0]})


def test_the_front_end_measures_overlap_as_scikit_learn_does():
    text = (Path(__file__).parents[3] / "web/test/made_by_python.ts").read_text(encoding="utf-8")
    for case in json.loads(re.search(r"made = (.*);", text, re.DOTALL)[1])["overlaps"]:
        weights, marks = np.array(case["weights"]), np.array(case["marks"])
        assert case["auprc"] == pytest.approx(average_precision_score(marks, weights), abs=1e-12)
        if len(set(case["weights"])) == len(marks):
            assert case["precision"] == pytest.approx(marks[np.argsort(-weights)[: marks.sum()]].mean(), abs=1e-12)


# in a browser


def test_marks_stand_beside_the_weights_with_their_overlap(opened):
    amap = marked()
    page = opened(amap, rationale=MARKS)
    on = page.locator("regard-text .marked span.on")
    eventually(page, on.all_inner_texts, ["<i>gripping</i>", "dull", "scenes"])
    for mean in (False, True):
        if mean:
            page.locator("regard-text label", has_text="mean over rows").locator("input").check()
            says(page.locator("regard-text .both"), "mean over rows")
        w = amap.weights()[choice(page)["head"]]
        weights = (w.mean(0) if mean else w[choice(page)["row"]]).double().numpy()
        said = page.locator("regard-text .note").inner_text()
        numbers = [float(x) for x in re.findall(r"\d\.\d\d", said)]
        precision = np.mean(np.array(MARKS)[np.argsort(-weights)[:3]])
        wanted = [average_precision_score(MARKS, weights), precision, 3 / 8]
        assert numbers == pytest.approx(wanted, abs=0.0051)


def test_marks_are_shown_only_where_they_fit(opened):
    q, k = torch.randn(1, 1, 8, 4), torch.randn(1, 1, 5, 4)
    maps = {"own": marked(), "cross": regard.attend(q, k, k).map}
    maps["cross"].rows, maps["cross"].columns = WORDS, list("abcde")
    with regard.record() as rec:
        pass
    rec.maps._by_site.update(maps)
    page = opened(rec, rationale=MARKS)
    for site, count in ((0, 1), (1, 0)):
        page.locator("regard-page select[aria-label=Layer]").select_option(str(site))
        eventually(page, page.locator("regard-text .marked").count, count)


def test_heads_are_sorted_by_the_importance_that_was_given(opened):
    page = opened(StoredMap((4,), torch.rand(4, 5, 5).softmax(-1)), importance={"map": [0.1, 0.9, -1.0, 0.5]})
    page.locator("regard-heads select").select_option("importance")
    order = "document.querySelector('regard-page').shadowRoot.querySelector('regard-heads').places.map(p => p.head)"
    eventually(page, lambda: page.evaluate(order), [1, 3, 0, 2])
    says(page.locator("regard-heads p"), "importance")
    plain = opened(StoredMap((4,), torch.rand(4, 5, 5).softmax(-1)))
    assert plain.locator("regard-heads option[value=importance], regard-heads option[value=change]").count() == 0
