"""Layers that choose their keys, beside twins that write every score and weight."""

import pytest
import torch
from torch.nn.functional import kl_div
from torch.testing import assert_close

from regard import Causal, Padding, attend
from regard.nn import (
    Cache,
    DifferentialAttention,
    IndexedAttention,
    LightningIndexer,
    MixtureOfBlockAttention,
    NativeSparseAttention,
)

DIM, HEADS, N = 24, 4, 21
LAYERS = {
    "moba": lambda: MixtureOfBlockAttention(DIM, HEADS, kv_heads=2, block=4, top=3),
    "nsa": lambda: NativeSparseAttention(DIM, HEADS, kv_heads=2, block=4, top=3, window=6),
    "nsa, learned": lambda: NativeSparseAttention(DIM, HEADS, kv_heads=2, block=4, top=4, window=6, compress="learned"),
    "dsa": lambda: IndexedAttention(DIM, HEADS, kv_heads=2, top=5, index_heads=2, index_d=8),
}


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def softmax(s, keep):
    w = s.masked_fill(~keep, float("-inf")).softmax(-1)
    return torch.where(keep.any(-1, keepdim=True), w, 0.0)


@pytest.mark.parametrize("name", LAYERS)
def test_the_map_times_nothing_else_and_decoding_give_what_the_whole_gives(name):
    layer, x, cache = LAYERS[name](), torch.randn(2, N, DIM), Cache()
    whole = layer(x)
    assert whole.map.shape == (2, HEADS, N, N)
    assert not whole.map.weights().triu(1).any()
    steps = [layer(x[:, t : t + 1], cache=cache) for t in range(N)]
    assert_close(torch.cat([step.out for step in steps], 1), whole.out)
    assert_close(steps[-1].map.weights()[..., 0, :], whole.map.row(N - 1))
    assert_close(whole.map[1, 2].tile([7, 3], [2, 0]), whole.map.weights()[1, 2][[7, 3]][:, [2, 0]])


@pytest.mark.parametrize("name", LAYERS)
def test_what_stands_in_the_padding_changes_nothing_and_all_learn(name):
    layer, x = LAYERS[name](), torch.randn(2, N, DIM)
    garbage = x.clone()
    garbage[1, 9:] = 7.0
    out, again = layer(x, Padding(torch.tensor([N, 9]))).out, layer(garbage, Padding(torch.tensor([N, 9]))).out
    assert_close(out[1, :9], again[1, :9])
    assert_close(out[1, :9], layer(x[1:, :9]).out[0])
    out[0].square().sum().backward()
    taught = [p for n, p in layer.named_parameters() if not n.startswith("indexer")]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in taught)


@pytest.mark.parametrize("name", ["moba", "dsa"])
def test_choosing_everything_is_causal_attention(name):
    layer, x = LAYERS[name](), torch.randn(2, N, DIM)
    layer.top = N
    q, k, v = heads(layer.q_proj(x), HEADS), heads(layer.k_proj(x), 2), heads(layer.v_proj(x), 2)
    wanted = attend(layer.rotary(q), layer.rotary(k), v, over=Causal())
    assert_close(layer(x).map.weights(), wanted.map.weights())
    assert_close(layer(x).out, layer.out_proj(wanted.out.transpose(1, 2).flatten(2)))


