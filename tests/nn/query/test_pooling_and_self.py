"""Where a query comes from: learned, or the features themselves; structured self-attention and its penalty."""

import torch
from tests.nn.unrolled import mixed, read, weights
from torch.testing import assert_close

from regard import Mask, Padding, attend
from regard.nn import Attention, AttentionPooling, SelfAttention, StructuredSelfAttention


def rows(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_pooling_is_read_by_nobody():
    made, x = AttentionPooling(4).double(), rows(2, 5, 4)
    found = made(x, Padding(torch.tensor([5, 2])))
    for item, n in enumerate((5, 2)):
        assert_close(found.out[item], read(made.attention.score, None, x[item, :n]))


def test_pooling_with_a_score_that_asks_has_one_learned_query():
    made, x = AttentionPooling(4, score="additive").double(), rows(2, 5, 4)
    assert_close(made(x).out[0], read(made.attention.score, made.attention.query, x[0]))


def test_pooling_does_not_mind_the_order_and_self_attention_follows_it():
    x, order = rows(2, 5, 4), torch.tensor([3, 1, 4, 0, 2])
    pool, layer = AttentionPooling(4).double(), SelfAttention(4, 2).double()
    assert_close(pool(x[:, order]).out, pool(x).out)
    assert_close(layer(x[:, order]).out, layer(x).out[:, order])


def test_a_constant_query_is_self_attention_of_one_row():
    x, pool = rows(2, 5, 4), AttentionPooling(4, score="dot").double()
    row = pool.attention.query.expand(2, 1, 1, 4)
    assert_close(pool(x).out, attend(row, x[:, None], x[:, None], "dot").out[:, 0, 0])


def test_features_are_replaced_or_renewed():
    x = rows(2, 5, 4)
    replace, residual = SelfAttention(4, update="replace").double(), SelfAttention(4).double()
    residual.attention.load_state_dict(replace.attention.state_dict())
    read_there = Attention(4, 1, dtype=torch.float64)
    read_there.load_state_dict(replace.attention.state_dict())
    assert_close(replace(x).out, read_there(x).out)
    total = x + read_there(x).out
    normal = (total - total.mean(-1, keepdim=True)) / (total.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    assert_close(residual(x).out, normal)


def test_structured_attention_is_lins_formula():
    made, x = StructuredSelfAttention(4, 3, 5).double(), rows(2, 6, 4)
    found = made(x, Padding(torch.tensor([6, 2])))
    for item, n in enumerate((6, 2)):
        hidden = [torch.tanh(made.hidden.weight @ h) for h in x[item, :n]]
        for row in range(3):
            w = weights([made.queries[row] @ h for h in hidden])
            assert_close(found.out[item, row], mixed(w, x[item, :n]))


def test_the_penalty_is_the_distance_of_overlaps_from_the_identity():
    made, x = StructuredSelfAttention(4, 3, 5).double(), rows(2, 6, 4)
    found = made(x)
    a = found.map.weights()[:, 0]
    for item in range(2):
        expected = sum((a[item, i] @ a[item, j] - float(i == j)) ** 2 for i in range(3) for j in range(3))
        assert_close(made.penalty(found.map)[item].detach(), expected)


def test_the_penalty_is_zero_for_rows_on_different_single_positions():
    made, x = StructuredSelfAttention(4, 3).double(), rows(1, 5, 4)
    apart = torch.zeros(3, 5, dtype=torch.bool)
    apart[[0, 1, 2], [4, 0, 2]] = True
    together = torch.zeros(3, 5, dtype=torch.bool)
    together[:, 1] = True
    assert made.penalty(made(x, Mask(keep=apart)).map).abs().max() < 1e-12
    assert_close(made.penalty(made(x, Mask(keep=together)).map).detach(), torch.tensor([6.0], dtype=torch.float64))


def test_minimising_the_penalty_parts_the_rows():
    torch.manual_seed(0)
    made, x = StructuredSelfAttention(4, 2), torch.randn(1, 6, 4)
    optimiser = torch.optim.Adam(made.parameters(), lr=0.1)
    before = made.penalty(made(x).map).item()
    for _ in range(60):
        loss = made.penalty(made(x).map).mean()
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    assert loss.item() < 0.2 * before
