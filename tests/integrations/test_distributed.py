"""A sharded sequence is attended as in one process: random calls in 2 and 4 gloo processes."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.integrations.processes import run

import regard
from regard.core.errors import Refused
from regard.core.structures import Full
from regard.integrations.distributed import ShardedAttention, attend_sharded, layout
from regard.integrations.distributed.restricted import restricted

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without torch.distributed")


@pytest.mark.parametrize("processes", [2, 4])
def test_random_calls_over_shards_give_what_one_process_gives(processes):
    ways = run(processes, Path(__file__).parent / "sharded_cases.py")
    assert all(one == ways[0] for one in ways)
    assert set(ways[0]) >= {"ring", "gather"}


STRUCTURES = {
    "full": (regard.Full(), 12, 12),
    "causal": (regard.Causal(), 12, 12),
    "causal to the end": (regard.Causal("end"), 6, 12),
    "causal from the start": (regard.Causal("start"), 12, 6),
    "window": (regard.Window(2, 1), 12, 12),
    "behind": (regard.Window(4, -2), 12, 12),
    "padding": (regard.Padding(torch.tensor([3])), 12, 12),
    "segments": (regard.Segments(torch.arange(12) // 5), 12, 12),
    "mask": (regard.Mask(keep=torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) < 0.5), 12, 12),
    "joined": (regard.Causal() & regard.Window(3, 3) & regard.Padding(torch.tensor([9])), 12, 12),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_part_of_a_structure_allows_the_pairs_of_the_whole(name):
    over, n, m = STRUCTURES[name]
    whole = _pairs(over, n, m)
    for rows in range(1, n + 1):
        for row in range(0, n - rows + 1, 2):
            for cols in (1, 3, m):
                for col in range(0, m - cols + 1, 3):
                    wanted = whole[row : row + rows, col : col + cols]
                    part = restricted(over, n, m, row, rows, col, cols)
                    if part is None:
                        assert not wanted.any()
                    else:
                        assert torch.equal(_pairs(part, rows, cols), wanted), (row, rows, col, cols, part)


def _pairs(over, n, m):
    q, k = torch.zeros(1, 1, n, 2), torch.zeros(1, 1, m, 2)
    return regard.attend(q, k, k, over=over).map.allowed(slice(0, n), slice(0, m))[0] > 0


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_under_a_causal_structure_zigzag_gives_every_process_the_same_pairs(ranks):
    size = 2 * ranks * 4
    pairs = []
    for rank in range(ranks):
        rows = [i for held, start in layout.spans(rank, ranks, 8, "zigzag") for i in range(start, start + 4)]
        pairs.append(sum(i + 1 for i in rows))
    assert len(set(pairs)) == 1 and sum(pairs) == size * (size + 1) // 2


def test_without_a_process_group_the_next_step_is_said():
    q = torch.zeros(1, 1, 2, 2)
    with pytest.raises(RuntimeError, match="init_process_group"):
        attend_sharded(q, q, q)
    with pytest.raises(Refused, match="dropout"):
        ShardedAttention(regard.nn.Attention(4, 1, dropout=0.1))
    assert restricted(Full(), 4, 4, 0, 2, 2, 2) is not None
