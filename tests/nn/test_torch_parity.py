"""The weights of an nn.MultiheadAttention give its numbers in nn.Attention, and zeros where torch has NaN."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard import Causal, Mask, Padding
from regard.nn import Attention

DIM, HEADS, BATCH, N, M = 12, 3, 2, 5, 7
KINDS = {
    "plain": {},
    "no bias": {"bias": False},
    "other widths": {"kdim": 8, "vdim": 6},
    "other widths, no bias": {"kdim": 8, "vdim": 6, "bias": False},
    "other key": {"kdim": 8},
}


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pair(**options) -> tuple[nn.MultiheadAttention, Attention]:
    torch.manual_seed(0)
    mha = nn.MultiheadAttention(DIM, HEADS, batch_first=True, dtype=torch.float64, **options)
    for name, parameter in mha.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.3)
    return mha, Attention.from_torch(mha)


def gradients_of_torch(mha: nn.MultiheadAttention) -> dict[str, Tensor]:
    """The gradients of mha under the names of Attention."""
    found = {name: p.grad for name, p in mha.named_parameters()}
    named: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        whole = found.pop(f"in_proj_{kind}", None)
        if whole is not None:
            named |= {f"{x}_proj.{kind}": part for x, part in zip("qkv", whole.chunk(3), strict=True)}
    return named | {name.replace("proj_weight", "proj.weight"): grad for name, grad in found.items()}


def assert_same(mha, ours, query, key, value, over=None, **masks) -> None:
    theirs, weights = mha(query, key, value, average_attn_weights=False, **masks)
    found = ours(query, key, value, over=over)
    assert_close(found.out, theirs)
    assert_close(found.map.weights(), weights)
    _, averaged = mha(query, key, value, **masks)
    assert_close(found.map.weights().mean(-3), averaged)
    mha.zero_grad()
    theirs.square().sum().backward()
    found.out.square().sum().backward()
    wanted = gradients_of_torch(mha)
    assert wanted.keys() == dict(ours.named_parameters()).keys()
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, wanted[name], msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("kind", KINDS)
def test_cross_attention(kind):
    mha, ours = pair(**KINDS[kind])
    query, key, value = inputs(BATCH, N, DIM), inputs(BATCH, M, mha.kdim, seed=1), inputs(BATCH, M, mha.vdim, seed=2)
    assert_same(mha, ours, query, key, value)


@pytest.mark.parametrize("kind", ["plain", "no bias"])
def test_self_attention(kind):
    x = inputs(BATCH, N, DIM)
    assert_same(*pair(**KINDS[kind]), x, x, x)


def test_causal_attention():
    x = inputs(BATCH, N, DIM)
    ahead = torch.ones(N, N, dtype=torch.bool).triu(1)
    assert_same(*pair(), x, x, x, over=Causal(), attn_mask=ahead, is_causal=True)


def test_a_mask_for_each_head():
    query, memory = inputs(BATCH, N, DIM), inputs(BATCH, M, DIM, seed=1)
    drop = torch.rand(BATCH, HEADS, N, M, generator=torch.Generator().manual_seed(0)) < 0.4
    drop[..., 0] = False
    assert_same(*pair(), query, memory, memory, over=Mask(keep=~drop), attn_mask=drop.flatten(0, 1))


@pytest.mark.parametrize("way", ["Padding", "Mask"])
def test_key_padding(way):
    query, memory, lengths = inputs(BATCH, N, DIM), inputs(BATCH, M, DIM, seed=1), torch.tensor([3, M])
    padding = torch.arange(M) >= lengths[:, None]
    over = Padding(lengths) if way == "Padding" else Mask(keep=~padding[:, None, None])
    assert_same(*pair(), query, memory, memory, over=over, key_padding_mask=padding)


def test_a_fully_padded_item_gives_zeros_where_torch_gives_nan():
    mha, ours = pair()
    query, memory, lengths = inputs(BATCH, N, DIM), inputs(BATCH, M, DIM, seed=1), torch.tensor([0, M])
    theirs, _ = mha(query, memory, memory, key_padding_mask=torch.arange(M) >= lengths[:, None])
    assert bool(theirs[0].isnan().all())
    found = ours(query, memory, over=Padding(lengths))
    assert_close(found.out[0], ours.out_proj.bias.expand(N, DIM))
    assert_close(found.out[1], theirs[1])
    assert bool((found.map.weights()[0] == 0).all())
    found.out.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in ours.parameters())


def test_length_first_modules_give_their_numbers_batch_first():
    torch.manual_seed(0)
    mha = nn.MultiheadAttention(DIM, HEADS, batch_first=False, dtype=torch.float64)
    x = inputs(BATCH, N, DIM)
    theirs, _ = mha(*[x.transpose(0, 1)] * 3)
    assert_close(Attention.from_torch(mha)(x).out, theirs.transpose(0, 1))


def test_an_item_without_batch():
    mha, ours = pair()
    x = inputs(N, DIM)
    theirs, weights = mha(x, x, x, average_attn_weights=False)
    assert_close(ours(x).out, theirs)
    assert_close(ours(x).map.weights(), weights)


def test_mode_precision_and_dropout_come_along():
    mha = nn.MultiheadAttention(DIM, HEADS, dropout=0.25).half().eval()
    ours = Attention.from_torch(mha)
    assert ours.dropout == 0.25
    assert not ours.training
    assert ours.q_proj.weight.dtype == torch.float16


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_torch_loads_directly(kind):
    mha, ours = pair(**KINDS[kind])
    fresh = Attention(DIM, HEADS, key_dim=mha.kdim, value_dim=mha.vdim, bias=mha.in_proj_bias is not None)
    fresh = fresh.double()
    fresh.load_state_dict(mha.state_dict())
    for name, parameter in fresh.named_parameters():
        assert torch.equal(parameter, ours.state_dict()[name])


def test_the_state_of_a_whole_torch_model_loads():
    class Model(nn.Module):
        def __init__(self, attention):
            super().__init__()
            self.attention, self.head = attention, nn.Linear(DIM, 2)

    theirs, ours = Model(nn.MultiheadAttention(DIM, HEADS)), Model(Attention(DIM, HEADS))
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours.attention.k_proj.weight, theirs.attention.in_proj_weight[DIM : 2 * DIM])


def test_what_has_no_counterpart_is_refused_with_a_way_around():
    with pytest.raises(ValueError, match=r"add_bias_kv=True.*Append that row"):
        Attention.from_torch(nn.MultiheadAttention(DIM, HEADS, add_bias_kv=True))
    with pytest.raises(ValueError, match=r"add_zero_attn=True.*Sink\(heads\)"):
        Attention.from_torch(nn.MultiheadAttention(DIM, HEADS, add_zero_attn=True))
    with pytest.raises(TypeError, match=r"got Linear.*nn\.MultiheadAttention"):
        Attention.from_torch(nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="add_bias_kv"):
        Attention(DIM, HEADS).load_state_dict(nn.MultiheadAttention(DIM, HEADS, add_bias_kv=True).state_dict())
