"""Spellings that were written to slip past a record: other sums, other memory, other threads, other objects."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import torch
from torch import nn
from torch.nn import functional as F

from .spelling import Given, Spellings, causal_weights, one_head, softmax_weights

ADVERSARIES = Spellings()

# Of these the audit alone sees nothing: it follows memory and divisions by a sum, and they have others. The recorder
# tells of them all.
UNSEEN_BELOW = frozenset(
    (
        "exp divided by the last of its running sums",
        "exp divided by a product with ones",
        "exp divided by its mean",
        "a late division by einsum",
        "a late division after a transpose",
        "a late division, turned",
        "through NumPy and back",
        "through dlpack",
        "torch._foreach_mul",
        "outer products key by key",
        "torch.addr key by key",
        "an embedding bag with weights",
        "one query, weights as single numbers",
        "layers mixed one by one by a softmax of a parameter",
        "sigmoid by its formula",
        "relu by maximum",
        "relu by where",
        "exp of logsigmoid",
        "logsumexp by logaddexp",
        "logsumexp by a running one",
        "one over a sum of exponentials of differences",
        "a late product with the exponential of minus a logarithm",
        "exponentials in a thread",
        "another module in a pool of threads",
    )
)


def _exp(g: Given) -> torch.Tensor:
    return torch.exp(g.s)


def _by_logaddexp(s: torch.Tensor) -> torch.Tensor:
    total = s[..., 0]
    for i in range(1, s.shape[-1]):
        total = torch.logaddexp(total, s[..., i])
    return total.unsqueeze(-1)


ADVERSARIES.add(
    "missed",
    softmax_weights,
    {
        "exp divided by the last of its running sums": lambda g: (_exp(g) / _exp(g).cumsum(-1)[..., -1:]) @ g.v,
        "exp divided by a product with ones": lambda g: (_exp(g) / (_exp(g) @ torch.ones(8, 1))) @ g.v,
        "exp divided by its mean": lambda g: (_exp(g) / _exp(g).mean(-1, keepdim=True) / 8) @ g.v,
        "expm1 and one": lambda g: F.normalize(torch.expm1(g.s) + 1, p=1, dim=-1) @ g.v,
        "a late division by einsum": lambda g: torch.einsum(
            "bhnd,bhn->bhnd", torch.einsum("bhnm,bhmd->bhnd", _exp(g), g.v), 1 / _exp(g).sum(-1)
        ),
        "a late division after a transpose": lambda g: (
            (_exp(g) @ g.v).transpose(1, 2) / _exp(g).sum(-1).transpose(1, 2)[..., None]
        ),
        "a late division, turned": lambda g: ((g.v.mT @ _exp(g).mT) / _exp(g).sum(-1)[:, :, None]).mT,
        "through a view of complex numbers": lambda g: (
            torch.view_as_real(torch.view_as_complex(g.w.unflatten(-1, (4, 2)).contiguous())).flatten(-2) @ g.v
        ),
        "a product of complex numbers": lambda g: (g.w.to(torch.complex64) @ g.v.to(torch.complex64)).real,
        "through the Fourier transform and back": lambda g: torch.fft.irfft(torch.fft.rfft(g.w), n=8) @ g.v,
        "through NumPy and back": lambda g: torch.from_numpy(g.w.detach().numpy()) @ g.v,
        "through a storage": lambda g: (
            torch.empty(0).set_(g.w.untyped_storage(), 0, (2, 3, 6, 8), (144, 48, 8, 1)) @ g.v
        ),
        "as_strided": lambda g: g.w.as_strided((2, 3, 6, 8), (144, 48, 8, 1)) @ g.v,
        "unfold": lambda g: g.w.unfold(-1, 8, 8).squeeze(-2) @ g.v,
        "rotated there and back": lambda g: g.w.rot90(1, (2, 3)).rot90(-1, (2, 3)) @ g.v,
        "copied into a view of a wider buffer": lambda g: (
            _copied_into(torch.zeros(2, 3, 6, 10), g.w) @ F.pad(g.v, (0, 0, 0, 2))
        ),
        "heads and keys in one product": lambda g: g.w.transpose(1, 2).flatten(2) @ g.v.flatten(1, 2),
        "the trapezoidal rule": lambda g: torch.trapezoid(g.w[..., None] * g.v[:, :, None], dim=-2),
        "masked.softmax": lambda g: torch.masked.softmax(g.s, -1, mask=torch.ones(8, dtype=torch.bool)) @ g.v,
        "masked.normalize of exponentials": lambda g: torch.masked.normalize(_exp(g), 1, -1) @ g.v,
        "the probabilities of a distribution": lambda g: torch.distributions.Categorical(logits=g.s).probs @ g.v,
        "nn.Softmax2d": lambda g: nn.Softmax2d()(g.s.movedim(-1, 1)).movedim(1, -1) @ g.v,
        "softmax inside vmap, the product outside": lambda g: torch.vmap(lambda s: s.softmax(-1))(g.s) @ g.v,
        "torch._foreach_mul": lambda g: sum(
            torch._foreach_mul([g.v[:, :, j, None] for j in range(8)], [g.w[..., j, None] for j in range(8)])
        ),
        "queries block by block into a buffer": lambda g: _block_by_block(g),
    },
)
ADVERSARIES.add(
    "missed",
    one_head,
    {
        "outer products key by key": lambda g: sum(torch.outer(g.w1[:, j], g.v1[j]) for j in range(8)),
        "torch.addr key by key": lambda g: _by_addr(g),
        "an embedding bag with weights": lambda g: F.embedding_bag(
            torch.arange(8).expand(6, 8), g.v1, per_sample_weights=g.w1, mode="sum"
        ),
        "a sparse matrix of rows": lambda g: g.w1.to_sparse_csr() @ g.v1,
        "a block-diagonal matrix": lambda g: torch.block_diag(*g.w.flatten(0, 1)) @ g.v.flatten(0, 2),
        "one query, weights as single numbers": lambda g: sum(g.w1[0][j] * g.v1[j] for j in range(8)),
    },
)
ADVERSARIES.add(
    "missed",
    None,
    {
        "sigmoid by its formula": lambda g: (1 / (1 + torch.exp(-g.s))) @ g.v,
        "sigmoid by tanh": lambda g: (0.5 + 0.5 * torch.tanh(g.s / 2)) @ g.v,
        "relu by maximum": lambda g: torch.maximum(g.s, torch.zeros(())) @ g.v,
        "relu by where": lambda g: torch.where(g.s > 0, g.s, torch.zeros(())) @ g.v,
        "exp of logsigmoid": lambda g: F.logsigmoid(g.s).exp() @ g.v,
    },
)


def _copied_into(buffer: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    buffer[..., : w.shape[-1]].copy_(w)
    return buffer


def _stick_breaking(s: torch.Tensor) -> torch.Tensor:
    taken = torch.sigmoid(s)
    return taken * torch.cat([torch.ones_like(taken[..., :1]), (1 - taken).cumprod(-1)[..., :-1]], -1)


def _by_addr(g: Given) -> torch.Tensor:
    out = torch.zeros(6, 5)
    for j in range(8):
        out = torch.addr(out, g.w1[:, j], g.v1[j])
    return out


def _block_by_block(g: Given) -> torch.Tensor:
    out = torch.zeros(2, 3, 6, 5)
    for i in range(0, 6, 2):
        out[:, :, i : i + 2] = g.s[:, :, i : i + 2].softmax(-1) @ g.v
    return out


def _ring(g: Given) -> torch.Tensor:
    outs, sums = [], []
    for s, v in zip(g.s.chunk(2, -1), g.v.chunk(2, -2), strict=True):
        sums.append(s.logsumexp(-1, keepdim=True))
        outs.append(torch.exp(s - sums[-1]) @ v)
    share = torch.cat(sums, -1).softmax(-1)
    return outs[0] * share[..., :1] + outs[1] * share[..., 1:]


@ADVERSARIES("exact", lambda g: _stick_breaking(g.s))
def a_running_product_of_the_rest(g: Given) -> torch.Tensor:
    return _stick_breaking(g.s) @ g.v


@ADVERSARIES("exact", lambda g: F.relu(g.s))
def relu_by_threshold(g: Given) -> torch.Tensor:
    return F.threshold(g.s, 0.0, 0.0) @ g.v


@ADVERSARIES("exact", lambda g: tuple(s.softmax(-1) for s in g.s.chunk(2, -1)))
def a_ring_of_two_blocks_merged_by_their_logsumexp(g: Given) -> torch.Tensor:
    return _ring(g)


class Wrapped:
    """An object that is no tensor and answers torch's functions by code of its own."""

    def __init__(self, inside: torch.Tensor):
        self.inside = inside

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls(func(*(x.inside if isinstance(x, cls) else x for x in args), **(kwargs or {})))


