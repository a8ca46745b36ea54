"""Dense attention on a GPU beside the fastest that does the same: torch.compile, SDPA, AdaSplash."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from ..core.alignments import TopK
from ..core.attend import attend
from ..core.plan import plan
from ..core.scores import Additive, Dot, Gaussian, ScaledDot, SoftCap
from ..core.structures import Causal, Window
from .measure import Result, gpu_times, show


def main(parts: str = "all", json: bool = False) -> None:
    known = {part.__name__: part for part in (additive, softmax, sigmoid, entmax, best, shared, features)}
    asked = list(known) if parts == "all" else parts.split(",")
    strange = [name for name in asked if name not in known]
    if strange:
        raise ValueError(f"--parts {strange[0]}: expected {', '.join(known)} or all.")
    if not torch.cuda.is_available():
        raise OSError("regard bench dense measures kernels of a GPU, and there is no CUDA device here.")
    console = Console(stderr=True)
    results = []
    for name in asked:
        console.print(f"[dim]{known[name].__doc__}[/dim]")
        results += known[name]()
    show("dense", results, json)


def _least(*call: Any, backend: str = "triton-dense") -> dict[str, float]:
    """What `regard.plan` predicts for the forward: no faster than this, in ms; nothing where rates are not known."""
    found = plan(*call, backend=backend).bound
    return {} if found is None else {"bound_ms": found.seconds * 1e3}


def _made(batch: int, heads: int, n: int, dtype: torch.dtype, d: int = 64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(batch, heads, n, d, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]


def _there_and_back(run: Callable[[], Tensor], leaves: list[Tensor]) -> Callable[[], Any]:
    pull = torch.randn_like(run())
    return lambda: torch.autograd.grad(run(), leaves, pull)


def _quiet(run: Callable[[], Any]) -> Callable[[], Any]:
    return torch.no_grad()(run)


def _memory(run: Callable[[], Any]) -> float:
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def additive() -> list[Result]:
    """additive tanh beside torch.compile of its formula"""
    results = []
    sizes = ((8, 1, 512), (4, 8, 1024), (1, 8, 4096))
    bars = {"bfloat16": "at most 2.2 ms", "float32": "at most 2.6 ms"}
    for batch, heads, n in sizes:
        for dtype in (torch.float32, torch.bfloat16):
            if dtype == torch.bfloat16 and n != 4096:
                continue
            q, k, v = _made(batch, heads, n, dtype)
            score = Additive(64, 64, 64, heads=heads).cuda().to(dtype)
            leaves = [q, k, v, *score.parameters()]

            @torch.compile
            def formula(q: Tensor, k: Tensor, v: Tensor, score: Additive = score) -> Tensor:
                return torch.softmax(score(q, k).float(), -1).to(v.dtype) @ v

            def ours(q: Tensor = q, k: Tensor = k, v: Tensor = v, score: Additive = score) -> Tensor:
                return attend(q, k, v, score, backend="triton-dense").out

            def peer(q: Tensor = q, k: Tensor = k, v: Tensor = v, formula: Any = formula) -> Tensor:
                return formula(q, k, v)

            name = str(dtype).removeprefix("torch.")
            where = f"additive ({batch}, {heads}, {n}, 64) {name}"
            mine, theirs = gpu_times(_quiet(ours), _quiet(peer))
            largest = n == 4096
            results.append(
                Result(f"{where}, forward", "ms", mine, theirs, "torch.compile", bars[name] if largest else "faster",
                       mine <= (2.2 if name == "bfloat16" else 2.6) if largest else mine < theirs,
                       _least(q, k, v, score))
            )  # fmt: skip
            both = _there_and_back(ours, leaves)
            mine, theirs = gpu_times(both, _there_and_back(peer, leaves))
            results.append(
                Result(f"{where}, forward+backward", "ms", mine, theirs, "torch.compile",
                       "8 times faster" + (", at most 11 ms and 600 MiB" if largest else ""),
                       theirs / mine >= 8 and (not largest or mine <= 11), {"extra_mib": _memory(both)})
            )  # fmt: skip
    return results


def softmax() -> list[Result]:
    """a Gaussian score and a window beside SDPA"""
    q, k, v = _made(1, 8, 8192, torch.bfloat16)
    plain = _quiet(lambda: F.scaled_dot_product_attention(q, k, v))
    mine, theirs = gpu_times(_quiet(lambda: attend(q, k, v, Gaussian(8.0), backend="triton-dense")), plain)
    made = [Result("Gaussian (1, 8, 8192, 64) bf16, forward", "ms", mine, theirs, "SDPA", "at most 1.25 times",
                   mine <= 1.25 * theirs, _least(q, k, v, Gaussian(8.0)))]  # fmt: skip
    q, k, v = _made(1, 8, 32768, torch.bfloat16)
    window = Causal() & Window(1024, 0)
    mine, theirs = gpu_times(
        _quiet(lambda: attend(q, k, v, over=window, backend="triton-dense")),
        _quiet(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    )
    return [*made, Result("window of 1,024 at 32,768, bf16, forward", "ms", mine, theirs, "SDPA, causal without window",
                          "faster", mine < theirs, _least(q, k, v, "scaled_dot", "softmax", window))]  # fmt: skip


def sigmoid() -> list[Result]:
    """sigmoid beside SDPA's softmax"""
    q, k, v = _made(1, 8, 8192, torch.bfloat16)
    ours = lambda: attend(q, k, v, ScaledDot(), "sigmoid", backend="triton-dense").out  # noqa: E731
    peer = lambda: F.scaled_dot_product_attention(q, k, v)  # noqa: E731
    mine, theirs = gpu_times(_quiet(ours), _quiet(peer))
    one = Result("sigmoid (1, 8, 8192, 64) bf16, forward", "ms", mine, theirs, "SDPA", "not slower", mine <= theirs,
                 _least(q, k, v, "scaled_dot", "sigmoid"))  # fmt: skip
    mine, theirs = gpu_times(*(_there_and_back(run, [q, k, v]) for run in (ours, peer)))
    return [one, Result("sigmoid (1, 8, 8192, 64) bf16, forward+backward", "ms", mine, theirs, "SDPA",
                        "at most 1.3 times", mine <= 1.3 * theirs)]  # fmt: skip


