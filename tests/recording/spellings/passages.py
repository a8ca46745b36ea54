"""Between the softmax and the product: what models do to weights."""

import torch
from torch import nn
from torch.nn import functional as F

from .spelling import Given, Spellings, softmax_weights

PASSAGES = Spellings()

PASSAGES.add(
    "exact",
    softmax_weights,
    {
        "dropout that is off": lambda g: F.dropout(g.w, 0.1, False) @ g.v,
        "dropout of nothing": lambda g: F.dropout(g.w, 0.0, True) @ g.v,
        "dropout": lambda g: F.dropout(g.w, 0.3, True) @ g.v,
        "dropout in place": lambda g: F.dropout(g.w, 0.3, True, True) @ g.v,
        "to another dtype and back": lambda g: g.w.double().to(torch.float32) @ g.v,
        "type_as, contiguous, clone": lambda g: g.w.type_as(g.v).contiguous().clone() @ g.v,
        "detach": lambda g: g.w.detach() @ g.v,
        "view and reshape": lambda g: (g.w.view(6, 6, 8).reshape(2, 3, 6, 8)) @ g.v,
        "flatten and unflatten": lambda g: torch.bmm(g.w.flatten(0, 1), g.v3).unflatten(0, (2, 3)),
        "transpose and back": lambda g: g.w.transpose(1, 2).transpose(2, 1) @ g.v,
        "permute and einsum": lambda g: torch.einsum("bnhm,bhmd->bnhd", g.w.permute(0, 2, 1, 3), g.v),
        "movedim and einsum": lambda g: torch.einsum("bnmh,bhmd->bnhd", g.w.movedim(1, -1), g.v),
        "unsqueeze, expand, squeeze": lambda g: g.w.unsqueeze(0).expand(1, 2, 3, 6, 8).squeeze(0) @ g.v,
        "nan_to_num": lambda g: torch.nan_to_num(g.w) @ g.v,
        "rows put together by cat": lambda g: torch.cat([g.w[:, :, :3], g.w[:, :, 3:]], 2) @ g.v,
        "heads put together by cat": lambda g: torch.cat([g.w[:, :1], g.w[:, 1:]], 1) @ g.v,
        "heads put together by stack": lambda g: torch.stack(list(g.w.unbind(1)), 1) @ g.v,
        "keys put together by cat": lambda g: torch.cat([g.w[..., :3], g.w[..., 3:]], -1) @ g.v,
        "copied into a buffer": lambda g: torch.empty(2, 3, 6, 8).copy_(g.w) @ g.v,
        "written into a buffer by an index": lambda g: _put(torch.empty(2, 3, 6, 8), slice(None), g.w) @ g.v,
        "rolled there and back": lambda g: torch.roll(torch.roll(g.w, 1, -1), -1, -1) @ g.v,
        "flipped twice": lambda g: g.w.flip(-1).flip(-1) @ g.v,
        "padded and cut": lambda g: F.pad(g.w, (1, 2))[..., 1:-2] @ g.v,
        "clamped between 0 and 1": lambda g: g.w.clamp(0, 1) @ g.v,
        "nn.Identity": lambda g: nn.Identity()(g.w) @ g.v,
        "multiplied by one": lambda g: g.w * 1.0 @ g.v,
    },
)


def _put(buffer: torch.Tensor, index: object, w: torch.Tensor) -> torch.Tensor:
    buffer[index] = w
    return buffer


PASSAGES.add(
    "missed",
    softmax_weights,
    {
        "keys split by chunk": lambda g: sum(w @ v for w, v in zip(g.w.chunk(2, -1), g.v.chunk(2, -2), strict=True)),
        "keys split by split": lambda g: sum(
            w @ v for w, v in zip(g.w.split([3, 5], -1), g.v.split([3, 5], -2), strict=True)
        ),
        "heads split by unbind": lambda g: torch.stack(
            [w @ v for w, v in zip(g.w.unbind(1), g.v.unbind(1), strict=True)], 1
        ),
        "heads by an index": lambda g: torch.stack([g.w[:, h] @ g.v[:, h] for h in range(3)], 1),
        "items split by tensor_split": lambda g: torch.cat(
            [w @ v for w, v in zip(g.w.tensor_split(2), g.v.tensor_split(2), strict=True)]
        ),
        "queries split by chunk": lambda g: torch.cat([w @ g.v for w in g.w.chunk(2, 2)], 2),
    },
)

