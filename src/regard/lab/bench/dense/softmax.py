"""A bias of keys and windows beside SDPA and compiled FlexAttention; sigmoid beside SDPA's softmax."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from regard.core.scores import Gaussian
from regard.core.structures import Causal, Window

from ..measure import BenchResult
from .harness import BACKWARD, BOTH, FORWARD, Bar, BenchSetting, PeerPair, clocked, kernels_compiled

WIDTH = 8.0  # of the Gaussian


def written_out(q: Tensor, k: Tensor, v: Tensor, weigh: Callable[[Tensor], Tensor], scale: float) -> Tensor:
    """All scores in fp32, one weight each, then the average: the truth of what has no library."""
    return (weigh((q.float() @ k.float().mT) * scale) @ v.float()).to(v.dtype)


def gaussian(
    setting: BenchSetting, short: int = 8192, long: int = 32768, heads: int = 12, d: int = 64
) -> Iterator[BenchResult]:
    """a Gaussian score beside SDPA, and beside compiled FlexAttention with the same bias"""
    score = Gaussian(WIDTH)
    q, k, v = setting.made(*[(1, heads, short, d)] * 3)
    pair = PeerPair(
        setting,
        f"Gaussian (1, {heads}, {short}, {d}) bfloat16",
        lambda: setting.attend(q, k, v, score),
        lambda: F.scaled_dot_product_attention(q, k, v),
        "SDPA",
        (q, k, v, score),
        [q, k, v],
        truth=lambda: written_out(q, k, v, lambda s: torch.softmax(s + _bias(k)[..., None, :], -1), WIDTH**-2),
        unlike=True,
    )
    for way in (FORWARD, BACKWARD):
        yield pair.measured(way, Bar(times=1.25))
    yield from _biased(setting, long, heads, d)


def _bias(k: Tensor) -> Tensor:
    """-|k|^2 / (2 width^2), what a Gaussian adds to the product, in fp32."""
    return -0.5 * (k.float() / WIDTH).square().sum(-1)


def _biased(setting: BenchSetting, n: int, heads: int, d: int) -> Iterator[BenchResult]:
    score = Gaussian(WIDTH)
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    flex = setting.compiled(flex_attention)

    def peer(scored: Callable[..., Tensor]) -> Tensor:
        made: Tensor = flex(*_leading(q, k, v), score_mod=scored, scale=WIDTH**-2)
        return made

    before = _adds(_bias(k).detach())  # only the attention of the peer is timed, not what its bias is made of
    name, call = f"Gaussian (1, {heads}, {n}, {d}) bfloat16", (q, k, v, score)
    ours = lambda: setting.attend(q, k, v, score)  # noqa: E731
    yield PeerPair(setting, name, ours, lambda: peer(before), "FlexAttention", call, [q, k, v]).measured(
        FORWARD, Bar(times=1)
    )
    if setting.gpu:  # FlexAttention has no gradient elsewhere
        yield PeerPair(setting, name, ours, lambda: peer(_adds(_bias(k))), "FlexAttention", call, [q, k, v]).measured(
            BOTH, Bar(times=1), memory=True
        )


def _adds(bias: Tensor) -> Callable[..., Tensor]:
    """What FlexAttention asks for each score, from its place."""

    def biased(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return s + bias[b, h, j]

    return biased


def _leading(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors that lead to gradients only where some are asked for."""
    return tensors if torch.is_grad_enabled() else tuple(x.detach() for x in tensors)


def window(
    setting: BenchSetting, n: int = 32768, fresh: int = 31111, width: int = 1024, heads: int = 12, d: int = 64
) -> Iterator[BenchResult]:
    """a window beside compiled FlexAttention with its block mask built, and the first call at a new length"""
    over = Causal() & Window(width, 0)
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    flex = setting.compiled(flex_attention)
    mask = _near(setting, n, width)
    call = (q, k, v, "scaled_dot", "softmax", over)
    pair = PeerPair(
        setting,
        f"window of {width} (1, {heads}, {n}, {d}) bfloat16",
        lambda: setting.attend(*call),
        lambda: flex(*_leading(q, k, v), block_mask=mask),
        "FlexAttention, block mask built",
        call,
        [q, k, v],
    )
    yield pair.measured(FORWARD, Bar(times=1))
    if setting.gpu:
        yield pair.measured(BOTH, Bar(times=1), memory=True)
    if not setting.warm:  # what was compiled before is not compiled at a first call
        yield _first(setting, fresh, heads, d, width, flex)
        yield _first(setting, fresh - 1110, heads, d, width, None)


def _near(setting: BenchSetting, n: int, width: int) -> Any:
    return create_block_mask(lambda b, h, i, j: (i >= j) & (i - j <= width), None, None, n, n, device=setting.device)


@torch.no_grad()
def _first(
    setting: BenchSetting, n: int, heads: int, d: int, width: int, flex: Callable[..., Any] | None
) -> BenchResult:
    """The first call at a length that was not seen: whether it compiles, beside what FlexAttention does then."""
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    over, waits = Causal() & Window(width, 0), torch.cuda.synchronize if setting.gpu else lambda: None

    def waited(run: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (run(), waits())

    with kernels_compiled() as names:
        mine = clocked(waited(lambda: setting.attend(q, k, v, "scaled_dot", "softmax", over)))
    theirs = flex and clocked(waited(lambda: flex(*_leading(q, k, v), block_mask=_near(setting, n, width))))
    return BenchResult(
        f"window of {width}, the first call at {n} tokens",
        "ms",
        mine,
        theirs or None,
        "FlexAttention, mask and compilation",
        "no kernel compiled",
        not names,
        {"kernels_compiled": names},
    )


def sigmoid(
    setting: BenchSetting, n: int = 8192, heads: int = 8, widths: tuple[int, ...] = (64, 128)
) -> Iterator[BenchResult]:
    """sigmoid beside SDPA's softmax"""
    for d in widths:
        pair = _sigmoid(setting, n, heads, d)
        yield pair.measured(FORWARD, Bar(times=1))
        yield pair.measured(BACKWARD, Bar(times=1.3))


def _sigmoid(setting: BenchSetting, n: int, heads: int, d: int) -> PeerPair:
    q, k, v = setting.made(*[(1, heads, n, d)] * 3)
    call = (q, k, v, "scaled_dot", "sigmoid")
    return PeerPair(
        setting,
        f"sigmoid (1, {heads}, {n}, {d}) bfloat16",
        lambda: setting.attend(*call),
        lambda: F.scaled_dot_product_attention(q, k, v),
        "SDPA's softmax",
        call,
        [q, k, v],
        lambda: written_out(q, k, v, lambda s: torch.sigmoid(s - math.log(n)), d**-0.5),
        unlike=True,
    )