def entmax() -> list[Result]:
    """entmax 1.5 beside AdaSplash, where that is installed"""
    try:
        from adasplash import adasplash  # type: ignore[import-not-found]
    except ImportError:
        adasplash = None
    results = []
    for n in (8192, 5000):
        q, k, v = _made(1, 8, n, torch.bfloat16)
        ours = lambda q=q, k=k, v=v: attend(q, k, v, align="entmax15", over=Causal(), backend="triton-dense").out  # noqa: E731
        runs = {"forward": _quiet(ours), "forward+backward": _there_and_back(ours, [q, k, v])}
        known = adasplash is not None and n == 8192  # it takes powers of two
        peer = lambda q=q, k=k, v=v: adasplash(q, k, v, alpha=1.5, is_causal=True)  # noqa: E731
        peers = {"forward": _quiet(peer), "forward+backward": _there_and_back(peer, [q, k, v])} if known else {}
        for name, run in runs.items():
            if known:
                mine, theirs = gpu_times(run, peers[name])
            else:
                mine, theirs = gpu_times(run)[0], None
            least = _least(q, k, v, "scaled_dot", "entmax15", Causal()) if name == "forward" else {}
            results.append(Result(f"entmax 1.5 causal (1, 8, {n}, 64) bf16, {name}", "ms", mine, theirs, "AdaSplash",
                                  "not slower", None if theirs is None else mine <= theirs, least))  # fmt: skip
    return results


