"""Sparse, local and linear attention, as published models write it."""

import torch
from torch import nn
from torch.nn import functional as F

from .spelling import Given, Spellings

PATTERNS = Spellings()


def _blocks(g: Given) -> torch.Tensor:
    q, k = g.q_all.unflatten(2, (2, 4)), g.k.unflatten(2, (2, 4))
    return F.softmax(q @ k.mT, -1)


@PATTERNS("exact", _blocks)
def blocks_of_tokens(g: Given) -> torch.Tensor:
    q, k, v = (x.unflatten(2, (2, 4)) for x in (g.q_all, g.k, g.v))
    return (torch.softmax(q @ k.mT, -1) @ v).flatten(2, 3)


@PATTERNS("exact", _blocks)
def blocks_by_einsum(g: Given) -> torch.Tensor:
    q, k, v = (x.unflatten(2, (2, 4)) for x in (g.q_all, g.k, g.v))
    w = torch.einsum("bhcnd,bhcmd->bhcnm", q, k).softmax(-1)
    return torch.einsum("bhcnm,bhcmd->bhcnd", w, v).flatten(2, 3)


def _windows(g: Given, reach: int) -> torch.Tensor:
    keys = F.pad(g.k, (0, 0, reach, reach)).unfold(2, 2 * reach + 1, 1)
    return F.softmax((g.q_all[..., None] * keys).sum(-2), -1)


@PATTERNS("missed", lambda g: _windows(g, 2))
def sliding_chunks(g: Given) -> torch.Tensor:
    """Longformer: each query its neighbours, scores in a band, values in overlapping windows."""
    keys = F.pad(g.k, (0, 0, 2, 2)).unfold(2, 5, 1)
    values = F.pad(g.v, (0, 0, 2, 2)).unfold(2, 5, 1)
    w = torch.softmax((g.q_all[..., None] * keys).sum(-2), -1)
    return torch.einsum("bhnw,bhndw->bhnd", w, values)


@PATTERNS("missed")
def sliding_chunks_by_padding_and_strides(g: Given) -> torch.Tensor:
    """Longformer's own way: weights are padded and read with other strides, so that bands become blocks."""
    q, k = (x.flatten(0, 1) for x in (g.q_all, g.k))
    chunks = [x.as_strided((6, 3, 4, 4), (32, 8, 4, 1)) for x in (q.contiguous(), k.contiguous())]
    w = torch.softmax(torch.einsum("bcxd,bcyd->bcxy", *chunks), -1)
    padded = F.pad(w, (0, 5)).view(6, 3, -1)[:, :, :-4].view(6, 3, 4, -1)[..., :4]
    v = g.v3.contiguous().as_strided((6, 3, 4, 5), (40, 10, 5, 1))
    return torch.einsum("bcwd,bcdh->bcwh", padded, v)


@PATTERNS("missed")
def blocks_gathered_at_random(g: Given) -> torch.Tensor:
    """BigBird: each block of queries sees some blocks of keys, put together by cat."""
    q, k, v = (x.unflatten(2, (4, 2)) for x in (g.q_all, g.k, g.v))
    pick = [torch.tensor(i) for i in ([0, 3, 1, 2], [1, 0, 2, 3])]
    keys, values = (torch.cat([x[:, :, i] for i in pick], 3) for x in (k, v))
    w = torch.softmax(torch.einsum("bhcnd,bhcmd->bhcnm", q, keys), -1)
    first = torch.einsum("bhcnm,bhcmd->bhcnd", w[..., :2], values[..., :2, :])
    return (first + torch.einsum("bhcnm,bhcmd->bhcnd", w[..., 2:], values[..., 2:, :])).flatten(2, 3)


@PATTERNS("missed", lambda g: _windows(g, 1))
def neighbourhood_attention_by_unfold(g: Given) -> torch.Tensor:
    keys, values = (F.pad(x, (0, 0, 1, 1)).unfold(2, 3, 1) for x in (g.k, g.v))
    w = torch.softmax(torch.einsum("bhnd,bhndw->bhnw", g.q_all, keys), -1)
    return (w.unsqueeze(-2) * values).sum(-1)


@PATTERNS("missed")
def deformable_attention(g: Given) -> torch.Tensor:
    """Weights from the query alone, for points whose values are sampled."""
    image = g.v.flatten(0, 1).mT.reshape(6, 5, 2, 4)
    points = torch.tanh(g.q.flatten(0, 1)[..., :2]).unsqueeze(2).repeat(1, 1, 3, 1)
    sampled = F.grid_sample(image, points, align_corners=False)
    w = torch.softmax(g.q.flatten(0, 1)[..., :3], -1)
    return (sampled * w[:, None]).sum(-1)


