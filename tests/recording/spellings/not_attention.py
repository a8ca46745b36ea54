"""What is not attention: weights over parameters (rec.other), and no weights at all (nothing)."""

import torch
from torch import nn
from torch.nn import functional as F

from .spelling import Given, Spellings

NOT_ATTENTION = Spellings()


def _experts(g: Given) -> torch.Tensor:
    return torch.stack([g.x.roll(i, -1) @ g.model.codes.mT for i in range(3)], 2)


NOT_ATTENTION.add(
    "other",
    None,
    {
        "features times their softmax, projected": lambda g: (g.x * torch.softmax(g.x, -1)) @ g.model.codes.mT,
        "a softmax of features, projected": lambda g: torch.softmax(g.x, -1) @ g.model.codes.mT,
        "a softmax of features into F.linear": lambda g: F.linear(torch.softmax(g.x, -1), g.model.codes),
        "class expectation of a buffer": lambda g: torch.softmax(g.x @ g.model.codes.mT, -1) @ g.model.places,
        "class expectation by product and sum": lambda g: (
            torch.softmax(g.x @ g.model.codes.mT, -1) * g.model.places
        ).sum(-1),
        "class expectation of a new arange": lambda g: torch.softmax(g.x @ g.model.codes.mT, -1) @ torch.arange(8.0),
        "soft argmax of positions": lambda g: torch.softmax(g.x, 1).mT @ g.model.places,
        "codebook": lambda g: torch.softmax(g.x @ g.model.codes.mT, -1) @ g.model.codes,
        "codebook by distances": lambda g: (
            torch.softmax(-torch.cdist(g.x, g.model.codes.expand(2, 8, 12)), -1) @ g.model.codes
        ),
        "codebook by gumbel_softmax": lambda g: F.gumbel_softmax(g.x @ g.model.codes.mT, dim=-1) @ g.model.codes,
        "codebook by einsum": lambda g: torch.einsum(
            "btk,kd->btd", torch.softmax(g.x @ g.model.codes.mT, -1), g.model.codes
        ),
        "soft embedding of a prediction": lambda g: torch.softmax(g.x @ g.model.codes.mT / 0.1, -1).matmul(
            g.model.table
        ),
        "layers mixed by a softmax of a parameter": lambda g: (
            torch.softmax(g.model.vector[:3], 0)[:, None, None, None] * torch.stack([g.x, g.x + 1, g.x.tanh()])
        ).sum(0),
    },
)


@NOT_ATTENTION("other")
def router_dense(g: Given) -> torch.Tensor:
    gate = torch.softmax(g.x @ g.model.codes[:3].mT, -1)
    return torch.einsum("bte,bted->btd", gate, _experts(g))


@NOT_ATTENTION("other")
def router_dense_product_and_sum(g: Given) -> torch.Tensor:
    gate = torch.softmax(g.x @ g.model.codes[:3].mT, -1)
    return (gate.unsqueeze(-1) * _experts(g)).sum(2)


@NOT_ATTENTION("other")
def router_dense_bmm(g: Given) -> torch.Tensor:
    gate = torch.softmax(g.x @ g.model.codes[:3].mT, -1)
    return torch.bmm(gate.flatten(0, 1).unsqueeze(1), _experts(g).flatten(0, 1)).squeeze(1).unflatten(0, (2, 8))


@NOT_ATTENTION("other")
def router_top_2_index_add(g: Given) -> torch.Tensor:
    """Mixtral: the chosen experts' outputs, weighed and added where their tokens stand."""
    x = g.x.flatten(0, 1)
    top = torch.softmax(x @ g.model.codes[:3].mT, -1).topk(2, -1)
    gate, out = top.values / top.values.sum(-1, keepdim=True), torch.zeros_like(x)
    for e in range(3):
        token, place = (top.indices == e).nonzero(as_tuple=True)
        out.index_add_(0, token, x[token].roll(e, -1) * gate[token, place, None])
    return out


