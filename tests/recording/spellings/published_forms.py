"""Forms that published code has: differential and talking heads, flash attention in Python, kernels, threads."""

import asyncio
import math
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spelling import Given, Spellings, one_head, softmax_weights

PUBLISHED = Spellings()

# The audit alone does not see these: threads, sums in logarithms, lerp, classes of tensors.
UNSEEN_BELOW = frozenset(
    (
        "a conditional random field",
        "a mixture density",
        "a sum in logarithms",
        "lerp by the weight of the second key",
        "a pool's map",
        "asyncio's to_thread",
        "a masked tensor",
        "late division by the logsumexp",
    )
)


def _halves(g: Given) -> tuple[Tensor, Tensor]:
    """Scores of the two halves of each head's width."""
    (q1, q2), (k1, k2) = g.q.chunk(2, -1), g.k.chunk(2, -1)
    return q1 @ k1.mT, q2 @ k2.mT


def _share(g: Given) -> Tensor:
    return torch.exp(g.model.vector[:2].sum())


def _differential(g: Given) -> Tensor:
    a, b = _halves(g)
    return a.softmax(-1) - _share(g) * b.softmax(-1)


def _in_one_softmax(g: Given) -> Tensor:
    w = torch.stack(_halves(g), 2).softmax(-1)
    return F.rms_norm((w[:, :, 0] - _share(g) * w[:, :, 1]) @ g.v, (5,))


PUBLISHED.add(
    "exact",
    _differential,
    {
        "differential attention, both in one softmax": _in_one_softmax,
        "differential attention by addcmul": lambda g: (
            torch.addcmul(_halves(g)[0].softmax(-1), _halves(g)[1].softmax(-1), -_share(g)) @ g.v
        ),
    },
)
PUBLISHED.add(
    "exact",
    lambda g: tuple(s.softmax(-1) for s in _halves(g)),
    {
        "differential attention of outputs": lambda g: (
            _halves(g)[0].softmax(-1) @ g.v - _share(g) * (_halves(g)[1].softmax(-1) @ g.v)
        ),
    },
)


def _mixed(w: Tensor, g: Given) -> Tensor:
    return torch.einsum("bhnm,gh->bgnm", w, g.model.mix)


PUBLISHED.add(
    "exact",
    lambda g: _mixed(softmax_weights(g), g),
    {
        "heads mixed by tensordot": lambda g: torch.tensordot(g.w, g.model.mix.T, ([1], [0])).movedim(-1, 1) @ g.v,
        "heads mixed while queries and keys are one axis": lambda g: (
            (g.model.mix @ g.w.flatten(2)).unflatten(2, (6, 8)) @ g.v
        ),
        "heads mixed by bmm while queries and keys are one axis": lambda g: (
            torch.bmm(g.model.mix.expand(2, 3, 3), g.w.reshape(2, 3, 48)).view(2, 3, 6, 8) @ g.v
        ),
    },
)
PUBLISHED.add(
    "exact",
    lambda g: _mixed(_mixed(g.s, g).softmax(-1), g),
    {"talking heads before and after": lambda g: _mixed(_mixed(g.s, g).softmax(-1), g) @ g.v},
)
PUBLISHED.add(
    "exact",
    lambda g: softmax_weights(g).flip(2),
    {"queries in another order": lambda g: g.w.index_select(2, torch.arange(5, -1, -1)) @ g.v},
)


def _in_blocks(g: Given) -> Tensor:
    """FlashAttention-2 as its pseudocode has it, with buffers written in place."""
    out, total, most = torch.zeros(2, 3, 6, 5), torch.zeros(2, 3, 6, 1), torch.full((2, 3, 6, 1), -math.inf)
    for i in (slice(0, 3), slice(3, 6)):
        for j in (slice(0, 4), slice(4, 8)):
            s = torch.einsum("bhnd,bhmd->bhnm", g.q[:, :, i], g.k[:, :, j]) * 0.5
            new = torch.maximum(most[:, :, i], s.amax(-1, keepdim=True))
            p, faded = (s - new).exp_(), torch.exp(most[:, :, i] - new)
            total[:, :, i] = total[:, :, i] * faded + p.sum(-1, keepdim=True)
            out[:, :, i] = out[:, :, i] * faded + p @ g.v[:, :, j]
            most[:, :, i] = new
    return out.div_(total)


def _late_in_place(g: Given) -> Tensor:
    e = g.s.exp_().flatten(0, 1)
    return torch.bmm(e, g.v3).div_(e.sum(-1, keepdim=True))


def _ones_beside(g: Given) -> Tensor:
    out = g.s.exp() @ torch.cat([g.v, torch.ones_like(g.v[..., :1])], -1)
    return out[..., :-1] / out[..., -1:]


