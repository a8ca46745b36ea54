"""Blocks that ended before a query."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, PastBlocks, attend


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("start", [0, 5])
def test_a_query_sees_the_blocks_that_ended_with_it_or_before(start, backend):
    q, k = torch.randn(1, 9, 4), torch.randn(1, 4, 4)
    w = attend(q, k, k, over=PastBlocks(3, start), backend=backend).map.weights()[0]
    for i in range(9):
        for b in range(4):
            assert (w[i, b] > 0) == (3 * b + 2 <= start + i)


def test_blocks_of_one_token_are_causal():
    q = torch.randn(1, 6, 4)
    assert_close(attend(q, q, q, over=PastBlocks(1)).out, attend(q, q, q, over=Causal()).out)
