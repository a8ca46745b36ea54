"""Philox-4x32-10 gives the words that its authors published."""

import pytest
import torch

from regard.core.lowering.philox import as_seed, philox
from regard.core.lowering.tiles import Tile

# Random123's kat_vectors: counter, key, words
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_the_published_words_come_out(counter, key, words):
    seed = key[0] | key[1] << 32
    seed = torch.tensor(seed - (1 << 64) if seed >> 63 else seed)  # as a signed 64-bit number
    assert tuple(int(word) for word in philox(seed, *(torch.tensor(c) for c in counter))) == words


def whole(seed, heads=3, n=5, m=11):
    return Tile.whole(2, heads, n, m, torch.device("cpu")).uniform(as_seed(seed, torch.device("cpu")))


def test_a_tile_draws_what_the_whole_draws_there():
    every = whole(5)
    for rows, cols in ((slice(1, 4), slice(0, 11)), (slice(0, 5), slice(3, 10)), (slice(2, 3), slice(5, 6))):
        for slab in (slice(0, 6), slice(2, 5)):
            tile = Tile.dense(3, 5, 11, torch.device("cpu"), slab, rows, cols)
            assert torch.equal(tile.uniform(torch.tensor(5)), every[slab, rows, cols])
    index = torch.tensor([9, 0, 4])
    tile = Tile.dense(3, 5, 11, torch.device("cpu"), slice(0, 6), torch.tensor([4, 1]), index)
    assert torch.equal(tile.uniform(torch.tensor(5)), every[:, [4, 1]][:, :, index])


def test_draws_are_uniform_and_differ_by_seed_batch_head_row_and_column():
    draws = whole(1, heads=4, n=50, m=501)
    assert draws.min() > 0 and draws.max() < 1
    assert abs(draws.mean() - 0.5) < 4 / (12 * draws.numel()) ** 0.5  # four standard deviations
    counts = torch.histc(draws, 64, 0, 1)
    assert ((counts - draws.numel() / 64) ** 2 / (draws.numel() / 64)).sum() < 63 + 4 * (2 * 63) ** 0.5
    assert draws.unique().numel() > 0.98 * draws.numel()  # 2^23 numbers: one pair in a hundred meets by chance
    assert (whole(2, heads=4, n=50, m=501) == draws).double().mean() < 1e-3


def test_an_edge_draws_by_its_own_number_wherever_it_stands():
    edge = torch.tensor([[4, 0], [2, 7]])
    flat = torch.arange(6)[:, None, None]

    def draw(ids):
        return Tile(flat // 3, flat % 3, torch.arange(2)[None, :, None], ids[None], 2, 9, None, ids[None]).uniform(
            torch.tensor(3)
        )

    assert torch.equal(draw(edge).flip(1, 2), draw(edge.flip(0, 1)))
    assert draw(edge).unique().numel() == 24
