"""What a monitor adds to training: a step that is looked at and one that is not, beside plain ones.

Forward, backward and update run by turns plainly, under a monitor that does not look at this step, and looked at. Times
are processor seconds of one thread on a CPU, of the fastest turn; on a GPU medians between events.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from torch import nn

from regard.recording import Monitor
from regard.recording.pretrained import hide_broken_torchvision

from .measure import BenchResult, fastest_by_turns, gpu_times, show
from .record import TransformerLayer

EVERY = 100
MOST = 0.03  # of a step's time, at every=100


def main(json: bool = False, turns: int = 8) -> None:
    console = Console(stderr=True)
    results = []
    for name, model, run in settings():
        console.print(f"[dim]{name}[/dim]")
        results += _beside(name, model, run, turns)
    show("monitor", results, json)


def settings() -> "list[tuple[str, nn.Module, Callable[[], Any]]]":
    """Models to train: layers on SDPA at two lengths, and a BERT that writes out its weights."""
    hide_broken_torchvision()
    import transformers

    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device, layers = ("cuda", 12) if gpu else ("cpu", 2)
    made: list[tuple[str, nn.Module, Callable[[], Any]]] = []
    sizes = ((64, 4, 4, 16), (768, 12, 4, 128), (768, 12, 1, 1024))
    for width, heads, batch, tokens in ((768, 12, 8, 1024), (768, 12, 1, 8192)) if gpu else sizes:
        model = nn.Sequential(*(TransformerLayer(width, heads) for _ in range(layers))).to(device)
        x = torch.randn(batch, tokens, width, device=device)
        name = f"{layers} layers of width {width} on SDPA, {batch} x {tokens} tokens"
        made.append((name, model, partial(model, x)))
    kind: Any = transformers.BertConfig  # its stub does not know the options of every configuration
    config = kind(num_hidden_layers=layers, attn_implementation="eager")
    bert: Any = transformers.BertModel(config, add_pooling_layer=False)
    bert.to(device)
    ids = torch.randint(0, config.vocab_size, (4, 128), device=device)
    made.append((f"{layers} layers of BERT, written out, 4 x 128 tokens", bert, lambda: bert(ids).last_hidden_state))
    return made


def _beside(name: str, model: nn.Module, run: Callable[[], Any], turns: int) -> list[BenchResult]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)
    model.train()

    def step() -> None:
        run().float().square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    def looked_at() -> None:
        with Monitor(model, every=1, table=False, watch=False):
            step()

    def beside() -> None:
        monitor = Monitor(model, every=1 << 30, table=False, watch=False)
        monitor.start(1)
        step()
        monitor.stop()

    if torch.cuda.is_available():
        plain, idle, looked = (1e-3 * x for x in gpu_times(step, beside, looked_at))
    else:
        plain, idle, looked = fastest_by_turns(step, beside, looked_at, turns=turns)
    share = (looked - plain) / EVERY / plain
    return [
        BenchResult(f"{name}: plain step", "ms", 1e3 * plain, None, "", "-"),
        BenchResult(f"{name}: not looked at", "ms", 1e3 * idle, 1e3 * plain, "plain step", "-"),
        BenchResult(f"{name}: looked at", "ms", 1e3 * looked, 1e3 * plain, "plain step", "-"),
        BenchResult(
            f"{name}: share of the time at every={EVERY}", "%", 100 * share, None, "", "at most 3 %", share <= MOST
        ),
    ]
