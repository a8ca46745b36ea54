"""Co-attention: alternating, interactive, parallel, flowing both ways, multi-grained, each against a plain loop."""

import pytest
import torch
from tests.nn.unrolled import mixed, pair, read, weights
from torch.testing import assert_close

from regard import Padding, QueryFree
from regard.nn import (
    AlternatingCoAttention,
    AttentionFlow,
    AttentionPooling,
    InteractiveCoAttention,
    MultiGrainedCoAttention,
    ParallelCoAttention,
)


def two(first=4, second=3, n=5, m=6):
    return torch.randn(2, n, first, dtype=torch.float64), torch.randn(2, m, second, dtype=torch.float64)


def built(kind, *sizes, **options):
    made = kind(*sizes, **options).double()
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_alternating_is_three_turns(tied):
    made, (first, second) = built(AlternatingCoAttention, 4, 3, tied=tied), two()
    found = made(first, second)
    for item in range(2):
        one, other = first[item], second[item]
        start = made.first.score if tied else made.summary.score
        c0 = read(start, torch.zeros(3, dtype=torch.float64), one)
        c2 = read(made.second.score, c0, other)
        c1 = read(made.first.score, c2, one)
        assert_close(found.out[item], torch.cat([c1, c2]))
        assert_close(found.steps["summary"].out[item, 0], c0)


def test_alternating_without_a_query_in_its_last_turn_keeps_the_summary():
    made, (first, second) = built(AlternatingCoAttention, 4, 3), two()
    torch.nn.init.zeros_(made.first.score.query)
    found = made(first, second)
    assert_close(found.steps["first"].out, found.steps["summary"].out)


def test_alternating_with_a_deaf_second_turn_has_no_gradient_from_it_to_the_first_input():
    made, (first, second) = built(AlternatingCoAttention, 4, 3), two()
    torch.nn.init.zeros_(made.second.score.query)
    first.requires_grad_()
    made(first, second).out[..., 4:].sum().backward()
    assert first.grad.abs().max() == 0


def test_alternating_over_one_position_returns_it():
    made, (first, second) = built(AlternatingCoAttention, 4, 3), two(n=1)
    found = made(first, second)
    assert_close(found.out[:, :4], first[:, 0])
    assert_close(found.steps["summary"].out, first)


def test_interactive_asks_with_the_mean_of_the_other():
    made, (first, second) = built(InteractiveCoAttention, 4, 3), two()
    found = made(first, second, Padding(torch.tensor([5, 3])), Padding(torch.tensor([6, 2])))
    for item, (n, m) in enumerate(((5, 6), (3, 2))):
        one, other = first[item, :n], second[item, :m]
        c1 = read(made.first.score, sum(other) / m, one)
        c2 = read(made.second.score, sum(one) / n, other)
        assert_close(found.out[item], torch.cat([c1, c2]))


def test_interactive_is_symmetric():
    made, (first, second) = built(InteractiveCoAttention, 4, 3), two()
    swapped = InteractiveCoAttention(3, 4).double()
    swapped.first.load_state_dict(made.second.state_dict())
    swapped.second.load_state_dict(made.first.state_dict())
    assert_close(swapped(second, first).out, made(first, second).out.roll(3, -1))


@pytest.mark.parametrize("reading", ["aggregated", "max"])
def test_parallel_compares_every_pair(reading):
    made, (first, second) = built(ParallelCoAttention, 4, 3, reading=reading, width=5), two()
    lengths = torch.tensor([5, 3]), torch.tensor([6, 2])
    found = made(first, second, *map(Padding, lengths))
    matrix = made.affinity.score.score.matrix[0]  # (d_k, d_q): of the second and the first
    for item in range(2):
        one, other = first[item, : lengths[0][item]], second[item, : lengths[1][item]]
        table = [[torch.tanh(b @ matrix @ a) for b in other] for a in one]
        if reading == "max":
            e1 = [max(row) for row in table]
            e2 = [max(row[j] for row in table) for j in range(len(other))]
        else:
            left, right = made.lin_first.weight, made.lin_second.weight
            w1, w2 = made.out_first.weight[0], made.out_second.weight[0]
            n, m = range(len(one)), range(len(other))
            e1 = [w1 @ torch.tanh(left @ one[i] + sum(table[i][j] * (right @ other[j]) for j in m)) for i in n]
            e2 = [w2 @ torch.tanh(right @ other[j] + sum(table[i][j] * (left @ one[i]) for i in n)) for j in m]
        expected = [mixed(weights(e1), one), mixed(weights(e2), other)]
        assert_close(found.out[item], torch.cat(expected))