@NOT_ATTENTION("other")
def router_sigmoid(g: Given) -> torch.Tensor:
    """DeepSeek-V3: the chosen sigmoids divided by their sum."""
    x = g.x.flatten(0, 1)
    top = torch.sigmoid(x @ g.model.codes[:3].mT).topk(2, -1)
    gate = top.values / top.values.sum(-1, keepdim=True)
    outs = _experts(g).flatten(0, 1).gather(1, top.indices[..., None].expand(-1, -1, 8))
    return (outs * gate[..., None]).sum(1)


@NOT_ATTENTION("other")
def soft_mixture_of_slots(g: Given) -> torch.Tensor:
    """Combine weights of Soft MoE: a softmax over slots that are parameters."""
    w = torch.softmax(g.x @ g.model.codes[:3].mT, -1)
    slots = torch.stack([g.x.mean(1).roll(i, -1) for i in range(3)], 1)
    return w @ slots


@NOT_ATTENTION("other")
def dynamic_convolution(g: Given) -> torch.Tensor:
    """A kernel of 3 offsets predicted from each token."""
    w = torch.softmax(g.x @ g.model.codes[:3].mT, -1)
    return torch.einsum("btk,btdk->btd", w, F.pad(g.x.mT, (1, 1)).unfold(-1, 3, 1).transpose(1, 2))


@NOT_ATTENTION("other")
def lightweight_convolution(g: Given) -> torch.Tensor:
    w = torch.softmax(g.model.codes[:, :3], -1)
    return F.conv1d(g.x.mT[:, :8], w[:, None], padding=1, groups=8)


@NOT_ATTENTION("other")
def memory_of_parameters(g: Given) -> torch.Tensor:
    return torch.softmax(g.x @ g.model.codes.mT, -1) @ g.model.table


@NOT_ATTENTION("other")
def product_keys(g: Given) -> torch.Tensor:
    top = (g.x @ g.model.codes.mT).flatten(0, 1).topk(3, -1)
    return F.embedding_bag(top.indices, g.model.table, per_sample_weights=torch.softmax(top.values, -1), mode="sum")


@NOT_ATTENTION("other")
def kernels_mixed(g: Given) -> torch.Tensor:
    """CondConv, dynamic filters: kernels that are parameters mixed by a softmax of the input."""
    w = torch.softmax(g.x.mean(1) @ g.model.codes[:3].mT, -1)
    return torch.einsum("be,eij->bij", w, torch.stack([g.model.mix, g.model.mix.T, g.model.mix * 2]))