def best() -> list[Result]:
    """softmax over the 32 best keys beside torch.topk of all scores"""
    q, k, v = _made(1, 8, 4096, torch.bfloat16)

    def peer() -> Tensor:
        s = (q @ k.mT).float() * q.shape[-1] ** -0.5
        top, index = s.topk(32)
        return torch.zeros_like(s).scatter(-1, index, top.softmax(-1)).to(v.dtype) @ v

    ours = lambda: attend(q, k, v, align=TopK(32), backend="triton-dense").out  # noqa: E731
    mine, theirs = gpu_times(_quiet(ours), _quiet(peer))
    one = Result("top-32 (1, 8, 4096, 64) bf16, forward", "ms", mine, theirs, "torch.topk", "faster", mine < theirs,
                 _least(q, k, v, "scaled_dot", TopK(32)))  # fmt: skip
    both = [_there_and_back(run, [q, k, v]) for run in (ours, peer)]
    mine, theirs = gpu_times(*both)
    notes = {"extra_mib": _memory(both[0]), "peer_extra_mib": _memory(both[1])}
    return [one, Result("top-32 (1, 8, 4096, 64) bf16, forward+backward", "ms", mine, theirs, "torch.topk", "faster",
                        mine < theirs, notes)]  # fmt: skip


def shared() -> list[Result]:
    """32 heads of queries on 8 of keys, beside the same with keys repeated"""
    q = _made(1, 32, 4096, torch.bfloat16, 128)[0]
    k, v = _made(1, 8, 4096, torch.bfloat16, 128)[1:]
    results = []
    for align in ("softmax", "entmax15"):
        ours = lambda align=align: attend(q, k, v, align=align, over=Causal(), backend="triton-dense").out  # noqa: E731

        def peer(align: str = align) -> Tensor:
            keys, values = (x.repeat_interleave(4, 1) for x in (k, v))
            return attend(q, keys, values, align=align, over=Causal(), backend="triton-dense").out

        both = [_there_and_back(run, [q, k, v]) for run in (ours, peer)]
        mine, theirs = gpu_times(*both)
        notes = {"extra_mib": _memory(both[0]), "peer_extra_mib": _memory(both[1])}
        results.append(Result(f"{align}, causal, 32 heads on 8 (1, 32, 4096, 128) bf16, forward+backward", "ms", mine,
                              theirs, "repeated keys", "not slower", mine <= theirs, notes))  # fmt: skip
    return results


def features() -> list[Result]:
    """weights for each feature beside torch.compile of their formula"""
    results = []
    for name, score in (("DiSA", Additive(activation="identity", features=True) | SoftCap(5.0)),
                        ("product", Dot(features=True))):  # fmt: skip
        q, k, v = _made(1, 2, 1024, torch.bfloat16)

        @torch.compile
        def formula(q: Tensor, k: Tensor, v: Tensor, name: str = name) -> Tensor:
            q, k = q.float()[..., None, :], k.float()[..., None, :, :]
            s = 5 * torch.tanh((q + k) / 5) if name == "DiSA" else q * k
            return (s.softmax(-2) * v[..., None, :, :]).sum(-2).to(v.dtype)

        ours = lambda q=q, k=k, v=v, score=score: attend(q, k, v, score, backend="triton-features").out  # noqa: E731
        peer = lambda q=q, k=k, v=v, formula=formula: formula(q, k, v)  # noqa: E731
        mine, theirs = gpu_times(_quiet(ours), _quiet(peer))
        results.append(Result(f"{name} by feature (1, 2, 1024, 64) bf16, forward", "ms", mine, theirs, "torch.compile",
                              "faster", mine < theirs, _least(q, k, v, score, backend="triton-features")))  # fmt: skip
        both = _there_and_back(ours, [q, k, v])
        mine, theirs = gpu_times(both, _there_and_back(peer, [q, k, v]))
        results.append(Result(f"{name} by feature (1, 2, 1024, 64) bf16, forward+backward", "ms", mine, theirs,
                              "torch.compile", "faster", mine < theirs, {"extra_mib": _memory(both)}))  # fmt: skip
    return results