def _masked_tensor(g: Given) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a prototype
        whole = torch.masked.masked_tensor(g.s.contiguous(), torch.ones_like(g.s, dtype=torch.bool))
        return whole.softmax(-1).get_data() @ g.v


def _pool_of_threads(g: Given) -> Tensor:
    s, v = g.s, g.v
    with ThreadPoolExecutor(2) as pool:
        return torch.stack([*pool.map(lambda i: s[i].softmax(-1) @ v[i], range(2))])


def _to_thread(g: Given) -> Tensor:
    s, v = g.s, g.v

    async def attends() -> Tensor:
        return await asyncio.to_thread(lambda: s.softmax(-1) @ v)

    return asyncio.run(attends())


@torch.library.custom_op("regard_spellings::weights", mutates_args=())
def _weights_by_an_operator(s: Tensor) -> Tensor:
    return s.softmax(-1)


@torch.library.custom_op("regard_spellings::attended", mutates_args=())
def _attended_by_an_operator(s: Tensor, v: Tensor) -> Tensor:
    return s.softmax(-1) @ v


PUBLISHED.add(
    "exact",
    softmax_weights,
    {
        "weights by an operator in Python": lambda g: torch.ops.regard_spellings.weights(g.s) @ g.v,
        "attention by an operator in Python": lambda g: torch.ops.regard_spellings.attended(g.s, g.v),
        "attention by an operator's own name": lambda g: _attended_by_an_operator(g.s, g.v),
    },
)
PUBLISHED.add(
    "missed",
    softmax_weights,
    {
        "flash attention in blocks of queries and keys": _in_blocks,
        "late division in place": _late_in_place,
        "the sum as a column of ones beside the values": _ones_beside,
        "late division by the logsumexp": lambda g: (g.s.exp() @ g.v) * (-g.s.logsumexp(-1, keepdim=True)).exp(),
        "a masked tensor": _masked_tensor,
        "a pool's map": _pool_of_threads,
        "asyncio's to_thread": _to_thread,
        "jit.fork": lambda g: torch.jit.wait(torch.jit.fork(lambda s, v: s.softmax(-1) @ v, g.s, g.v)),
        "vmap in vmap": lambda g: torch.vmap(torch.vmap(lambda s, v: s.softmax(-1) @ v))(g.s, g.v),
        "a number to a power of scores, divided by its sum": lambda g: _shares(math.e**g.s) @ g.v,
        "float_power, divided by its sum": lambda g: _shares(torch.float_power(math.e, g.s).float()) @ g.v,
        "ldexp, divided by its sum": lambda g: _shares(torch.ldexp(torch.ones(()), g.s / math.log(2))) @ g.v,
        "sinh and cosh, divided by their sum": lambda g: _shares(torch.sinh(g.s) + torch.cosh(g.s)) @ g.v,
        "the logarithm and back": lambda g: torch.exp(torch.log(g.w)) @ g.v,
        "a sum in logarithms": lambda g: torch.logsumexp(
            g.s.log_softmax(-1)[..., None] + g.v.abs().log()[:, :, None], -2
        ).exp(),
        "a running sum and its last": lambda g: (g.w[..., None] * g.v[:, :, None]).cumsum(-2)[..., -1, :],
        "nansum": lambda g: torch.nansum(g.w[..., None] * g.v[:, :, None], -2),
    },
)
PUBLISHED.add(
    "missed",
    one_head,
    {
        "a sparse matrix of blocks": lambda g: g.w1.to_sparse_bsr((2, 2)) @ g.v1,
        "sparse.addmm": lambda g: torch.sparse.addmm(torch.zeros(6, 5), g.w1.to_sparse(), g.v1),
        "lerp by the weight of the second key": lambda g: torch.lerp(g.v1[:1], g.v1[1:2], g.w1[:, 1:2]),
        "rows that are rounded and found again": lambda g: _scattered(g.w1 * (g.w1 > 0.1), g.v1),
    },
)


def _scattered(w: Tensor, v: Tensor) -> Tensor:
    rows, columns = w.nonzero(as_tuple=True)
    return torch.zeros(6, 5).index_add(0, rows, w[rows, columns, None] * v[columns])


def _shares(x: Tensor) -> Tensor:
    return x / x.sum(-1, keepdim=True)


def _two_blocks(g: Given) -> Tensor:
    out: Tensor | None = None
    for s, v in zip(g.s.chunk(2, -1), g.v.chunk(2, -2), strict=True):
        sums = s.logsumexp(-1, keepdim=True)
        made = (s - sums).exp() @ v
        if out is None:
            out, last = made, sums
        else:
            new = torch.logaddexp(last, sums)
            out = out * (last - new).exp() + made * (sums - new).exp()
    assert out is not None
    return out


PUBLISHED.add(
    "exact",
    lambda g: tuple(s.softmax(-1) for s in g.s.chunk(2, -1)),
    {"a flash attention of two blocks in logarithms": _two_blocks},
)