def _sorted_blocks(g: Given) -> torch.Tensor:
    order = (g.q_all @ g.model.mix.new_ones(4)).argsort(-1)
    q = g.q_all.gather(2, order[..., None].expand_as(g.q_all)).unflatten(2, (2, 4))
    return F.softmax(q @ F.normalize(q, dim=-1).mT, -1)


@PATTERNS("missed", _sorted_blocks)
def lsh_attention(g: Given) -> torch.Tensor:
    """Reformer: sorted into buckets, exp(s - logsumexp) in chunks, put back in order."""
    bucket = (g.q_all @ g.model.mix.new_ones(4)).argsort(-1)
    back = bucket.argsort(-1)
    q, v = (x.gather(2, bucket[..., None].expand_as(x)).unflatten(2, (2, 4)) for x in (g.q_all, g.v))
    s = q @ F.normalize(q, dim=-1).mT
    w = torch.exp(s - torch.logsumexp(s, -1, keepdim=True))
    out = (F.dropout(w, 0.1, False) @ v).flatten(2, 3)
    return out.gather(2, back[..., None].expand_as(out))


@PATTERNS("missed")
def auto_correlation(g: Given) -> torch.Tensor:
    """Autoformer: delays by the Fourier transform, values rolled and weighed by a softmax."""
    a, b = torch.fft.rfft(g.q_all, dim=2), torch.fft.rfft(g.k, dim=2)
    similar = torch.fft.irfft(a * b.conj(), n=8, dim=2).mean((1, 3))
    top = similar.topk(3, -1)
    w = torch.softmax(top.values, -1)
    out = torch.zeros_like(g.v)
    for i in range(3):
        rolled = torch.stack([v.roll(-int(d), 1) for v, d in zip(g.v, top.indices[:, i], strict=True)])
        out = out + rolled * w[:, i].view(-1, 1, 1, 1)
    return out


@PATTERNS("missed")
def linear_attention(g: Given) -> torch.Tensor:
    q, k = F.elu(g.q) + 1, F.elu(g.k) + 1
    return (q @ (k.mT @ g.v)) / (q @ k.sum(-2).unsqueeze(-1))


@PATTERNS("missed")
def linear_attention_by_einsum(g: Given) -> torch.Tensor:
    q, k = F.relu(g.q) + 1e-3, F.relu(g.k) + 1e-3
    total = torch.einsum("bhnd,bhd->bhn", q, k.sum(2))
    return torch.einsum("bhnd,bhde,bhn->bhne", q, torch.einsum("bhmd,bhme->bhde", k, g.v), 1 / total)


@PATTERNS("missed")
def random_features(g: Given) -> torch.Tensor:
    """Performer."""
    draw = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    q, k = (torch.exp(x @ draw - x.square().sum(-1, keepdim=True) / 2) for x in (g.q, g.k))
    return torch.einsum("bhnf,bhfd->bhnd", q, torch.einsum("bhmf,bhmd->bhfd", k, g.v)) / (q @ k.sum(2)[..., None])


@PATTERNS("missed", lambda g: (F.softmax(g.k, -2).mT, F.softmax(g.q, -1)))
def efficient_attention(g: Given) -> torch.Tensor:
    """A softmax of the keys along the tokens, and one of the queries along the features."""
    return torch.softmax(g.q, -1) @ (torch.softmax(g.k, -2).mT @ g.v)


@PATTERNS("missed")
def attention_free(g: Given) -> torch.Tensor:
    """AFT: exp of the keys, gated by the sigmoid of the queries, divided by the sum."""
    e = torch.exp(g.k)
    return torch.sigmoid(g.q) * ((e * g.v[..., :4]).sum(2, keepdim=True) / e.sum(2, keepdim=True))


@PATTERNS("missed")
def rwkv_token_by_token(g: Given) -> torch.Tensor:
    top, total, decay, outs = g.k[:, :, 0] * 0, g.k[:, :, 0] * 0, torch.exp(-torch.ones(4)), []
    for t in range(8):
        e = torch.exp(g.k[:, :, t])
        top, total = top * decay + e * g.v[:, :, t, :4], total * decay + e
        outs.append(top / total)
    return torch.stack(outs, 2)


@PATTERNS("missed")
def sampled_keys(g: Given) -> torch.Tensor:
    """YOSO's estimate: Bernoulli weights whose mean is a power of the angle."""
    cosine = F.normalize(g.q, dim=-1) @ F.normalize(g.k, dim=-1).mT
    return F.normalize((1 - torch.acos(cosine.clamp(-0.99, 0.99)) / torch.pi) ** 4 @ g.v, dim=-1)


