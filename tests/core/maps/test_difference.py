"""The difference of two maps, against a difference that is written out pair by pair."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import regard
from regard.core.errors import Refused
from regard.core.maps.attention_map import PerItem
from regard.core.maps.difference import axis_of


def named(words: str, seed: int = 0, heads: int = 2, over=None) -> regard.AttentionMap:
    torch.manual_seed(seed)
    names = words.split()
    q, k = torch.randn(2, heads, len(names), 4)
    amap = regard.attend(q, k, k, **({} if over is None else {"over": over})).map
    amap.rows = amap.columns = names
    return amap


def by_hand(a: regard.AttentionMap, b: regard.AttentionMap, pairs: list[tuple[int | None, int | None]]) -> torch.Tensor:
    """The difference over pairs (place in a, place in b), one weight at a time."""
    x, y = a.weights(), b.weights()
    made = torch.zeros(a.heads, len(pairs), len(pairs))
    for head in range(a.heads):
        for i, (ai, bi) in enumerate(pairs):
            for j, (aj, bj) in enumerate(pairs):
                if ai is not None and bi is not None:
                    made[head, i, j] += x[head, ai, aj] if aj is not None else 0
                    made[head, i, j] -= y[head, bi, bj] if bj is not None else 0
    return made


def test_maps_of_one_text_are_subtracted_weight_by_weight():
    a, b = named("the cat sat", 0), named("the cat sat", 1)
    assert_close((a - b).weights(), a.weights() - b.weights())
    assert_close((a - b)[1].weights(), a.weights()[1] - b.weights()[1])
    assert (a - b).rows == ["the", "cat", "sat"]


def test_a_token_that_one_text_lacks_stands_alone_and_is_marked():
    a, b = named("the black cat sat", 0), named("the cat sat down", 1)
    d = a - b
    assert d.rows == ["the", "black", "cat", "sat", "down"] and d.row_axis.marks == "=+==-"
    pairs = [(0, 0), (1, None), (2, 1), (3, 2), (None, 3)]
    assert_close(d.weights(), by_hand(a, b, pairs))
    assert d.compared.tolist() == [True, False, True, True, False]
    assert not d.allowed(slice(1, 2), slice(0, 5)).any()


def test_a_run_replaced_by_one_as_long_is_paired_in_order():
    a, b = named("John saw a dog", 0), named("Mary saw a dog", 1)
    d = a - b
    assert d.rows == ["John / Mary", "saw", "a", "dog"] and d.row_axis.marks == "~==="
    assert_close(d.weights(), a.weights() - b.weights())


def test_compared_rows_of_two_softmaxes_sum_to_zero_and_their_change_is_a_share():
    d = named("a b c d e", 0) - named("a x y d", 1)
    assert_close(d.weights().sum(-1), torch.zeros(2, d.n), atol=1e-6, rtol=0)
    change = d.change()
    assert_close(change, d.weights().abs().sum(-1) / 2)
    assert (change >= 0).all() and (change <= 1 + 1e-6).all() and (change[:, ~d.compared] == 0).all()


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_every_token_of_both_texts_stands_once_and_in_order(this, other):
    axis = axis_of(this, other, len(this), len(other), "rows")
    assert [this[i] for i in axis.this if i >= 0] == this and [other[j] for j in axis.other if j >= 0] == other
    assert sorted(i for i in axis.this.tolist() if i >= 0) == list(range(len(this)))
    for i, j, mark in zip(axis.this.tolist(), axis.other.tolist(), axis.marks, strict=True):
        assert mark == ("-" if i < 0 else "+" if j < 0 else "=" if this[i] == other[j] else "~")


def test_the_pyramid_of_a_difference_keeps_what_is_farthest_from_zero():
    d = named(" ".join(map(str, range(30))), 0, over=regard.Causal()) - named(" ".join(map(str, range(4, 34))), 1)
    first = d.pyramid(cell=8)[0]
    w = d.weights()
    for r in range(first.peak.shape[-2]):
        for c in range(first.peak.shape[-1]):
            cell = w[:, 8 * r : 8 * r + 8, 8 * c : 8 * c + 8].flatten(1)
            assert_close(first.peak[:, r, c], cell.gather(1, cell.abs().argmax(1, keepdim=True))[:, 0])
            assert_close(first.mass[:, r, c], cell.sum(1), atol=1e-6, rtol=1e-5)
    assert (first.peak < 0).any() and (first.peak > 0).any()
    assert abs(float(d.pyramid(cell=8)[-1].peak.abs().max()) - float(w.abs().max())) < 1e-7


def test_pairs_that_may_meet_in_one_map_alone_are_still_differences():
    a, b = named("a b c", 0, over=regard.Causal()), named("a b c", 1)
    d = a - b
    assert d.allowed(slice(0, 3), slice(0, 3)).all()
    assert_close(d.weights()[:, 0, 2], -b.weights()[:, 0, 2])
    assert not (a - named("a b c", 1, over=regard.Causal())).allowed(slice(0, 1), slice(1, 3)).any()


def test_maps_that_cannot_be_compared_are_refused_with_the_next_step():
    a = named("a b c")
    with pytest.raises(Refused, match="one head of one item"):
        a - named("a b c", heads=3)
    bare = named("a b")
    bare.rows = bare.columns = None
    with pytest.raises(Refused, match="3 and 2 rows and no labels"):
        a - bare
    a.rows = PerItem((["a"], ["b"]))
    with pytest.raises(Refused, match=r"amap\[0\] - other\[0\]"):
        a - named("a b c")
    with pytest.raises(TypeError, match="expected another AttentionMap"):
        named("a b c") - torch.zeros(3)
    with pytest.raises(Refused, match=r"compare a.entropy\(\)"):
        (named("a b") - named("a b", 1)).entropy()
    with pytest.raises(Refused, match="largest magnitude"):
        (named("a b") - named("a b", 1)).find(0.5)
