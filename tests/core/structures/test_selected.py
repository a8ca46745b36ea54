"""Pairs that the data choose, in blocks."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Mask, Selected, attend
from regard.core.lowering import blocks


def moba(q, k, block, top):
    """(n, m) bool of one head, by loops: the query's own block, and the best of those before it."""
    n, m = q.shape[0], k.shape[0]
    keep = torch.zeros(n, m, dtype=torch.bool)
    for i in range(n):
        own = i // block
        gates = (
            torch.stack([q[i] @ k[b * block : (b + 1) * block].mean(0) for b in range(own)]) if own else torch.empty(0)
        )
        chosen = [own, *gates.topk(min(top - 1, own)).indices.tolist()]
        for b in chosen:
            keep[i, b * block : min((b + 1) * block, i + 1)] = True
    return keep


@pytest.mark.parametrize(("n", "block", "top"), [(16, 4, 2), (18, 4, 3), (9, 4, 1), (12, 3, 9), (7, 8, 2)])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_top_blocks_are_those_of_a_loop_over_queries(n, block, top, backend, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BUDGET", 64)  # a few rows at a time
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    keep = torch.stack([torch.stack([moba(q[b, h], k[b, h], block, top) for h in range(3)]) for b in range(2)])
    over = Selected.top_blocks(q, k, block, top) & Causal()
    out, amap = attend(q, k, v, over=over, backend=backend)
    wanted = attend(q, k, v, over=Mask(keep=keep), backend="reference")
    assert_close(out, wanted.out)
    assert_close(amap.weights(), wanted.map.weights())
    found, expected = (torch.autograd.grad(x.sin().sum(), [q, k, v]) for x in (out, wanted.out))
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b)


def test_every_block_is_every_key():
    q, k, v = torch.randn(3, 2, 4, 11, 4)
    assert_close(attend(q, k, v, over=Selected.top_blocks(q, k, 3, 99, causal=False)).out, attend(q, k, v).out)


def test_single_keys_may_be_chosen_and_a_query_may_choose_none():
    index = torch.tensor([[0, 2], [1, -1], [-1, -1]])
    q = torch.randn(2, 3, 4)
    out, amap = attend(q, q, q, over=Selected(index))
    assert ((amap.weights() > 0) == torch.tensor([[True, False, True], [False, True, False], [False] * 3])).all()
    assert (out[:, 2] == 0).all()


def test_heads_of_queries_that_share_keys_choose_by_their_own():
    q, k, v = torch.randn(1, 4, 8, 4), torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 4)
    whole = Selected.top_blocks(q, k.repeat_interleave(2, 1), 2, 2)
    assert_close(Selected.top_blocks(q, k, 2, 2).index, whole.index)
    assert_close(
        attend(q, k, v, over=whole & Causal()).out,
        attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), over=whole & Causal()).out,
    )


def test_while_decoding_the_last_query_chooses_what_it_chose_in_the_whole():
    q, k = torch.randn(2, 2, 13, 4)
    whole, last = Selected.top_blocks(q, k, 4, 2), Selected.top_blocks(q[:, -1:], k, 4, 2)
    assert_close(last.index, whole.index[:, -1:])


def test_wrong_choices_say_what_was_expected():
    q = torch.randn(2, 6, 4)
    with pytest.raises(ValueError, match="names block 3, but 6 keys in blocks of 2 are blocks 0 to 2"):
        attend(q, q, q, over=Selected(torch.full((6, 1), 3), 2))
    with pytest.raises(ValueError, match=r"has shape \(5, 1\), expected \(1, 2, 6\)"):
        attend(q, q, q, over=Selected(torch.zeros(5, 1, dtype=torch.long), 2))
    with pytest.raises(TypeError, match=r"becomes Mask\(keep=...\)"):
        attend(q, q, q, over=Selected(torch.ones(6, 6, dtype=torch.bool)))
