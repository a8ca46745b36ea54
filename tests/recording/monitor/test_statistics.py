"""Statistics of sampled rows are those of the whole map on these rows."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import regard
from regard import Causal, Edges, Padding, Segments, Window, attend
from regard.recording.monitor.head_statistics import COLUMNS, statistics_of
from regard.recording.monitor.sampled_rows import sampled

SMALL = {"rows": 12, "table": False}
STRUCTURES = {
    "all": None,
    "causal": Causal(),
    "window": Window(3, 3),
    "padding": Padding(torch.tensor([9, 4, 9])),
    "causal padding": Causal() & Padding(torch.tensor([9, 4, 9])),
    "segments": Segments(torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])),
}
WRITTEN = {"written out", "nn.MultiheadAttention with weights"}


class Eager(nn.Module):
    """Attention that is written out by hand, causal, with dropout."""

    def __init__(self):
        super().__init__()
        self.qkv, self.drop = nn.Linear(16, 48), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / 2 + torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        return (self.drop(torch.softmax(s, -1)) @ v).transpose(1, 2).flatten(2)


class Fused(Eager):
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).flatten(2)


class Ours(nn.Module):
    def __init__(self, align="softmax", over=None, score="scaled_dot"):
        super().__init__()
        self.attention, self.over = regard.nn.Attention(16, heads=4, align=align, score=score), over

    def forward(self, x):
        return self.attention(x, over=self.over).out


def models():
    torch.manual_seed(0)
    for name, over in STRUCTURES.items():
        yield name, Ours(over=over)
    for align in ("entmax15", "sigmoid", "relu", "uniform"):
        yield align, Ours(align=align, over=Causal())
    yield "top_k", Ours(align=regard.TopK(3), over=Causal())
    yield "additive", Ours(score="additive")
    yield "sink", Ours(score=regard.ScaledDot() | regard.Sink(4))
    yield "fused", Fused()
    yield "written out", Eager()
    yield "nn.TransformerEncoderLayer", nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)


def seen(model, x, **options):
    """One step, seen by a monitor and by a record: statistics of the only site, its whole map, the output."""
    with regard.Monitor(model, **SMALL, **options) as monitor:
        with regard.record(model) as rec:
            out = model(x)
            (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        monitor.step()
    (found,) = monitor.latest.sites.values()
    return found, next(iter(rec.maps.values())), out


def by_hand(amap, rows):
    """The definition, from whole maps; a list over heads of lists over rows of weights on the keys that are open."""
    w, allowed = amap.weights().double(), amap.allowed(slice(0, amap.n), slice(0, amap.m))
    allowed = (allowed > 0).unflatten(0, w.shape[:2])
    if not hasattr(amap, "live"):
        allowed = (w != 0).any(1, keepdim=True).expand_as(w)
    return [[(int(i), w[b, h, i], allowed[b, h, i]) for b, i in rows.tolist()] for h in range(amap.heads)]


@pytest.mark.parametrize("name, model", list(models()), ids=lambda x: x if isinstance(x, str) else "")
def test_statistics_are_those_of_the_whole_map_on_the_sampled_rows(name, model):
    found, amap, _ = seen(model, torch.randn(3, 9, 16))
    assert len(found.rows) == 12
    for h, rows in enumerate(by_hand(amap, found.rows)):
        p = [w / w.sum().clamp_min(1e-30) for _, w, _ in rows]
        entropy = [-torch.xlogy(w, w).sum() for _, w, _ in rows]
        spread = [-torch.xlogy(x, x).sum() for x in p]
        choices = [int(may.sum()) for *_, may in rows]
        assert_close(found.entropy[h].double(), torch.stack(entropy).mean(), rtol=1e-4, atol=1e-5)
        assert_close(found.effective[h].double(), torch.stack(spread).exp().mean(), rtol=1e-4, atol=1e-5)
        some = [(x, c) for x, c in zip(spread, choices, strict=True) if c > 1]
        relative = torch.stack([x / math.log(c) for x, c in some]).mean()
        assert_close(found.relative[h].double(), relative, rtol=1e-4, atol=1e-5)
        sink = [w[0] for _, w, may in rows if may[0] and may.sum() > 1]
        assert_close(found.sink[h].double(), torch.stack(sink).mean(), rtol=1e-4, atol=1e-5)
        away = [(x * (torch.arange(9) - i).abs()).sum() for (i, *_), x in zip(rows, p, strict=True)]
        assert_close(found.distance[h].double(), torch.stack(away).mean(), rtol=1e-4, atol=1e-5)


def test_the_largest_logit_is_seen_in_fused_and_in_written_out_attention():
    torch.manual_seed(0)
    written, fused = Eager(), Fused()
    fused.load_state_dict(written.state_dict())
    x = torch.randn(3, 9, 16)
    a, b = (seen(model, x)[0] for model in (written, fused))
    q, k, _ = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in written.qkv(x).chunk(3, -1))
    s = (q @ k.mT / 2).masked_fill(torch.ones(9, 9).triu(1) > 0, -torch.inf)
    item, row = a.rows.T
    assert_close(a.max_logit, s[item, :, row].amax((0, 2)).detach())
    assert_close(b.max_logit, a.max_logit)


def test_shares_of_the_gradient_are_those_of_autograd_and_sum_to_one():
    torch.manual_seed(0)
    model, x = Fused(), torch.randn(3, 9, 16)
    found, _, out = seen(model, x)
    grad = torch.linspace(-1, 1, out.numel()).view_as(out).unflatten(-1, (4, -1))  # (B, n, H, d)
    square = grad.square().sum((0, 1, 3))
    assert_close(found.gradient, square / square.sum())
    assert_close(found.output, out.detach().unflatten(-1, (4, -1)).square().mean((0, 1, 3)).sqrt())


def test_rows_of_padding_are_not_sampled():
    found, *_ = seen(Ours(over=STRUCTURES["causal padding"]), torch.randn(3, 9, 16))
    assert all(row < 4 for item, row in found.rows.tolist() if item == 1)


def test_weights_on_a_graph_are_read_by_row():
    torch.manual_seed(0)
    index = torch.randint(0, 30, (2, 120))
    conv, x = regard.nn.GATConv(8, 4, heads=2), torch.randn(30, 8)
    with regard.Monitor(conv, rows=10, table=False) as monitor:
        with regard.record(conv) as rec:
            conv(x, index).sum().backward()
        monitor.step()
    (found,) = monitor.latest.sites.values()
    amap = next(iter(rec.maps.values()))
    rows = found.rows[:, 1]
    assert_close(found.entropy, amap.entropy().reshape(2, 30)[:, rows].mean(-1).float(), rtol=1e-4, atol=1e-5)
    assert found.distance.isnan().all()


def test_own_attend_over_edges_equals_its_mask():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 12, 4)
    index = torch.cat([torch.randint(0, 12, (2, 40)), torch.arange(12).expand(2, -1)], 1).unique(dim=1)
    keep = torch.zeros(12, 12, dtype=torch.bool)
    keep[index[1], index[0]] = True
    sparse, dense = (
        statistics_of(sampled(attend(q, k, v, over=over).map, 12, "0"), None)
        for over in (Edges(index), regard.Mask(keep=keep))
    )
    assert_close(sparse[0][:4], dense[0][:4])  # every row is sampled; the order of the rows differs


class Largest(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.numel = max(
            [
                self.numel,
                *(x.untyped_storage().nbytes() // x.itemsize for x in tree_leaves(out) if isinstance(x, torch.Tensor)),
            ]
        )
        return out


def test_nothing_of_n_times_m_is_made():
    n, heads = 600, 2
    q, k, v = torch.randn(3, 1, heads, n, 4)
    amap = attend(q, k, v, over=Causal()).map
    with Largest() as largest:
        statistics_of(sampled(amap, 16, "0"), 0)
    assert largest.numel <= heads * 16 * n


def test_every_column_has_a_number_for_each_head():
    found, *_ = seen(Fused(), torch.randn(3, 9, 16))
    assert all(getattr(found, name).shape == (4,) and getattr(found, name).isfinite().all() for name in COLUMNS)


def test_heads_that_are_copies_are_duplicates_and_one_without_values_is_dead():
    torch.manual_seed(0)
    model = Fused()
    with torch.no_grad():
        for block in (0, 16):  # queries and keys of head 3 are those of head 1
            model.qkv.weight[block + 12 : block + 16] = model.qkv.weight[block + 4 : block + 8]
            model.qkv.bias[block + 12 : block + 16] = model.qkv.bias[block + 4 : block + 8]
        model.qkv.weight[32:36], model.qkv.bias[32:36] = 0, 0  # values of head 0
    found, *_ = seen(model, torch.randn(3, 9, 16))
    assert found.duplicates == [(1, 3)] and found.dead == [0]
