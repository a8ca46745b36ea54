"""Rows and maps are exact means over all of their cells; their largest parts are found by bounds."""

import pytest
import torch

import regard

transformers = pytest.importorskip("transformers")
from tests.tiny_transformers import inputs_of, tiny_model  # noqa: E402


def recorded(kind):
    torch.manual_seed(0)
    model = tiny_model(kind)
    with torch.no_grad(), regard.record(model) as rec:
        model(**inputs_of(model))
    return rec


def cells_of(rec, site, head):
    weights = rec.maps[site][1][head].weights().double()
    weights = weights.reshape(weights.shape[-2:])
    return [(i, j, float(weights[i, j])) for i, j in (weights > 0).nonzero().tolist()]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert", "falcon", "t5"])
@pytest.mark.parametrize("against", [None, "row"])
def test_a_map_is_the_mean_of_all_its_cells(kind, against):
    rec = recorded(kind)
    site, head = list(rec.maps)[1], 1
    whole = regard.why(rec, site, head, item=1, against=against)
    assert whole.whole and "all cells weighed by attention" in whole.sentence
    cells = cells_of(rec, site, head)
    total = sum(w for *_, w in cells)
    if against is not None:  # a row of one key has no other
        cells = [(i, j, w) for i, j, w in cells if sum(row == i for row, *_ in cells) > 1]
    each = [(w / total, regard.why(rec, site, head, i, j, item=1, against=against)) for i, j, w in cells]
    assert whole.score == pytest.approx(sum(w * one.score for w, one in each), rel=1e-5, abs=1e-5)
    parts = {(q.label, k.label): 0.0 for q in whole.queries for k in whole.keys}
    for w, one in each:
        for a, q in enumerate(one.queries):
            for b, k in enumerate(one.keys):
                parts[q.label, k.label] += w * float(one.parts[a, b])
    for a, q in enumerate(whole.queries):
        for b, k in enumerate(whole.keys):
            assert float(whole.parts[a, b]) == pytest.approx(parts[q.label, k.label], abs=1e-5)


def test_the_largest_parts_of_a_map_are_those_of_its_cells():
    rec = recorded("llama")
    site, head = list(rec.maps)[1], 2
    found = rec.why(site, head, item=1).largest(5)
    every = []
    for i, j, _ in cells_of(rec, site, head):
        one = rec.why(site, head, i, j, item=1)
        every += [(i, j, part.query, part.key, part.value) for part in one.strongest(len(one.parts.flatten()))]
    every.sort(key=lambda part: -abs(part[-1]))
    assert [tuple(part)[:4] for part in found] == [part[:4] for part in every[:5]]
    assert [part.value for part in found] == pytest.approx([part[-1] for part in every[:5]], rel=1e-5)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_what_frozen_scales_do_not_tell_is_named_and_measured(kind):
    rec = recorded(kind)
    one = rec.why(list(rec.maps)[1], 0, 6, 2)
    assert any("norm" in name.lower() for name in one.frozen)
    for share in one.nonlinear("key", 4):
        cut = one.cut(share.writer, "key")
        assert share.live == pytest.approx(cut.score, abs=1e-6)
        assert share.nonlinear == pytest.approx(cut.nonlinear, abs=1e-6)