class Marked(torch.Tensor):
    """A class of tensors that overrides nothing."""


@ADVERSARIES("exact", softmax_weights)
def objects_that_wrap_tensors(g: Given) -> torch.Tensor:
    return torch.matmul(torch.softmax(Wrapped(g.s), -1), Wrapped(g.v)).inside


@ADVERSARIES("exact", softmax_weights)
def a_class_of_tensors(g: Given) -> torch.Tensor:
    return (g.s.as_subclass(Marked).softmax(-1) @ g.v.as_subclass(Marked)).as_subclass(torch.Tensor)


@ADVERSARIES("exact", softmax_weights)
def through_data(g: Given) -> torch.Tensor:
    buffer = torch.empty(0)
    buffer.data = g.w.data
    return buffer @ g.v


@ADVERSARIES("missed", softmax_weights)
def logsumexp_by_logaddexp(g: Given) -> torch.Tensor:
    return torch.exp(g.s - _by_logaddexp(g.s)) @ g.v


@ADVERSARIES("missed", softmax_weights)
def logsumexp_by_a_running_one(g: Given) -> torch.Tensor:
    return torch.exp(g.s - g.s.logcumsumexp(-1)[..., -1:]) @ g.v


@ADVERSARIES("missed", softmax_weights)
def one_over_a_sum_of_exponentials_of_differences(g: Given) -> torch.Tensor:
    return (1 / (g.s[..., None, :] - g.s[..., :, None]).exp().sum(-1)) @ g.v


