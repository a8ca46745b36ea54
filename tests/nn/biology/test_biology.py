"""Triangle and alignment attention, beside loops over residues, as the algorithms of AlphaFold 2 are written."""

import pytest
import torch
from torch.testing import assert_close

from regard import Padding
from regard.nn import MSAColumnAttention, MSARowAttention, TriangleAttention

DIM, HEADS, N, S = 8, 2, 5, 4


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def row(layer, x, bias):
    """One row x (n, dim), normed, with a bias (heads, n, n)."""
    q, k, v = (
        proj(x).unflatten(-1, (HEADS, -1)).transpose(0, 1) for proj in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    w = (q @ k.mT / q.shape[-1] ** 0.5 + bias).softmax(-1)
    gate = torch.sigmoid(layer.gate_proj(x))
    return layer.out_proj((w @ v).transpose(0, 1).flatten(1) * gate), w


@pytest.mark.parametrize("node", ["starting", "ending"])
def test_triangle_attention_is_the_algorithm(node):
    layer, z = TriangleAttention(DIM, HEADS, node=node), torch.randn(2, N, N, DIM)
    out, amap = layer(z)
    for b in range(2):
        side = z[b] if node == "starting" else z[b].transpose(0, 1)
        normed = layer.norm(side)
        bias = layer.bias_proj(normed).permute(2, 0, 1)
        for i in range(N):
            wanted, w = row(layer, normed[i], bias)
            assert_close(out[b, i] if node == "starting" else out[b, :, i], wanted)
            assert_close(amap[b, i].weights(), w.detach())


def test_msa_rows_share_the_bias_of_their_pairs_and_columns_have_none():
    rows, columns = MSARowAttention(DIM, HEADS, pair_dim=6), MSAColumnAttention(DIM, HEADS)
    m, z = torch.randn(2, S, N, DIM), torch.randn(2, N, N, 6)
    found, down = rows(m, z), columns(m)
    for b in range(2):
        bias = rows.bias_proj(rows.pair_norm(z[b])).permute(2, 0, 1)
        for s in range(S):
            assert_close(found.out[b, s], row(rows, rows.norm(m[b, s]), bias)[0])
        for i in range(N):
            assert_close(down.out[b, :, i], row(columns, columns.norm(m[b, :, i]), 0.0)[0])
    assert found.map.shape == (2, S, HEADS, N, N) and down.map.shape == (2, N, HEADS, S, S)


@pytest.mark.parametrize("backend", ["small", "large"])
def test_the_gradient_of_the_shared_bias_is_that_of_the_loop(backend):
    n = 5 if backend == "small" else 40  # on chunked
    layer, z = TriangleAttention(DIM, HEADS), torch.randn(2, n, n, DIM, requires_grad=True)
    mix = torch.randn(2, n, n, DIM)
    normed = layer.norm(z)
    wanted = torch.stack(
        [
            torch.stack([row(layer, normed[b, i], layer.bias_proj(normed[b]).permute(2, 0, 1))[0] for i in range(n)])
            for b in range(2)
        ]
    )
    leaves = [z, *layer.parameters()]
    found = torch.autograd.grad((layer(z).out * mix).sum(), leaves)
    for a, b in zip(found, torch.autograd.grad((wanted * mix).sum(), leaves), strict=True):
        assert_close(a, b)


def test_padding_residues_change_nothing_for_the_others():
    lengths = torch.tensor([N, 3])
    triangle, z = TriangleAttention(DIM, HEADS), torch.randn(2, N, N, DIM)
    rows, m, pairs = MSARowAttention(DIM, HEADS, pair_dim=6), torch.randn(2, S, N, DIM), torch.randn(2, N, N, 6)
    over = Padding(lengths[:, None])
    assert_close(triangle(z, over).out[1, :3, :3], triangle(z[1:, :3, :3]).out[0])
    assert_close(rows(m, pairs, over).out[1, :, :3], rows(m[1:, :, :3], pairs[1:, :3, :3]).out[0])
    assert not triangle(z, Padding(torch.zeros(2, 1, dtype=torch.long))).map.weights().any()


def test_wrong_shapes_say_what_was_expected():
    with pytest.raises(ValueError, match=r"expected pairs \(..., n, n, 8\)"):
        TriangleAttention(DIM, HEADS)(torch.randn(1, N, N + 1, DIM))
    with pytest.raises(ValueError, match="expected a pair representation exactly where"):
        MSARowAttention(DIM, HEADS)(torch.randn(1, S, N, DIM), torch.randn(1, N, N, 6))
    with pytest.raises(ValueError, match="built for width 8"):
        MSAColumnAttention(DIM, HEADS)(torch.randn(1, S, N, DIM + 1))
    with pytest.raises(ValueError, match='"starting" or "ending"'):
        TriangleAttention(DIM, HEADS, node="both")
