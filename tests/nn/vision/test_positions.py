"""Attention over places, times, channels, memories and descriptors, against the formulas of the papers."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Mask, Padding, Segments
from regard.nn import (
    Attention,
    AttentionFree,
    ChannelAttention,
    DoubleAttention,
    DualAttention,
    ExternalAttention,
    NonLocalBlock,
    SpatialAttention,
    TemporalAttention,
)


def picture(channels=6):
    return torch.randn(2, channels, 3, 5, dtype=torch.float64)


def test_a_non_local_block_starts_as_the_identity():
    x = picture()
    assert_close(NonLocalBlock(6).double()(x).out, x)


def test_a_non_local_block_is_wangs_embedded_gaussian():
    made, x = NonLocalBlock(6, 4).double(), picture()
    inner = made.attention
    torch.nn.init.normal_(inner.out_proj.weight)
    flat = x.flatten(2)  # (2, 6, 15)
    theta, phi, g = (
        torch.einsum("oc,bcn->bon", p.weight, flat) + p.bias[:, None]
        for p in (inner.q_proj, inner.k_proj, inner.v_proj)
    )
    weights = torch.softmax(torch.einsum("bci,bcj->bij", theta, phi), -1)
    y = torch.einsum("bij,bcj->bci", weights, g)
    z = torch.einsum("oc,bcn->bon", inner.out_proj.weight, y) + inner.out_proj.bias[:, None]
    assert_close(made(x).out, (flat + z).reshape(x.shape))


@pytest.mark.parametrize("double", [True, False], ids=["double", "single"])
def test_external_attention_is_guos_normalisation(double):
    made, x = ExternalAttention(4, 5, double=double).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    scores = x @ made.keys.T  # (2, 6, 5)
    weights = torch.softmax(scores, 1 if double else 2)  # over positions, as the paper has it, or over slots
    weights = weights / weights.sum(2, keepdim=True)
    found = made(x)
    assert_close(found.map.weights()[:, 0], weights)
    assert_close(found.out, weights @ made.values)


def test_padding_takes_no_part_in_the_double_normalisation():
    made, x = ExternalAttention(4, 5).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    found = made(x, Padding(torch.tensor([6, 2])))
    assert_close(found.out[1, :2], made(x[1:, :2]).out[0])


def test_positions_do_not_influence_one_another_without_the_double_normalisation():
    x = torch.randn(1, 6, 4, dtype=torch.float64)
    for double in (False, True):
        made = ExternalAttention(4, 5, double=double).double()
        changed = x.clone()
        changed[:, 3:] = 0
        assert torch.allclose(made(changed).out[:, :3], made(x).out[:, :3]) is not double


@pytest.mark.parametrize(("length", "window"), [(None, None), (8, None), (8, 2)], ids=["simple", "full", "local"])
def test_the_attention_free_transformer_is_zhais_formula(length, window):
    made, x = AttentionFree(4, length, window).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    if made.table is not None:
        torch.nn.init.normal_(made.table)
    q, k, v = made.lin_query(x), made.lin_key(x), made.lin_value(x)
    rows = []
    for t in range(6):
        bias = torch.zeros(6, dtype=torch.float64)
        for s in range(6):
            if length is not None and (window is None or abs(t - s) < window):
                bias[s] = made.table[t, s]
        mass = torch.exp(k + bias[:, None])
        rows.append(torch.sigmoid(q[:, t]) * (mass * v).sum(1) / mass.sum(1))
    assert_close(made(x).out, made.lin_out(torch.stack(rows, 1)))


def test_without_a_table_all_positions_read_the_same():
    weights = AttentionFree(4).double()(torch.randn(2, 6, 4, dtype=torch.float64)).map.weights()
    assert_close(weights, weights[..., :1, :].expand_as(weights))


def test_a_longer_image_than_the_table_is_refused():
    with pytest.raises(ValueError, match="build it longer"):
        AttentionFree(4, 3)(torch.zeros(1, 5, 4))


def test_spatial_attention_stays_within_a_frame_and_temporal_attention_at_a_place():
    video = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    space, time = SpatialAttention(4, 2).double(), TemporalAttention(4, 2).double()
    same = Attention(4, 2, dtype=torch.float64)
    same.load_state_dict(space.attention.state_dict())
    expected = torch.stack([same(video[:, t]).out for t in range(3)], 1)
    assert_close(space(video).out, expected)
    same.load_state_dict(time.attention.state_dict())
    expected = torch.stack([same(video[:, :, p], over=Causal()).out for p in range(5)], 2)
    assert_close(time(video, Causal()).out, expected)


def test_padded_times_are_closed_at_every_place():
    video, time = torch.randn(2, 3, 5, 4, dtype=torch.float64), TemporalAttention(4).double()
    lengths = torch.tensor([3, 2])
    found = time(video, Padding(lengths[:, None]))
    assert_close(found.out[1, :2], time(video[1:, :2]).out[0])


def test_channel_attention_is_danets():
    made, x = ChannelAttention(6).double(), picture()
    torch.nn.init.constant_(made.gamma, 0.7)
    rows = x.flatten(2)
    energy = rows @ rows.transpose(1, 2)
    weights = torch.softmax(energy.max(-1, keepdim=True).values - energy, -1)
    assert_close(made(x).out, x + 0.7 * (weights @ rows).reshape(x.shape))


def test_dual_attention_adds_both_looks():
    made, x = DualAttention(6, 2).double(), picture()
    assert_close(made(x).out, 2 * x)
    torch.nn.init.constant_(made.gamma, 0.5)
    torch.nn.init.constant_(made.channels.gamma, 0.7)
    places = made.places(x.flatten(2).transpose(1, 2)).out.transpose(1, 2).reshape(x.shape)
    assert_close(made(x).out, x + 0.5 * places + made.channels(x).out)


def test_double_attention_gathers_and_distributes():
    made, x = DoubleAttention(6, 4, 3).double(), picture()
    flat = x.flatten(2)  # (2, 6, 15)
    a = torch.einsum("oc,bcn->bon", made.value.weight, flat) + made.value.bias[:, None]
    gather = torch.softmax(torch.einsum("rc,bcn->brn", made.queries, flat), -1)
    descriptors = torch.einsum("brn,bon->bor", gather, a)
    distribute = torch.softmax(torch.einsum("rc,bcn->brn", made.keys, flat), 1)
    z = torch.einsum("bor,brn->bon", descriptors, distribute)
    out = torch.einsum("co,bon->bcn", made.out.weight, z) + made.out.bias[:, None]
    assert_close(made(x).out, out.reshape(x.shape))


def test_axial_and_window_attention_are_segments_of_a_grid():
    """What the page of compositions says in one line, against loops over rows, columns and windows."""
    h, w, size = 4, 6, 2
    x, layer = torch.randn(1, h * w, 4, dtype=torch.float64), Attention(4, 2, dtype=torch.float64)
    place = torch.arange(h * w)
    row, column = place // w, place % w
    same = {
        "rows": row,
        "columns": column,
        "windows": row // size * (w // size) + column // size,
    }
    for ids in same.values():
        found = layer(x, over=Segments(ids)).out
        for segment in ids.unique():
            inside = ids == segment
            assert_close(found[:, inside], layer(x[:, inside]).out)
    cross = Mask(keep=(row[:, None] == row) | (column[:, None] == column))
    inside = (row == 1) | (column == 2)
    alone = layer(x[:, w + 2 : w + 3], x[:, inside])
    assert_close(layer(x, over=cross).out[:, w + 2], alone.out[:, 0])
