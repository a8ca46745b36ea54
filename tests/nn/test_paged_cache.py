"""Sequences of a paged cache are decoded as each would be with a cache of its own."""

import random

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Causal, Full, Refused, Window, attend
from regard.nn import Attention, Cache, PagedCache


def layer(**options):
    torch.manual_seed(0)
    return Attention(8, 4, kv_heads=2, **options).eval()


@pytest.mark.parametrize("over", [Causal("end"), Full(), Causal("end") & Window(3, 0, align="end")], ids=str)
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("align", ["softmax", "entmax15"])
@pytest.mark.parametrize("seed", range(3))
def test_ragged_sequences_grow_as_each_alone(seed, align, rotary, over):
    """Random prompts, steps of random batches, ends and new sequences, beside a Cache for each."""
    rng, attention = random.Random(seed), layer(rotary=rotary, align=align)
    pool, alone = PagedCache(pages=100, page_size=rng.choice([1, 3, 4])), {}
    with torch.no_grad():
        for _ in range(12):
            if not alone or rng.random() < 0.3:
                one = pool.begin()
                alone[one] = Cache()
                batch, n = [one], rng.randint(1, 6)
            elif rng.random() < 0.15:
                ended = rng.choice(list(alone))
                pool.release(ended)
                del alone[ended]
                continue
            else:
                batch, n = rng.sample(list(alone), rng.randint(1, len(alone))), rng.choice([1, 1, 2])
            x = torch.randn(len(batch), n, 8)
            out, amap = attention(x, over=over, cache=pool.of(batch))
            for place, one in enumerate(batch):
                expected, map_alone = attention(x[place : place + 1], over=over, cache=alone[one])
                assert_close(out[place], expected[0], atol=2e-6, rtol=1e-4)
                length = alone[one].length
                assert_close(amap.weights()[place, ..., :length], map_alone.weights()[0], atol=2e-6, rtol=1e-4)
                assert not amap.weights()[place, ..., length:].any()
    assert pool.lengths(list(alone)).tolist() == [cache.length for cache in alone.values()]
    for one in list(alone):
        pool.release(one)
    assert pool.free == pool.pages


def test_a_fork_shares_its_full_pages_and_grows_apart():
    attention, pool = layer(), PagedCache(pages=8, page_size=4)
    x = torch.randn(1, 6, 8)
    with torch.no_grad():
        first = pool.begin()
        attention(x, over=Causal("end"), cache=pool.of([first]))
        second = pool.fork(first)
        assert pool.pages - pool.free == 3  # one shared, and two last ones
        steps = torch.randn(2, 1, 8)
        out = attention(steps, over=Causal("end"), cache=pool.of([first, second])).out
        for place in range(2):
            whole = torch.cat([x, steps[place : place + 1]], 1)
            assert_close(out[place], attention(whole, over=Causal()).out[0, -1:], atol=2e-6, rtol=1e-4)
        third = pool.fork(first)
        pool.truncate(third, 3)  # within a shared page: the next row must not be written into it
        attention(torch.randn(1, 1, 8), over=Causal("end"), cache=pool.of([third]))
        again = attention(torch.zeros(1, 1, 8), over=Causal("end"), cache=pool.of([first])).out
        whole = torch.cat([x, steps[:1], torch.zeros(1, 1, 8)], 1)
        assert_close(again[0], attention(whole, over=Causal()).out[0, -1:], atol=2e-6, rtol=1e-4)


def test_block_tables_of_others_are_read():
    """A pool in vLLM's layout: pages in any order."""
    keys, values = torch.randn(6, 4, 2, 3), torch.randn(6, 4, 2, 5)
    tables, lengths = torch.tensor([[4, 1], [2, 0]], dtype=torch.int32), torch.tensor([7, 2])
    pool = PagedCache.holding(keys, values, tables, lengths)
    assert pool.block_tables([0, 1]).tolist() == [[4, 1], [2, 0]] and pool.free == 3
    q = torch.randn(2, 2, 1, 3)
    k, v, padding = pool.gathered([0, 1])
    out = attend(q, k, v, over=padding).out
    for place, (pages, length) in enumerate([([4, 1], 7), ([2], 2)]):
        own = [x[pages].flatten(0, 1)[:length].transpose(0, 1) for x in (keys, values)]
        assert_close(out[place], attend(q[place], *own).out)


def test_a_step_that_fails_has_not_happened():
    attention, pool = layer(), PagedCache(pages=8, page_size=2)
    with torch.no_grad():
        one = pool.begin()
        attention(torch.randn(1, 3, 8), over=Causal("end"), cache=pool.of([one]))
        with pytest.raises(Refused):
            attention(torch.randn(1, 1, 8), over=Causal("end"), cache=pool.of([one]), backend="edges-cpu")
    assert pool.lengths([one]).tolist() == [3] and pool.free == 6


def test_what_a_paged_cache_cannot_do_is_said():
    attention, pool = layer(), PagedCache(pages=2, page_size=2)
    one = pool.begin()
    with pytest.raises(ValueError, match=r"torch\.no_grad"):
        attention(torch.randn(1, 1, 8), over=Causal("end"), cache=pool.of([one]))
    with torch.no_grad():
        for call, kind, words in (
            (
                lambda: attention(torch.randn(1, 5, 8), over=Causal("end"), cache=pool.of([one])),
                RuntimeError,
                "free pages",
            ),
            (lambda: attention(torch.randn(1, 1, 8), over=Causal(), cache=pool.of([one])), Refused, r'Causal\("end"\)'),
            (lambda: attention(torch.randn(1, 1, 8), cache=pool.of([one])), ValueError, "needs over="),
            (lambda: pool.of([one, one]), ValueError, "twice"),
            (lambda: pool.of([7]), KeyError, "begin"),
            (lambda: PagedCache(0), ValueError, "pages"),
            (lambda: pool.truncate(one, 9), ValueError, "expected 0"),
            (lambda: pool.of([one]).reorder(torch.tensor([0])), Refused, "fork"),
        ):
            with pytest.raises(kind, match=words):
                call()
    assert pool.lengths([one]).tolist() == [0] and "0 of 2 pages" in repr(pool)
    assert regard.nn.PagedCache is PagedCache