def _landmarks(g: Given) -> tuple[torch.Tensor, ...]:
    few_q, few_k = g.q_all.unflatten(2, (4, 2)).mean(3), g.k.unflatten(2, (4, 2)).mean(3)
    return F.softmax(g.q_all @ few_k.mT, -1), F.softmax(few_q @ g.k.mT, -1)


@PATTERNS("missed", _landmarks)
def nystrom(g: Given) -> torch.Tensor:
    few_q, few_k = g.q_all.unflatten(2, (4, 2)).mean(3), g.k.unflatten(2, (4, 2)).mean(3)
    first, middle = torch.softmax(g.q_all @ few_k.mT, -1), torch.softmax(few_q @ few_k.mT, -1)
    last = torch.softmax(few_q @ g.k.mT, -1)
    return first @ torch.linalg.pinv(middle) @ (last @ g.v)


@PATTERNS("exact", lambda g: F.softmax(g.q @ (g.k.mT @ g.model.table[:, :3]), -1))
def keys_projected_to_fewer(g: Given) -> torch.Tensor:
    """Linformer."""
    keys, values = (x.mT @ g.model.table[:, :3] for x in (g.k, g.v))
    return torch.softmax(g.q @ keys, -1) @ values.mT


@PATTERNS("missed")
def edges_with_a_softmax_of_each_node(g: Given) -> torch.Tensor:
    """A graph layer by hand: exp of a score of each edge, divided by the scattered sum, scattered again."""
    source, target = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 0, 2]), torch.tensor([1, 1, 1, 2, 2, 3, 3, 3, 0, 0])
    x = g.x[0]
    s = F.leaky_relu((x[source] + x[target]) @ g.model.vector)
    e = torch.exp(s - s.max())
    w = e / torch.zeros(8).index_add(0, target, e)[target]
    return torch.zeros_like(x).index_add(0, target, w[:, None] * x[source])


@PATTERNS("exact", lambda g: F.softmax(g.x[:, :2] @ g.x.mT, -1))
def latent_queries(g: Given) -> torch.Tensor:
    return torch.softmax(g.x[:, :2] @ g.x.mT, -1) @ g.x


@PATTERNS("exact", lambda g: F.softmax(g.model.codes[:3] @ g.x.mT, -1))
def queries_that_are_parameters(g: Given) -> torch.Tensor:
    """Perceiver, PMA: the keys are activations, so it is attention."""
    return torch.softmax(g.model.codes[:3] @ g.x.mT, -1) @ g.x


@PATTERNS("exact", lambda g: F.softmax(g.x @ torch.cat([g.x, g.model.codes.expand(2, 8, 12)], 1).mT, -1))
def keys_of_parameters_beside_activations(g: Given) -> torch.Tensor:
    """Persistent memory, prefix tuning."""
    memory = torch.cat([g.x, g.model.codes.expand(2, 8, 12)], 1)
    return torch.softmax(g.x @ memory.mT, -1) @ memory


@PATTERNS("exact", lambda g: F.softmax(g.x.mT @ g.x, -1))
def attention_among_channels(g: Given) -> torch.Tensor:
    """XCA, dual attention: channels attend to channels."""
    return (torch.softmax(g.x.mT @ g.x, -1) @ g.x.mT).mT


@PATTERNS("exact", lambda g: F.softmax((g.x @ g.model.vector).unflatten(1, (2, 4)), -1))
def pooling_within_segments(g: Given) -> torch.Tensor:
    w = torch.softmax((g.x @ g.model.vector).unflatten(1, (2, 4)), -1)
    return (w[..., None] * g.x.unflatten(1, (2, 4))).sum(2)


def _each_step(g: Given) -> tuple[torch.Tensor, ...]:
    state, weights = g.x[:, 0], []
    for _ in range(3):
        weights.append(F.softmax((torch.tanh(state[:, None] + g.x) * g.model.vector).sum(-1), -1))
        state = g.model.extra["cell"](torch.einsum("bm,bmd->bd", weights[-1], g.x), state)
    return tuple(weights)


@PATTERNS("exact", _each_step, modules={"cell": lambda: nn.GRUCell(12, 12)})
def bahdanau_step_by_step(g: Given) -> torch.Tensor:
    state = g.x[:, 0]
    for _ in range(3):
        w = torch.softmax((torch.tanh(state[:, None] + g.x) * g.model.vector).sum(-1), -1)
        state = g.model.extra["cell"]((w.unsqueeze(1) @ g.x).squeeze(1), state)
    return state
