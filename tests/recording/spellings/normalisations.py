"""Scores become weights: every way of normalising that people write."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .spelling import Given, Spellings, causal_weights, one_head, softmax_weights

NORMALISATIONS = Spellings()

NORMALISATIONS.add(
    "exact",
    softmax_weights,
    {
        "torch.softmax": lambda g: torch.softmax(g.s, -1) @ g.v,
        "torch.softmax by keyword": lambda g: torch.softmax(input=g.s, dim=-1) @ g.v,
        "tensor.softmax": lambda g: g.s.softmax(-1) @ g.v,
        "tensor.softmax over a counted axis": lambda g: g.s.softmax(dim=3) @ g.v,
        "torch.special.softmax": lambda g: torch.special.softmax(g.s, -1) @ g.v,
        "F.softmax with a dtype": lambda g: F.softmax(g.s, -1, dtype=torch.float64).to(g.v.dtype) @ g.v,
        "the aten operator softmax": lambda g: torch.ops.aten.softmax(g.s, -1) @ g.v,
        "the aten operator _softmax": lambda g: torch.ops.aten._softmax(g.s, -1, False) @ g.v,
        "torch._softmax": lambda g: torch._softmax(g.s, -1, False) @ g.v,
        "_safe_softmax": lambda g: torch._safe_softmax(g.s, -1) @ g.v,
        "the aten operator _safe_softmax": lambda g: torch.ops.aten._safe_softmax(g.s, -1) @ g.v,
        "softmax with out=": lambda g: torch.softmax(g.s, -1, out=torch.empty(2, 3, 6, 8)) @ g.v,
        "softmin of the negated scores": lambda g: F.softmin(-g.s, -1) @ g.v,
        "log_softmax().exp()": lambda g: F.log_softmax(g.s, -1).exp() @ g.v,
        "torch.exp of torch.log_softmax": lambda g: torch.exp(torch.log_softmax(g.s, -1)) @ g.v,
        "tensor.log_softmax and exp_": lambda g: g.s.log_softmax(-1).exp_() @ g.v,
        "special.log_softmax and exp": lambda g: torch.special.log_softmax(g.s, -1).exp() @ g.v,
        "exp(s - logsumexp)": lambda g: torch.exp(g.s - torch.logsumexp(g.s, -1, keepdim=True)) @ g.v,
        "exp(s - s.logsumexp)": lambda g: (g.s - g.s.logsumexp(-1, True)).exp() @ g.v,
        "exp(s - special.logsumexp)": lambda g: (g.s - torch.special.logsumexp(g.s, -1, True)).exp() @ g.v,
    },
)

for name, make, run in (
    ("nn.Softmax", lambda: nn.Softmax(-1), lambda g: g.model.extra["soft"](g.s) @ g.v),
    ("nn.LogSoftmax and exp", lambda: nn.LogSoftmax(-1), lambda g: g.model.extra["soft"](g.s).exp() @ g.v),
    ("nn.Softmin of negated scores", lambda: nn.Softmin(-1), lambda g: g.model.extra["soft"](-g.s) @ g.v),
):
    NORMALISATIONS.add("exact", softmax_weights, {name: run}, modules={"soft": make})


@NORMALISATIONS("missed", softmax_weights)
def exp_divided_by_its_sum(g: Given) -> torch.Tensor:
    e = g.s.exp()
    return (e / e.sum(-1, keepdim=True)) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def exp_less_the_maximum_divided_by_its_sum(g: Given) -> torch.Tensor:
    s = g.s
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return torch.einsum("bhnm,bhmd->bhnd", e / e.sum(-1, keepdim=True), g.v)


@NORMALISATIONS("missed", softmax_weights)
def exp_divided_by_a_sum_by_einsum(g: Given) -> torch.Tensor:
    e = g.s.exp()
    return (e / torch.einsum("bhnm->bhn", e)[..., None]) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def exp_times_the_reciprocal_of_its_sum(g: Given) -> torch.Tensor:
    e = g.s.exp()
    return (e * e.sum(-1, keepdim=True).reciprocal()) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def exp_and_f_normalize(g: Given) -> torch.Tensor:
    return F.normalize(g.s.exp(), p=1, dim=-1) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def exp2_divided_by_its_sum(g: Given) -> torch.Tensor:
    e = torch.exp2(g.s * 1.4426950408889634)
    return (e / e.sum(-1, keepdim=True)) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def a_power_divided_by_its_sum(g: Given) -> torch.Tensor:
    e = torch.pow(2.718281828459045, g.s)
    return (e / e.sum(-1, keepdim=True)) @ g.v


@NORMALISATIONS("missed", softmax_weights)
def divided_after_the_product(g: Given) -> torch.Tensor:
    e = g.s.exp()
    return (e @ g.v) / e.sum(-1, keepdim=True)


@NORMALISATIONS("missed", softmax_weights)
def divided_after_a_product_and_a_sum(g: Given) -> torch.Tensor:
    e = (g.s - g.s.amax(-1, keepdim=True)).exp()
    return (e[..., None] * g.v[:, :, None]).sum(-2) / e.sum(-1)[..., None]


@NORMALISATIONS("missed", softmax_weights)
def the_sum_as_one_more_feature_of_the_values(g: Given) -> torch.Tensor:
    out = g.s.exp() @ torch.cat([g.v, torch.ones_like(g.v[..., :1])], -1)
    return out[..., :-1] / out[..., -1:]


@NORMALISATIONS("missed", softmax_weights)
def python_flash_attention(g: Given) -> torch.Tensor:
    out, total, top = g.q.new_zeros(2, 3, 6, 5), g.q.new_zeros(2, 3, 6, 1), g.q.new_full((2, 3, 6, 1), -1e9)
    for k, v in zip(g.k.split(4, 2), g.v.split(4, 2), strict=True):
        s = g.q @ k.mT * 0.5
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        e, fade = torch.exp(s - new), torch.exp(top - new)
        out, total, top = out * fade + e @ v, total * fade + e.sum(-1, keepdim=True), new
    return out / total


def _of_blocks(g: Given) -> tuple[torch.Tensor, ...]:
    parts = g.s.split(4, -1)
    share = torch.stack([torch.logsumexp(part, -1) for part in parts], -1).softmax(-1)
    return (*(F.softmax(part, -1) for part in parts), share)


@NORMALISATIONS("missed", _of_blocks)
def flash_attention_with_a_softmax_of_each_block(g: Given) -> torch.Tensor:
    parts, sums = [], []
    for k, v in zip(g.k.split(4, 2), g.v.split(4, 2), strict=True):
        s = g.q @ k.mT * 0.5
        parts.append(torch.softmax(s, -1) @ v)
        sums.append(torch.logsumexp(s, -1))
    share = torch.softmax(torch.stack(sums), 0)
    return (share[..., None] * torch.stack(parts)).sum(0)


def _one_more(g: Given) -> torch.Tensor:
    return F.softmax(F.pad(g.s, (0, 1)), -1)[..., :-1]


@NORMALISATIONS("missed", _one_more)
def softmax_one(g: Given) -> torch.Tensor:
    e = g.s.exp()
    return (e / (1 + e.sum(-1, keepdim=True))) @ g.v


@NORMALISATIONS("exact", _one_more)
def a_sink_beside_the_scores_and_cut_off(g: Given) -> torch.Tensor:
    s = torch.cat([g.s, g.s.new_zeros(2, 3, 6, 1)], -1)
    return torch.softmax(s, -1)[..., :-1] @ g.v


@NORMALISATIONS("exact", lambda g: F.softmax(g.s / 0.3, -1))
def a_temperature(g: Given) -> torch.Tensor:
    return torch.softmax(g.s / 0.3, -1) @ g.v


@NORMALISATIONS("exact", causal_weights)
def minus_infinity_masked_before(g: Given) -> torch.Tensor:
    return g.s_all.masked_fill(g.causal, float("-inf")).softmax(-1) @ g.v


@NORMALISATIONS("exact", causal_weights)
def a_finite_mask_added_before(g: Given) -> torch.Tensor:
    return (g.s_all + torch.finfo(torch.float32).min * g.causal).softmax(-1) @ g.v


@NORMALISATIONS("exact", softmax_weights)
def scores_changed_in_place(g: Given) -> torch.Tensor:
    s = g.q @ g.k.mT
    s *= 0.5
    return torch.softmax(s, -1) @ g.v


@NORMALISATIONS("exact", lambda g: F.softmax(F.normalize(g.q, dim=-1) @ F.normalize(g.k, dim=-1).mT * 5, -1))
def cosine_attention(g: Given) -> torch.Tensor:
    return torch.softmax(F.normalize(g.q, dim=-1) @ F.normalize(g.k, dim=-1).mT * 5, -1) @ g.v


@NORMALISATIONS("exact", lambda g: F.softmax(torch.tanh(g.q[:, :, :, None] + g.k[:, :, None]).sum(-1), -1))
def additive_scores(g: Given) -> torch.Tensor:
    return torch.softmax(torch.tanh(g.q[:, :, :, None] + g.k[:, :, None]).sum(-1), -1) @ g.v


@NORMALISATIONS("exact", lambda g: F.softmax(-torch.cdist(g.q, g.k).square(), -1))
def scores_from_distances(g: Given) -> torch.Tensor:
    return torch.softmax(-torch.cdist(g.q, g.k).square(), -1) @ g.v


@NORMALISATIONS("exact", softmax_weights)
def softmax_under_a_checkpoint(g: Given) -> torch.Tensor:
    return checkpoint(lambda q, k, v: torch.softmax(q @ k.mT * 0.5, -1) @ v, g.q, g.k, g.v, use_reentrant=False)


@NORMALISATIONS("missed", one_head)
def softmax_of_a_sparse_tensor(g: Given) -> torch.Tensor:
    return torch.sparse.mm(torch.sparse.softmax(g.s1.to_sparse(), 1), g.v1)


@NORMALISATIONS("missed")
def pooling_jagged_texts(g: Given) -> torch.Tensor:
    x = torch.nested.nested_tensor_from_jagged(g.x.flatten(0, 1), torch.tensor([0, 7, 16]))
    w = torch.softmax(x @ g.model.vector[:, None], 1)
    return (w * x).sum(1)


def _gumbel(g: Given, hard: bool = False) -> torch.Tensor:
    """The same draw, whose numbers are those of single precision."""
    torch.manual_seed(1)
    return F.gumbel_softmax(g.s.float(), hard=hard, dim=-1).double()


@NORMALISATIONS("missed", _gumbel, grad=True)
def gumbel_softmax(g: Given) -> torch.Tensor:
    return F.gumbel_softmax(g.s, dim=-1) @ g.v


@NORMALISATIONS("missed", lambda g: _gumbel(g, hard=True), grad=True)
def hard_gumbel_softmax(g: Given) -> torch.Tensor:
    return F.gumbel_softmax(g.s, hard=True, dim=-1) @ g.v


class OwnSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, s):
        w = torch.softmax(s, -1)
        ctx.save_for_backward(w)
        return w

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return w * (grad - (w * grad).sum(-1, keepdim=True))


@NORMALISATIONS("missed", softmax_weights)
def softmax_in_an_autograd_function(g: Given) -> torch.Tensor:
    return OwnSoftmax.apply(g.s) @ g.v


class OwnAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return torch.softmax(q @ k.mT * 0.5, -1) @ v

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


@NORMALISATIONS("missed", softmax_weights)
def attention_in_an_autograd_function(g: Given) -> torch.Tensor:
    return OwnAttention.apply(g.q, g.k, g.v)


@torch.jit.script
def _scripted(q, k, v):
    return torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * 0.5, -1).matmul(v)


@NORMALISATIONS("missed", softmax_weights)
def attention_in_torchscript(g: Given) -> torch.Tensor:
    return _scripted(g.q, g.k, g.v)


def _sparsemax(g: Given) -> torch.Tensor:
    from entmax import sparsemax

    return sparsemax(g.s, dim=-1)


def _entmax15(g: Given) -> torch.Tensor:
    from entmax import entmax15

    return entmax15(g.s, dim=-1)


def _entmax_bisect(g: Given) -> torch.Tensor:
    from entmax import entmax_bisect

    return entmax_bisect(g.s, 1.5, dim=-1)


NORMALISATIONS.add("missed", _sparsemax, {"entmax's sparsemax": lambda g: _sparsemax(g) @ g.v})
NORMALISATIONS.add("missed", _entmax15, {"entmax's entmax15": lambda g: _entmax15(g) @ g.v})
NORMALISATIONS.add("missed", _entmax_bisect, {"entmax's entmax_bisect": lambda g: _entmax_bisect(g) @ g.v})


def _simplex(s: torch.Tensor) -> torch.Tensor:
    """The nearest point of the simplex."""
    ordered = s.sort(-1, descending=True).values
    total, rank = ordered.cumsum(-1) - 1, torch.arange(1, 9)
    support = (rank * ordered > total).sum(-1, keepdim=True)
    return torch.relu(s - total.gather(-1, support - 1) / support)


@NORMALISATIONS("missed", lambda g: _simplex(g.s))
def sparsemax_by_hand(g: Given) -> torch.Tensor:
    return _simplex(g.s) @ g.v


NORMALISATIONS.add(
    "missed",
    lambda g: torch.sigmoid(g.s),
    {
        "sigmoid attention": lambda g: torch.sigmoid(g.s) @ g.v,
        "sigmoid attention by einsum": lambda g: torch.einsum("bhnm,bhmd->bhnd", g.s.sigmoid(), g.v),
        "sigmoid attention, product and sum": lambda g: (torch.sigmoid(g.s)[..., None] * g.v[:, :, None]).sum(-2),
    },
)

for name, made_from, run in (
    ("sigmoid attention with a bias", lambda s: torch.sigmoid(s - 2), lambda g: F.sigmoid(g.s - 2.0) @ g.v),
    ("relu attention", lambda s: s.clamp(0) / 8, lambda g: F.relu(g.s) / 8 @ g.v),
    ("tensor.relu attention", lambda s: s.clamp(0), lambda g: g.s.relu() @ g.v),
    ("squared relu attention", lambda s: s.clamp(0) ** 2, lambda g: F.relu(g.s).square() @ g.v),
    (
        "relu attention normalised",
        lambda s: s.clamp(0) / s.clamp(0).sum(-1, True).clamp_min(1e-12),
        lambda g: F.normalize(F.relu(g.s), p=1, dim=-1) @ g.v,
    ),
):
    NORMALISATIONS.add("missed", lambda g, made_from=made_from: made_from(g.s), {name: run})


@NORMALISATIONS("missed", lambda g: F.normalize(g.s.clamp(0) + 0, p=1, dim=-1))
def relu_attention_divided_by_its_sum(g: Given) -> torch.Tensor:
    w = torch.relu(g.s)
    return (w / (w.sum(-1, keepdim=True) + 1e-9)) @ g.v


@NORMALISATIONS("missed", lambda g: F.normalize(torch.sigmoid(g.s), p=1, dim=-1))
def sigmoid_attention_divided_by_its_sum(g: Given) -> torch.Tensor:
    w = torch.sigmoid(g.s)
    return (w / w.sum(-1, keepdim=True)) @ g.v


@NORMALISATIONS("missed", lambda g: F.normalize(F.softplus(g.s), p=1, dim=-1))
def softplus_divided_by_its_sum(g: Given) -> torch.Tensor:
    w = F.softplus(g.s)
    return (w / w.sum(-1, keepdim=True)) @ g.v


def _integers(s: torch.Tensor) -> torch.Tensor:
    """As in I-BERT: a polynomial for the exponential, floors, and a division of 2^32 by the sum."""
    s = s - s.amax(-1, keepdim=True)
    whole = torch.floor(s / -0.6931)
    rest = s + whole * 0.6931
    exp = torch.floor((0.3585 * (rest + 1.353) ** 2 + 0.344) * 2 ** (30 - whole).clamp(min=0))
    factor = torch.floor(2**32 / exp.sum(-1, keepdim=True))
    return torch.floor(exp * factor / 2**24) / 2**8


@NORMALISATIONS("missed", lambda g: _integers(g.s.float()))
def integer_softmax(g: Given) -> torch.Tensor:
    return _integers(g.s) @ g.v


@NORMALISATIONS("missed")
def sinkhorn(g: Given) -> torch.Tensor:
    s = g.s
    for _ in range(3):
        s = s - s.logsumexp(-1, keepdim=True)
        s = s - s.logsumexp(-2, keepdim=True)
    return s.exp() @ g.v


def _slots(g: Given) -> torch.Tensor:
    w = F.softmax(g.s, -2) + 1e-8
    return w / w.sum(-1, keepdim=True)


@NORMALISATIONS("missed", _slots)
def two_normalisations_of_slots(g: Given) -> torch.Tensor:
    """Slot attention: a softmax over slots, then a mean over the inputs."""
    w = torch.softmax(g.s, -2) + 1e-8
    return (w / w.sum(-1, keepdim=True)) @ g.v


@NORMALISATIONS("missed", one_head)
def a_softmax_row_by_row(g: Given) -> torch.Tensor:
    return torch.stack([torch.softmax(row, 0) @ g.v1 for row in g.s1])