def test_a_mixture_of_blocks_attends_its_own_block_and_the_best_before():
    layer, x = LAYERS["moba"](), torch.randn(1, N, DIM)
    q = layer.rotary(heads(layer.q_proj(x), HEADS))[0]
    k, v = (y.repeat_interleave(2, 1)[0] for y in (layer.rotary(heads(layer.k_proj(x), 2)), heads(layer.v_proj(x), 2)))
    out = torch.zeros(HEADS, N, DIM // HEADS)
    for h in range(HEADS):
        for i in range(N):
            own = i // 4
            score = [float((q[h, i] @ k[h, b * 4 : b * 4 + 4].mean(0)).detach()) for b in range(own)]
            chosen = {own, *sorted(range(own), key=lambda b: -score[b])[:2]}
            keep = torch.tensor([j <= i and j // 4 in chosen for j in range(N)])
            out[h, i] = softmax(q[h, i] @ k[h].T / 6**0.5, keep) @ v[h]
    assert_close(layer(x).out, layer.out_proj(out.transpose(0, 1).flatten(1))[None])


def test_native_sparse_attention_is_three_softmaxes_and_gates():
    layer, x = LAYERS["nsa"](), torch.randn(1, N, DIM)
    q = layer.rotary(heads(layer.q_proj(x), HEADS))[0]
    k = layer.rotary(heads(layer.k_proj(x), 6))[0].unflatten(0, (3, 2)).repeat_interleave(2, 1)
    v = heads(layer.v_proj(x), 6)[0].unflatten(0, (3, 2)).repeat_interleave(2, 1)
    gate = torch.sigmoid(layer.gate_proj(x))[0].unflatten(-1, (3, HEADS))
    whole = N // 4
    means = [y[0][:, : 4 * whole].unflatten(1, (whole, 4)).mean(2) for y in (k, v)]
    out, weights = torch.zeros(HEADS, N, 6), torch.zeros(HEADS, N, N)
    for i in range(N):
        past = torch.tensor([4 * b + 3 <= i for b in range(whole)])
        p = torch.stack([softmax(q[h, i] @ means[0][h].T / 6**0.5, past) for h in range(HEADS)])
        for h in range(HEADS):
            own, group = i // 4, h // 2
            shared = p[2 * group : 2 * group + 2].sum(0)
            forced = [b for b in (own, own - 1, 0) if b >= 0]
            rest = sorted((b for b in range(own) if b not in forced), key=lambda b: -shared[b])
            chosen = list(dict.fromkeys(forced + rest))[:3]
            selected = torch.tensor([j <= i and j // 4 in chosen for j in range(N)])
            near = torch.tensor([i - 6 < j <= i for j in range(N)])
            w = [softmax(q[h, i] @ k[c, h].T / 6**0.5, keep) for c, keep in ((1, selected), (2, near))]
            parts = (p[h] @ means[1][h], w[0] @ v[1, h], w[1] @ v[2, h])
            out[h, i] = sum(gate[i, c, h] * part for c, part in enumerate(parts))
            spread = torch.nn.functional.pad(p[h].repeat_interleave(4) / 4, (0, N - 4 * whole))
            weights[h, i] = gate[i, 0, h] * spread + gate[i, 1, h] * w[0] + gate[i, 2, h] * w[1]
    found = layer(x)
    assert_close(found.out, layer.out_proj(out.transpose(0, 1).flatten(1))[None])
    assert_close(found.map.weights()[0], weights.detach())


def test_the_indexer_scores_and_chooses_as_written():
    indexer, x = LightningIndexer(DIM, 3, d=8), torch.randn(2, N, DIM)
    q, k, w = heads(indexer.q_proj(x), 3), indexer.k_proj(x), indexer.weight_proj(x) / 24**0.5
    wanted = sum(w[..., h, None] * torch.relu(q[:, h] @ k.mT) for h in range(3))
    assert_close(indexer(x), wanted)
    index = indexer.select(x, 4).index[:, 0]
    for b in range(2):
        for i in range(N):
            best = wanted[b, i, : i + 1].topk(min(4, i + 1)).values  # of equal ones, any
            chosen = index[b, i][index[b, i] >= 0]
            assert len(set(chosen.tolist())) == min(4, i + 1)
            assert_close(wanted[b, i, chosen].sort(descending=True).values, best)


@pytest.mark.parametrize("over", [Causal(), Causal() & Padding(torch.tensor([N, 9]))], ids=str)
def test_the_teacher_is_the_divergence_from_the_mean_map_in_value_and_gradient(over, monkeypatch):
    from regard.nn.multihead import indexer as room

    monkeypatch.setattr(room, "BLOCK", 400)  # several blocks of rows
    indexer, x = LightningIndexer(DIM, 3, d=8), torch.randn(2, N, DIM, requires_grad=True)
    amap = attend(*torch.randn(3, 2, HEADS, N, 6), over=over).map
    p = amap.weights().mean(1)
    keep = amap.allowed(slice(0, N), slice(0, N)).expand(2 * HEADS, N, N).bool()[::HEADS]
    logs = torch.log_softmax(indexer(x).masked_fill(~keep, float("-inf")), -1).masked_fill(~keep, 0.0)
    wanted = kl_div(logs, p, reduction="sum") / keep.any(-1).sum()
    found = indexer.divergence(x, amap)
    assert_close(found, wanted)
    leaves = [x, *indexer.parameters()]
    for a, b in zip(torch.autograd.grad(3 * found, leaves), torch.autograd.grad(3 * wanted, leaves), strict=True):
        assert_close(a, b)


def test_an_indexer_that_is_taught_finds_the_keys_of_its_teacher():
    torch.manual_seed(1)
    layer, x = IndexedAttention(DIM, HEADS, top=N, index_heads=4, index_d=16), 2 * torch.randn(2, N, DIM)
    best = torch.optim.Adam(layer.indexer.parameters(), 0.02)
    amap = layer(x).map
    first = float(layer.indexer.divergence(x, amap))
    for _ in range(60):
        best.zero_grad()
        loss = layer.indexer.divergence(x, amap)
        loss.backward()
        best.step()
    assert float(loss) < first / 2


def test_a_map_of_other_tokens_and_a_signed_one_teach_nobody():
    indexer, x = LightningIndexer(DIM), torch.randn(2, N, DIM)
    with pytest.raises(ValueError, match="belong to a map"):
        indexer.divergence(x, attend(*torch.randn(3, 2, HEADS, N + 1, 6)).map)


@pytest.mark.parametrize("name", LAYERS)
def test_one_graph_compiles_with_the_selection_in_it(name: str):
    layer, x = LAYERS[name]().eval(), torch.randn(2, N, DIM)
    with torch.no_grad():
        compiled = torch.compile(lambda x: layer(x).out, backend="aot_eager", fullgraph=True, dynamic=True)
        assert_close(compiled(x), layer(x).out)


def test_whether_a_combined_map_is_signed_is_read_when_asked_for():
    amap = DifferentialAttention(DIM, HEADS).eval()(torch.randn(1, N, DIM)).map
    assert "signed" not in vars(amap)  # on a GPU the layer would have waited for it
    assert amap.signed == any(bool((share < 0).any()) for share in amap.shares)