NOT_ATTENTION.add(
    "nothing",
    None,
    {
        "sigmoid gates": lambda g: torch.sigmoid(g.x @ g.model.codes.mT @ g.model.codes) * g.x,
        "a sigmoid layer into a linear one": lambda g: torch.sigmoid(g.x @ g.model.codes.mT) @ g.model.codes,
        "an MLP of relu": lambda g: torch.relu(g.x @ g.model.codes.mT) @ g.model.codes,
        "SwiGLU": lambda g: (F.silu(g.x @ g.model.codes.mT) * (g.x @ g.model.codes.mT)) @ g.model.codes,
        "bilinear features with relu into a linear layer": lambda g: (
            torch.relu((g.x @ g.model.codes.mT) * (g.x @ g.model.codes.mT)) @ g.model.codes
        ),
        "a classifier's probabilities": lambda g: torch.softmax(g.x @ g.model.codes.mT, -1),
        "cross entropy": lambda g: F.cross_entropy((g.x @ g.model.codes.mT).flatten(0, 1), torch.arange(16) % 8),
        "cross entropy by log_softmax and gather": lambda g: (
            -(torch.log_softmax(g.x @ g.model.codes.mT, -1).gather(-1, torch.zeros(2, 8, 1).long()).mean())
        ),
        "contrastive probabilities": lambda g: torch.softmax(g.x.mean(1) @ g.x.mean(1).mT, -1),
        "entropy of a prediction": lambda g: torch.special.entr(torch.softmax(g.x @ g.model.codes.mT, -1)).sum(-1),
        "sampling": lambda g: torch.multinomial(torch.softmax(g.x[0] @ g.model.codes.mT, -1), 1),
        "masked mean": lambda g: (g.x * g.model.places[:, None].gt(2)).sum(1) / g.model.places.gt(2).sum().clamp(min=1),
        "masked mean by a product with shares": lambda g: (
            (g.model.places.gt(2) / g.model.places.gt(2).sum()).expand(2, 1, 8) @ g.x
        ),
        "layer norm by hand": lambda g: (
            (g.x - g.x.mean(-1, keepdim=True)) / g.x.std(-1, keepdim=True) @ g.model.codes.mT
        ),
        "rms norm by hand": lambda g: (g.x * g.x.square().mean(-1, keepdim=True).rsqrt()) @ g.model.codes.mT,
        "L1 normalised features": lambda g: F.normalize(g.x, p=1, dim=-1) @ g.model.codes.mT,
        "gram matrix": lambda g: (g.x.mT @ g.x) @ g.model.codes.mT,
        "squeeze and excitation": lambda g: (
            g.x * torch.sigmoid(g.x.mean(1, keepdim=True) @ g.model.codes.mT @ g.model.codes)
        ),
        "mixing tokens by a parameter": lambda g: torch.einsum("nm,bmd->bnd", g.model.codes[:, :8], g.x),
        "gated tokens of gMLP": lambda g: g.x * torch.einsum("nm,bmd->bnd", g.model.codes[:, :8], g.x),
        "the Fourier mixing of FNet": lambda g: (
            torch.fft.fft(torch.fft.fft(g.x, dim=-1), dim=-2).real @ g.model.codes.mT
        ),
        "top-1 of a softmax": lambda g: g.model.codes[torch.softmax(g.x @ g.model.codes.mT, -1).argmax(-1)],
        "nearest code": lambda g: g.model.codes[torch.cdist(g.x, g.model.codes.expand(2, 8, 12)).argmin(-1)],
        "a softmax and its loss with soft targets": lambda g: F.kl_div(
            torch.log_softmax(g.x, -1), torch.softmax(g.x.roll(1, -1), -1), reduction="batchmean"
        ),
    },
)

for name, make in {
    "GRU": lambda: nn.GRU(12, 12, batch_first=True),
    "LSTM": lambda: nn.LSTM(12, 12, batch_first=True),
    "RNN": lambda: nn.RNN(12, 12, nonlinearity="relu", batch_first=True),
}.items():
    NOT_ATTENTION.add("nothing", None, {name: lambda g: g.model.extra["layer"](g.x)[0]}, modules={"layer": make})


def _through(g: Given) -> torch.Tensor:
    return g.model.extra["layer"](g.x)


for name, make in {
    "an MLP": lambda: nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 12)),
    "a classifier with softmax inside": lambda: nn.Sequential(nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 3)),
    "a CNN": lambda: nn.Sequential(nn.Conv1d(8, 16, 3), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 8, 3)),
    "a gated CNN": lambda: nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.GLU(1), nn.Conv1d(8, 8, 1)),
    "swish and batch norm": lambda: nn.Sequential(nn.Linear(12, 12), nn.SiLU(), nn.Hardsigmoid(), nn.Linear(12, 12)),
}.items():
    NOT_ATTENTION.add("nothing", None, {name: _through}, modules={"layer": make})


@NOT_ATTENTION("nothing", modules={"gates": lambda: nn.Linear(24, 24), "new": lambda: nn.Linear(24, 12)})
def a_gru_cell_by_hand(g: Given) -> torch.Tensor:
    h = torch.zeros(2, 12)
    for x in g.x.unbind(1):
        z, r = torch.sigmoid(g.model.extra["gates"](torch.cat([x, h], -1))).chunk(2, -1)
        h = (1 - z) * h + z * torch.tanh(g.model.extra["new"](torch.cat([x, r * h], -1)))
    return h @ g.model.codes.mT


@NOT_ATTENTION("nothing")
def a_kalman_gain(g: Given) -> torch.Tensor:
    p = g.x.mT @ g.x + torch.eye(12)
    return g.x @ (p @ torch.linalg.inv(p + torch.eye(12)))