@ADVERSARIES("missed", softmax_weights)
def a_late_product_with_the_exponential_of_minus_a_logarithm(g: Given) -> torch.Tensor:
    e = torch.exp(g.s)
    return (e @ g.v) * torch.exp(-e.sum(-1, keepdim=True).log())


@ADVERSARIES("missed", softmax_weights)
def through_dlpack(g: Given) -> torch.Tensor:
    return torch.from_dlpack(g.w.detach()) @ g.v


@ADVERSARIES("missed", softmax_weights)
def the_gradient_of_an_energy(g: Given) -> torch.Tensor:
    """A modern Hopfield network: the gradient of logsumexp(q k^T) by q is softmax(q k^T) k."""
    with torch.enable_grad():
        q = g.q.detach().requires_grad_()
        energy = torch.logsumexp(q @ g.k.detach().mT * 0.5, -1).sum()
        return torch.autograd.grad(energy, q)[0]


@ADVERSARIES("missed", softmax_weights)
def the_gradient_of_an_energy_by_torch_func(g: Given) -> torch.Tensor:
    k = g.k.detach()
    return torch.func.grad(lambda q: torch.logsumexp(q @ k.mT * 0.5, -1).sum())(g.q.detach())


@ADVERSARIES("missed", softmax_weights)
def exponentials_in_a_thread(g: Given) -> torch.Tensor:
    made, (s, v) = [], (g.s, g.v)
    thread = Thread(target=lambda: made.append(F.normalize(torch.exp(s), p=1, dim=-1) @ v))
    thread.start()
    thread.join()
    return made[0]


class _Alone(nn.Module):
    """A module that is no part of the model."""

    def forward(self, q, k, v):
        return torch.softmax(q @ k.mT * 0.5, -1) @ v


@ADVERSARIES("missed", softmax_weights)
def another_module_in_a_pool_of_threads(g: Given) -> torch.Tensor:
    alone, given = _Alone(), (g.q, g.k, g.v)
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(alone, *given).result()


@ADVERSARIES("missed")
def causal_linear_attention_by_running_sums(g: Given) -> torch.Tensor:
    q, k = F.elu(g.q_all) + 1, F.elu(g.k) + 1
    state = torch.einsum("bhmd,bhme->bhmde", k, g.v).cumsum(2)
    return torch.einsum("bhnd,bhnde,bhn->bhne", q, state, 1 / torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2)))


@ADVERSARIES("exact", causal_weights)
def a_causal_mask_by_where(g: Given) -> torch.Tensor:
    return torch.where(g.causal, torch.tensor(float("-inf")), g.s_all).softmax(-1) @ g.v


ADVERSARIES.add(
    "other",
    None,
    {
        "depths of a relu divided by its sum": lambda g: _shares(F.relu(g.x @ g.model.codes.mT)) @ g.model.places,
        "layers mixed one by one by a softmax of a parameter": lambda g: sum(
            torch.softmax(g.model.vector[:2], -1)[i] * g.x.roll(i, 1) for i in range(2)
        ),
        "probabilities beside features in a linear layer": lambda g: F.linear(
            F.max_pool1d(torch.softmax(g.x @ g.model.codes.mT, -1), 3, 1, 1), g.model.table.mT
        ),
    },
)


def _shares(x: torch.Tensor) -> torch.Tensor:
    x = x + 0.1
    return x / x.sum(-1, keepdim=True)
