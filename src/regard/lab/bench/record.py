"""Overhead of recording, and comparison with output_attentions=True.

On a CPU: a BERT-shaped model of 12 heads at 2,048 tokens. On a GPU: layers of 12 heads at 32,768 and 131,072 tokens,
and the pyramid of one layer compared with its SDPA forward.
"""

import gc
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from regard.recording import record

from .measure import BenchResult, by_turns, gpu_times, peak_memory, show
from .record_overhead import overhead


class TransformerLayer(nn.Module):
    """A transformer layer of 12 heads of 64 on SDPA, causal."""

    def __init__(self, width: int = 768, heads: int = 12):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


PARTS = ("overhead", "forward")


def main(parts: str = "all", json: bool = False) -> None:
    asked = PARTS if parts == "all" else tuple(part.strip() for part in parts.split(","))
    if not set(asked) <= set(PARTS):
        raise ValueError(f"--parts {parts}: expected {', '.join(PARTS)}, or all.")
    results = overhead() if "overhead" in asked else []
    if "forward" in asked:
        results += on_a_gpu() if torch.cuda.is_available() else on_a_cpu()
    show("record", results, json)


def on_a_cpu(tokens: int = 2048) -> list[BenchResult]:
    """Six layers of 12 heads of transformers' BERT, one text of 2,048 tokens."""
    import transformers

    console = Console(stderr=True)
    config = transformers.BertConfig(num_hidden_layers=6, max_position_embeddings=tokens)
    torch.manual_seed(0)
    model: Any = transformers.BertModel(config, add_pooling_layer=False).eval()
    ids = torch.randint(0, config.vocab_size, (1, tokens))

    def bare() -> Any:
        with torch.no_grad():
            return model(ids)

    def recorded() -> Any:
        with torch.no_grad(), record(model) as rec:
            model(ids)
        return rec

    console.print("[dim]a forward with capture beside one without[/dim]")
    with_capture, without = by_turns(recorded, bare, repeats=5)
    _, bytes_bare = peak_memory(bare)
    _, bytes_recorded = peak_memory(recorded)
    matrix = 4 * 12 * tokens * tokens
    kept = 6 * 2 * 4 * tokens * 768
    rec = recorded()
    same = torch.equal(model(ids)[0].detach(), bare()[0])
    first = BenchResult(
        f"forward of 6 layers at {tokens} tokens, recorded",
        "s",
        with_capture,
        without,
        "not recorded",
        "at most 10 % more, nothing of n x n",
        with_capture <= 1.1 * without and bytes_recorded - bytes_bare < kept + matrix // 2,
    )
    first.notes = {
        "memory_mb": bytes_recorded / 1e6,
        "peer_memory_mb": bytes_bare / 1e6,
        "extra_gb": (bytes_recorded - bytes_bare) / 1e9,
        "kept_gb": kept / 1e9,
        "one_layer_of_weights_gb": matrix / 1e9,
        "maps": len(rec.maps),
        "outputs_equal": same,
        "missed": sum(rec.missed.values()),
    }
    del rec
    gc.collect()
    console.print("[dim]output_attentions=True on the slow path[/dim]")
    model.set_attn_implementation("eager")

    def eager() -> Any:
        with torch.no_grad():
            return model(ids, output_attentions=True)

    eager_time, bytes_eager = peak_memory(eager)
    second = BenchResult(
        "the same beside output_attentions=True, eager",
        "s",
        with_capture,
        eager_time,
        "eager",
        "faster",
        with_capture < eager_time,
    )
    second.notes = {"memory_mb": bytes_recorded / 1e6, "peer_memory_mb": bytes_eager / 1e6}
    return [first, second]


def on_a_gpu(lengths: tuple[int, ...] = (32_768, 131_072)) -> list[BenchResult]:
    """Two layers in bf16: recorded beside not recorded; the pyramid of one layer beside its SDPA forward."""
    results = []
    model = nn.Sequential(TransformerLayer(), TransformerLayer()).cuda().bfloat16().eval()
    for n in lengths:
        x = torch.randn(1, n, 768, device="cuda", dtype=torch.bfloat16)

        def bare(x: Tensor = x) -> Any:
            with torch.no_grad():
                return model(x)

        def recorded(x: Tensor = x) -> Any:
            with torch.no_grad(), record(model) as rec:
                model(x)
            return rec

        with_capture, without = gpu_times(recorded, bare)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        rec = recorded()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        made = BenchResult(
            f"forward of 2 layers of 12 heads at {n} tokens, bf16, recorded",
            "ms",
            with_capture,
            without,
            "not recorded",
            "at most 10 % more",
            with_capture <= 1.1 * without,
        )
        made.notes = {"memory_mb": peak / 1e6, "one_head_of_weights_gb": 2 * n * n / 1e9}
        results.append(made)
        results.append(_pyramid(rec, n))
        del rec
    return results


def _pyramid(rec: Any, n: int) -> BenchResult:
    amap = rec.maps["0"]
    core = amap.live.score.core
    q, k = (t.unflatten(0, (1, 12)) for t in (core.a, core.b))
    v = torch.randn_like(k)
    attention = gpu_times(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))[0]

    def build() -> None:
        amap._pyramid = None
        amap.pyramid()

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    took = gpu_times(build)[0]
    made = BenchResult(
        f"pyramid of one layer of 12 heads at {n} tokens, bf16",
        "ms",
        took,
        attention,
        "SDPA forward",
        "at most 4 times SDPA's forward",
        took <= 4 * attention,
    )
    made.notes = {"memory_mb": (torch.cuda.max_memory_allocated() - before) / 1e6}
    return made