def test_parallel_is_symmetric_with_the_transposed_affinity():
    made, (first, second) = built(ParallelCoAttention, 4, 3, width=5), two()
    swapped = ParallelCoAttention(3, 4, width=5).double()
    with torch.no_grad():
        swapped.affinity.score.score.matrix.copy_(made.affinity.score.score.matrix.transpose(-1, -2))
        for mine, other in (("first", "second"), ("second", "first")):
            for part in ("lin_", "out_"):
                getattr(swapped, part + mine).weight.copy_(getattr(made, part + other).weight)
    assert_close(swapped(second, first).out, made(first, second).out.roll(3, -1))


def test_parallel_without_affinity_weighs_each_input_by_itself():
    made, (first, second) = built(ParallelCoAttention, 4, 3, width=5), two()
    torch.nn.init.zeros_(made.affinity.score.score.matrix)
    alone = AttentionPooling(4, score=QueryFree(4, 5)).double()
    with torch.no_grad():
        alone.attention.score.key.copy_(made.lin_first.weight[None])
        alone.attention.score.w.copy_(made.out_first.weight)
    assert_close(made(first, second).out[:, :4], alone(first).out)


def test_parallel_does_not_mind_the_order_of_either_input():
    made, (first, second) = built(ParallelCoAttention, 4, 3), two()
    found = made(first[:, torch.tensor([2, 0, 4, 1, 3])], second.flip(1))
    assert_close(found.out, made(first, second).out)


def test_parallel_contexts_may_be_added():
    made, (first, second) = built(ParallelCoAttention, 4, combine="sum"), two(second=4)
    found = made(first, second)
    assert_close(found.out, found.steps["first"].out[:, 0] + found.steps["second"].out[:, 0])


def test_flow_is_bidafs_readout():
    made, (first, second) = built(AttentionFlow, 4), two(second=4)
    found = made(first, second)
    for item in range(2):
        one, other = first[item], second[item]
        table = [[pair(made.affinity.score, a, b) for b in other] for a in one]
        h = mixed(weights([max(row) for row in table]), one)
        for i, (a, row) in enumerate(zip(one, table, strict=True)):
            u = mixed(weights(row), other)
            assert_close(found.out[item, i], torch.cat([a, u, a * u, a * h]))


def test_flow_reads_the_second_input_whatever_the_first_block_of_the_trilinear_affinity():
    made, (first, second) = built(AttentionFlow, 4), two(second=4)
    before = made(first, second).steps["second"].map.weights()
    torch.nn.init.normal_(made.affinity.score.weights[0])
    assert_close(made(first, second).steps["second"].map.weights(), before)


def test_quarters_of_multi_grained_are_the_mechanisms_alone():
    made, (first, second) = built(MultiGrainedCoAttention, 4), two(second=4)
    over = Padding(torch.tensor([5, 3])), Padding(torch.tensor([6, 2]))
    found = made(first, second, *over)
    assert_close(found.out[:, :8], made.coarse(first, second, *over).out)
    fine = ParallelCoAttention(4, score="trilinear", reading="max").double()
    fine.affinity.load_state_dict(made.fine.affinity.state_dict())
    assert_close(found.out[:, 8:], fine(first, second, *over).out)


def test_mgan_reads_the_aspect_through_every_word():
    made, (first, second) = built(MultiGrainedCoAttention, 4, form="mgan"), two(second=4)
    found = made(first, second, Padding(torch.tensor([5, 3])), Padding(torch.tensor([6, 2])))
    for item, (n, m) in enumerate(((5, 6), (3, 2))):
        words, aspect = first[item, :n], second[item, :m]
        coarse = [
            read(made.coarse.first.score, sum(aspect) / m, words),
            read(made.coarse.second.score, sum(words) / n, aspect),
        ]
        table = [[pair(made.fine.affinity.score, a, b) for b in aspect] for a in words]
        fine = mixed(weights([max(row) for row in table]), words)
        through = sum(mixed(weights(row), aspect) for row in table) / n
        assert_close(found.out[item], torch.cat([*coarse, fine, through]))


@pytest.mark.parametrize("form", ["survey", "mgan"])
def test_a_constant_affinity_makes_the_fine_look_a_mean(form):
    made, (first, second) = built(MultiGrainedCoAttention, 4, form=form), two(second=4)
    torch.nn.init.zeros_(made.fine.affinity.score.weights)
    assert_close(made(first, second).out[:, 8:], torch.cat([first.mean(1), second.mean(1)], -1))