@NOT_ATTENTION("nothing")
def contrastive_loss(g: Given) -> torch.Tensor:
    a, b = F.normalize(g.x.mean(1), dim=-1), F.normalize(g.x.amax(1), dim=-1)
    return F.cross_entropy(a @ b.mT / 0.07, torch.arange(2))


@NOT_ATTENTION("nothing")
def ctc_loss(g: Given) -> torch.Tensor:
    logs = torch.log_softmax(g.x @ g.model.codes.mT, -1).transpose(0, 1)
    return F.ctc_loss(logs, torch.ones(2, 3).long(), torch.tensor([8, 8]), torch.tensor([3, 3]))


@NOT_ATTENTION("nothing", modules={"step": lambda: nn.Linear(12, 12), "state": lambda: nn.Linear(12, 10)})
def a_selective_state_space_model(g: Given) -> torch.Tensor:
    step = F.softplus(g.model.extra["step"](g.x))
    into, out_of = g.model.extra["state"](g.x).chunk(2, -1)
    h, out = torch.zeros(2, 12, 5), []
    for t in range(8):
        h = torch.exp(-step[:, t, :, None]) * h + step[:, t, :, None] * into[:, t, None] * g.x[:, t, :, None]
        out.append((h * out_of[:, t, None]).sum(-1))
    return torch.stack(out, 1)


@NOT_ATTENTION("nothing", modules={"layer": lambda: nn.Linear(25, 5)})
def messages_over_distances(g: Given) -> torch.Tensor:
    """An equivariant graph network."""
    far = torch.cdist(g.x[..., :3], g.x[..., :3]).square()
    pairs = [g.x[:, :, None].expand(2, 8, 8, 12), g.x[:, None].expand(2, 8, 8, 12), far[..., None]]
    return F.silu(g.model.extra["layer"](torch.cat(pairs, -1))).sum(2)


@NOT_ATTENTION("nothing", modules={"layer": lambda: nn.Linear(12, 144)})
def a_hypernetwork(g: Given) -> torch.Tensor:
    return g.x @ g.model.extra["layer"](g.x.mean(1)).reshape(2, 12, 12)


@NOT_ATTENTION("nothing", modules={"layer": lambda: nn.Linear(12, 24)})
def a_variational_autoencoder(g: Given) -> torch.Tensor:
    mean, log_variance = g.model.extra["layer"](g.x).chunk(2, -1)
    return (mean + torch.exp(0.5 * log_variance)) @ g.model.codes.mT


@NOT_ATTENTION("nothing")
def whitened_features(g: Given) -> torch.Tensor:
    z = g.x - g.x.mean(1, keepdim=True)
    return z @ torch.linalg.inv(z.mT @ z / 7 + torch.eye(12))


@NOT_ATTENTION("nothing")
def pairs_by_a_sigmoid_and_their_loss(g: Given) -> torch.Tensor:
    z = F.normalize(g.x.mean(1), dim=-1)
    return -F.logsigmoid((z @ z.mT) * (2 * torch.eye(2) - 1)).sum()


@NOT_ATTENTION("nothing")
def a_dueling_network(g: Given) -> torch.Tensor:
    gain = g.x @ g.model.codes.mT
    return g.x.mean(-1, keepdim=True) + gain - gain.mean(-1, keepdim=True)


@NOT_ATTENTION("other")
def a_conditional_random_field(g: Given) -> torch.Tensor:
    emitted = torch.log_softmax(g.x @ g.model.codes.mT, -1)
    total = emitted[:, 0]
    for t in range(1, 8):
        total = torch.logsumexp(total[:, :, None] + g.model.codes @ g.model.codes.mT, 1) + emitted[:, t]
    return total.logsumexp(-1)


@NOT_ATTENTION("other", modules={"layer": lambda: nn.Linear(12, 8)})
def a_mixture_density(g: Given) -> torch.Tensor:
    shares = torch.log_softmax(g.model.extra["layer"](g.x), -1)
    return torch.logsumexp(shares[..., None] - 0.5 * (g.x[:, :, None] - g.model.codes).square(), -2)