def _kernel(make):
    return lambda g: _shares(make(g)), lambda g: _shares(make(g)) @ g.v


for _name, _make in {
    "a Gaussian kernel": lambda g: torch.exp(-0.5 * torch.cdist(g.q, g.k) ** 2),
    "inverse distances": lambda g: 1 / (torch.cdist(g.q, g.k) + 1e-3),
    "a polynomial kernel": lambda g: (g.s + 1) ** 2,
    "softplus of cosines": lambda g: F.softplus(F.cosine_similarity(g.q[..., None, :], g.k[:, :, None], -1)),
    "absolute scores": lambda g: g.s.abs(),
}.items():
    _truth, _run = _kernel(_make)
    PUBLISHED.add("exact", _truth, {f"{_name}, divided by its sum": _run})


def _rows_closed(g: Given) -> Tensor:
    return softmax_weights(g).masked_fill((torch.arange(6) == 2)[:, None], 0.0)


def _closed(g: Given, close) -> Tensor:
    w = g.w.detach().clone()
    close(w)
    return w @ g.v


PUBLISHED.add(
    "missed",
    _rows_closed,
    {
        "a row closed through a view": lambda g: _closed(g, lambda w: w[:, :, 2].zero_()),
        "a row closed through NumPy": lambda g: _closed(g, lambda w: w.numpy()[:, :, 2].fill(0)),
        "a row closed through data": lambda g: _closed(g, lambda w: w.data[:, :, 2].zero_()),
        "a row closed by index_fill_": lambda g: _closed(g, lambda w: w.index_fill_(2, torch.tensor([2]), 0.0)),
    },
)


@PUBLISHED("exact", lambda g: one_head(g).topk(4, -1).values)
def the_best_four_keys_and_their_values(g: Given) -> Tensor:
    w, picked = g.w1.topk(4, -1)
    return torch.einsum("nk,nkd->nd", w, g.v1[picked])


@PUBLISHED("exact", lambda g: one_head(g).sort(-1, descending=True).values)
def keys_in_the_order_of_their_weights(g: Given) -> Tensor:
    w, order = g.w1.sort(-1, descending=True)
    return (w[..., None] * g.v1[order]).sum(-2)


@PUBLISHED("exact", lambda g: F.one_hot(softmax_weights(g).argmax(-1), 8).double())
def straight_through(g: Given) -> Tensor:
    w = g.w
    return (F.one_hot(w.argmax(-1), 8).float() - w.detach() + w) @ g.v


@PUBLISHED("missed")
def two_keys_by_the_sigmoid_of_a_difference(g: Given) -> Tensor:
    first = torch.sigmoid(g.s[..., :1] - g.s[..., 1:2])
    return first * g.v[:, :, :1] + (1 - first) * g.v[:, :, 1:2]


@PUBLISHED("missed")
def the_weights_as_a_fake_quantisation(g: Given) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(g.w, 1 / 255, 0, 0, 255) @ g.v


@PUBLISHED("exact", lambda g: one_head(g) * g.s1.softmax(0))
def mutual_softmax(g: Given) -> Tensor:
    return (g.s1.softmax(-1) * g.s1.softmax(0)) @ g.v1


class Elsewhere(Tensor):
    """A class of tensors that answers torch's operators by those of another tensor."""

    @staticmethod
    def __new__(cls, inside: Tensor) -> "Elsewhere":
        made = torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        made.inside = inside
        return made

    def __init__(self, inside: Tensor) -> None: ...

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        out = func(*(x.inside if isinstance(x, cls) else x for x in args), **(kwargs or {}))
        return cls(out) if isinstance(out, Tensor) else out


@PUBLISHED("missed", softmax_weights)
def tensors_that_answer_operators_themselves(g: Given) -> Tensor:
    return Elsewhere(g.s).softmax(-1).matmul(g.v).inside


class _Pointer(nn.Module):
    """A decoder whose queries come from what it attended to before."""

    def forward(self, g: Given) -> Tensor:
        h, out = torch.zeros(2, 12), []
        for _ in range(3):
            w = torch.einsum("bd,bjd->bj", g.model.query(h), g.model.key(g.x)).softmax(-1)
            h = torch.einsum("bj,bjd->bd", w, g.x)
            out.append(h)
        return torch.stack(out)


def _pointed(g: Given) -> tuple[Tensor, ...]:
    h, made = torch.zeros(2, 12, dtype=g.x.dtype), []
    for _ in range(3):
        made.append(torch.einsum("bd,bjd->bj", g.model.query(h), g.model.key(g.x)).softmax(-1))
        h = torch.einsum("bj,bjd->bd", made[-1], g.x)
    return tuple(made)


@PUBLISHED("exact", _pointed)
def a_pointer_from_step_to_step(g: Given) -> Tensor:
    return _Pointer()(g)