half = torch.tensor([1, 0, 1, 1, 0, 1, 1, 1]).bool()
MASKED = {
    "masked by a product": lambda g: (g.w * half) @ g.v,
    "masked_fill": lambda g: g.w.masked_fill(~half, 0.0) @ g.v,
    "masked_fill_": lambda g: g.w.masked_fill_(~half, 0.0) @ g.v,
    "where": lambda g: torch.where(half, g.w, 0.0) @ g.v,
    "where by keyword": lambda g: torch.where(half, input=g.w, other=torch.zeros(())) @ g.v,
    "written into by an index": lambda g: _put(g.w, (..., ~half), 0.0) @ g.v,
    "index_fill_": lambda g: g.w.index_fill_(-1, torch.tensor([1, 4]), 0.0) @ g.v,
    "einsum with the mask as third operand": lambda g: torch.einsum("bhnm,m,bhmd->bhnd", g.w, half.float(), g.v),
}
PASSAGES.add("exact", lambda g: F.softmax(g.s, -1) * half, MASKED)

PASSAGES.add(
    "exact",
    lambda g: F.softmax(g.s, -1).roll(1, -1),
    {"rolled along the keys": lambda g: torch.roll(g.w, 1, -1) @ g.v},
)
PASSAGES.add(
    "exact",
    lambda g: F.pad(F.softmax(g.s, -1), (0, 2)),
    {"padded beside values that are padded": lambda g: F.pad(g.w, (0, 2)) @ F.pad(g.v, (0, 0, 0, 2))},
)
PASSAGES.add(
    "exact",
    lambda g: torch.cat([F.softmax(g.s, -1), torch.full((2, 3, 6, 1), 0.5)], -1),
    {
        "a constant key put beside": lambda g: (
            torch.cat([g.w, torch.full((2, 3, 6, 1), 0.5)], -1) @ torch.cat([g.v, g.v[:, :, :1]], 2)
        )
    },
)
PASSAGES.add(
    "exact",
    lambda g: F.softmax(g.s, -1)[..., [5, 3, 0]],
    {
        "keys picked by a list": lambda g: g.w[..., [5, 3, 0]] @ g.v[:, :, [5, 3, 0]],
        "keys picked by index_select": lambda g: (
            g.w.index_select(-1, torch.tensor([5, 3, 0])) @ g.v.index_select(2, torch.tensor([5, 3, 0]))
        ),
        "keys picked by gather": lambda g: (
            g.w.gather(-1, torch.tensor([5, 3, 0]).expand(2, 3, 6, 3)) @ g.v[:, :, [5, 3, 0]]
        ),
    },
)


