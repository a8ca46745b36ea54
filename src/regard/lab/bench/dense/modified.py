"""Modified scores beside compiled FlexAttention with the same function of a score and its place."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from regard.core.modifiers import ALiBi, PairBias, RelativeBias, Sink, SoftCap
from regard.core.scores import ScaledDot, Score
from regard.core.structures import Causal, Window

from ..measure import BenchResult
from .harness import BOTH, FORWARD, Bar, BenchSetting, PeerPair

CAP, REACH, SPAN = 30.0, 128, 1024
Mod = Callable[..., Tensor]  # FlexAttention's: of a score, and of the item, head, query and key


def modified(
    setting: BenchSetting,
    lengths: tuple[int, ...] = (8192, 32768),
    widths: tuple[int, ...] = (64, 128),
    heads: int = 16,
    pairs: int = 2048,
) -> Iterator[BenchResult]:
    """soft cap, ALiBi, relative bias, window with soft cap, sinks and pair bias beside compiled FlexAttention"""
    for n in lengths:
        for d in widths:
            for name in ("soft cap", "ALiBi", "relative bias", f"window of {SPAN} and soft cap"):
                yield from _rows(setting, name, n, d, heads, Bar(times=1))
            yield from _rows(setting, "sinks", n, d, heads, Bar(times=1.1))
    for d in widths:
        yield from _rows(setting, "pair bias", pairs, d, heads, Bar(times=1))
    yield from _own_sinks(setting, lengths[0], widths[0], heads)


def _rows(setting: BenchSetting, name: str, n: int, d: int, heads: int, bar: Bar) -> Iterator[BenchResult]:
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    score, mod, learned, sink = _made(name, n, heads, setting.device)
    over = Causal() & Window(SPAN, 0) if name.startswith("window") else Causal()
    mask = create_block_mask(_near if name.startswith("window") else _past, None, None, n, n, device=setting.device)
    flex = setting.compiled(flex_attention)
    leaves = [q, k, v, *learned]

    def peer() -> Tensor:
        given = leaves if torch.is_grad_enabled() else [x.detach() for x in leaves]
        if sink is None:
            out: Tensor = flex(*given[:3], score_mod=mod, block_mask=mask)
            return out
        if not setting.gpu:  # FlexAttention has no log-sum-exp elsewhere
            return setting.attend(q, k, v, score, "softmax", over, backend="chunked")
        out, aux = flex(*given[:3], score_mod=mod, block_mask=mask, return_aux=AuxRequest(lse=True))
        return (out * torch.sigmoid(aux.lse - given[3][:, None])[..., None]).to(out.dtype)

    call = (q, k, v, score, "softmax", over)
    title = f"{name} (1, {heads}, {n}, {d}) bfloat16"
    pair = PeerPair(setting, title, lambda: setting.attend(*call), peer, "FlexAttention", call, leaves)
    yield pair.measured(FORWARD, bar)
    if setting.gpu:  # FlexAttention has no gradient elsewhere
        yield pair.measured(BOTH, bar, memory=True)


def _made(name: str, n: int, heads: int, device: str) -> tuple[Score, Mod | None, list[Tensor], Tensor | None]:
    """The score, what FlexAttention is given, what learns, and the sink among it."""
    dot = ScaledDot()
    if "soft cap" in name:
        return dot | SoftCap(CAP), lambda s, b, h, i, j: CAP * torch.tanh(s / CAP), [], None
    if name == "ALiBi":
        alibi = ALiBi(heads).to(device)
        slopes = alibi.slopes
        return dot | alibi, lambda s, b, h, i, j: s - slopes[h] * (i - j).abs(), [], None
    if name == "relative bias":
        relative = RelativeBias(heads, REACH).to(device)
        table = torch.nn.init.normal_(relative.table)
        return dot | relative, lambda s, b, h, i, j: s + table[h, (j - i).clamp(-REACH, REACH) + REACH], [table], None
    if name == "pair bias":
        bias = torch.randn(heads, n, n, device=device).requires_grad_()
        return dot | PairBias(bias), lambda s, b, h, i, j: s + bias[h, i, j], [bias], None
    sink = Sink(heads, 1.0).to(device)
    return dot | sink, None, [sink.logits], sink.logits


def _past(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def _near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i >= j) & (i - j <= SPAN)


def _own_sinks(setting: BenchSetting, n: int, d: int, heads: int) -> Iterator[BenchResult]:
    """Sinks beside our own kernel without them."""
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    score = ScaledDot() | Sink(heads).to(setting.device)
    call = (q, k, v, score, "softmax", Causal())
    pair = PeerPair(
        setting,
        f"sinks beside none (1, {heads}, {n}, {d}) bfloat16",
        lambda: setting.attend(*call),
        lambda: setting.attend(q, k, v, "scaled_dot", "softmax", Causal()),
        "our softmax",
        call,
        [q, k, v],
        lambda: setting.attend(*call, backend="chunked"),
        unlike=True,
    )
    yield pair.measured(FORWARD, Bar(times=1.1))
    yield pair.measured(BOTH, Bar(times=1.1))