def _kept(w: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(w).scatter(-1, w.topk(3, -1).indices, w.topk(3, -1).values)


@PASSAGES("missed", lambda g: _kept(F.softmax(g.s, -1)))
def top_k_scattered_into_zeros(g: Given) -> torch.Tensor:
    top = g.w.topk(3, -1)
    return torch.zeros(2, 3, 6, 8).scatter(-1, top.indices, top.values) @ g.v


@PASSAGES("missed", lambda g: _kept(F.softmax(g.s, -1)))
def top_k_scattered_in_place(g: Given) -> torch.Tensor:
    top = g.w.topk(3, -1)
    return torch.zeros(2, 3, 6, 8).scatter_(-1, top.indices, top.values) @ g.v


@PASSAGES("exact", lambda g: _kept(F.softmax(g.s, -1)))
def all_but_the_top_k_masked(g: Given) -> torch.Tensor:
    w = g.w
    return w.masked_fill(w < w.topk(3, -1).values[..., -1:], 0.0) @ g.v


@PASSAGES("missed", lambda g: F.normalize(F.softmax(g.s, -1) * half, p=1, dim=-1))
def masked_and_normalised_again(g: Given) -> torch.Tensor:
    w = g.w * half
    return (w / w.sum(-1, keepdim=True)) @ g.v


@PASSAGES("missed", lambda g: F.normalize(F.softmax(g.s, -1) ** 2, p=1, dim=-1))
def squared_and_normalised_again(g: Given) -> torch.Tensor:
    w = g.w**2
    return (w / w.sum(-1, keepdim=True)) @ g.v


@PASSAGES("missed", lambda g: F.softmax(g.s, -1).mean(1))
def averaged_over_heads(g: Given) -> torch.Tensor:
    return g.w.mean(1) @ g.v[:, 0]


@PASSAGES("missed", lambda g: torch.einsum("bhnm,hg->bgnm", F.softmax(g.s, -1), g.model.mix))
def heads_mixed_by_einsum(g: Given) -> torch.Tensor:
    """Talking heads."""
    return torch.einsum("bhnm,hg->bgnm", g.w, g.model.mix) @ g.v


def _mixed(g: Given) -> torch.Tensor:
    return g.model.extra["mix"](g.w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@PASSAGES("missed", _mixed, modules={"mix": lambda: nn.Linear(3, 3)})
def heads_mixed_by_a_linear_layer(g: Given) -> torch.Tensor:
    """As in CaiT."""
    return _mixed(g) @ g.v


def _convolved(g: Given) -> torch.Tensor:
    return g.model.extra["norm"](g.model.extra["mix"](g.w))


@PASSAGES("missed", _convolved, modules={"mix": lambda: nn.Conv2d(3, 3, 1), "norm": lambda: nn.BatchNorm2d(3)})
def heads_mixed_by_a_convolution(g: Given) -> torch.Tensor:
    """As in DeepViT."""
    return _convolved(g) @ g.v


def _normed(g: Given) -> torch.Tensor:
    w = torch.einsum("bhnm,hg->bgnm", g.w, g.model.mix)
    return g.model.extra["norm"](w.movedim(1, -1)).movedim(-1, 1)


@PASSAGES("missed", _normed, modules={"norm": lambda: nn.LayerNorm(3)})
def heads_mixed_and_normalised_across_heads(g: Given) -> torch.Tensor:
    return _normed(g) @ g.v


@PASSAGES("missed", modules={"conv": lambda: nn.Conv2d(3, 3, 3, padding=1)})
def a_convolution_over_the_map(g: Given) -> torch.Tensor:
    """Multi-token attention."""
    return g.model.extra["conv"](g.w) @ g.v


@PASSAGES("missed", lambda g: F.softmax(g.s, -1) - 0.4 * F.softmax(g.s * 0.3, -1))
def differential_attention(g: Given) -> torch.Tensor:
    return (torch.softmax(g.s, -1) - 0.4 * torch.softmax(g.s * 0.3, -1)) @ g.v


@PASSAGES("missed", lambda g: F.softmax(g.s, -1) - 0.4 * F.softmax(g.s * 0.3, -1))
def differential_attention_by_torch_sub(g: Given) -> torch.Tensor:
    return torch.sub(torch.softmax(g.s, -1), torch.softmax(g.s * 0.3, -1), alpha=0.4) @ g.v


@PASSAGES("missed", lambda g: 0.5 * F.softmax(g.s, -1) + 0.5 * F.softmax(-g.s, -1))
def two_softmaxes_mixed_evenly(g: Given) -> torch.Tensor:
    return torch.lerp(torch.softmax(g.s, -1), torch.softmax(-g.s, -1), 0.5) @ g.v


@PASSAGES("missed", lambda g: F.softmax(g.s, -1) * F.softmax(g.s, -2))
def two_softmaxes_multiplied(g: Given) -> torch.Tensor:
    return (torch.softmax(g.s, -1) * torch.softmax(g.s, -2)) @ g.v


@PASSAGES("missed", lambda g: 0.5 * F.softmax(g.s * 2, -1) + 0.5 * F.softmax(g.s, -1))
def weights_of_an_earlier_layer_added(g: Given) -> torch.Tensor:
    return (0.5 * torch.softmax(g.s * 2, -1) + 0.5 * torch.softmax(g.s, -1)) @ g.v


@PASSAGES("missed", lambda g: (F.softmax(g.s_all, -1), F.softmax(g.s_all, -1) @ F.softmax(g.s_all, -1)))
def weights_times_weights(g: Given) -> torch.Tensor:
    """A product of two maps: neither meets values alone."""
    return (torch.softmax(g.s_all, -1) @ torch.softmax(g.s_all, -1)) @ g.v


@PASSAGES("exact", lambda g: (F.softmax(g.s_all, -1), F.softmax(g.s_all, -1)))
def weights_used_twice(g: Given) -> torch.Tensor:
    w = torch.softmax(g.s_all, -1)
    return w @ (w @ g.v)


@PASSAGES("exact", softmax_weights)
def relative_values_beside(g: Given) -> torch.Tensor:
    """Shaw's relative positions: a second product with a table of positions."""
    w = g.w
    return w @ g.v + torch.einsum("bhnm,nmd->bhnd", w, g.model.table[None].expand(6, 8, 5))


@PASSAGES("missed", softmax_weights)
def weights_that_went_through_numpy_rounding(g: Given) -> torch.Tensor:
    return torch.round(g.w, decimals=7) @ g.v


@PASSAGES("exact", lambda g: F.softmax(g.s, -1) ** 2)
def squared_without_normalising(g: Given) -> torch.Tensor:
    return g.w.square() @ g.v


@PASSAGES("exact", lambda g: F.softmax(g.s, -1) * torch.sigmoid(g.q[..., :1]))
def gated_row_by_row(g: Given) -> torch.Tensor:
    return (g.w * torch.sigmoid(g.q[..., :1])) @ g.v


@PASSAGES("exact", lambda g: F.softmax(g.s, -1))
def grad_kept_by_the_model(g: Given) -> torch.Tensor:
    w = g.w
    if w.requires_grad:
        w.retain_grad()
    return w @ g.v
