"""What recording adds to a run: the first block of a process, an empty block, and models beside themselves unrecorded.

A model runs by turns unrecorded, under a TorchFunctionMode that does nothing (the least that any recorder of this kind
can cost), and recorded. Times are processor seconds of one thread, of the fastest turn.
"""

import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.recording import record

from .measure import BenchResult, fastest_by_turns

FIRST_BLOCK = """
import time, torch, regard
model = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
start = time.process_time()
with regard.record(model):
    model(torch.zeros(1, 3, 8))
print(time.process_time() - start)
"""


class EmptyMode(TorchFunctionMode):
    """Passes every function on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **({} if kwargs is None else kwargs))


def overhead() -> list[BenchResult]:
    console = Console(stderr=True)
    console.print("[dim]the first block of a process, in new processes[/dim]")
    results = [_first_block(), _empty_block()]
    for width, batch, bar in ((256, 128, 1.15), (64, 32, 1.5)):
        linears = nn.Sequential(*(nn.Linear(width, width) for _ in range(50)))
        x = torch.randn(batch, width)
        name = f"50 Linear layers of width {width}, batch {batch}"
        results.append(_beside(name, linears, partial(linears, x), bar, 400))
    console.print("[dim]BERT of 6 layers, 8 texts of 128 tokens[/dim]")
    bert, ids = _bert()
    results.append(_beside("BERT of 6 layers, 8 x 128 tokens", bert, partial(bert, ids), 1.05, 8))
    console.print("[dim]128 tokens of a tiny Llama, one by one[/dim]")
    llama, prompt = _llama()
    results.append(_beside("tiny Llama, 128 tokens generated", llama, partial(_generate, llama, prompt), 1.5, 10))
    return results


def _first_block(processes: int = 5) -> BenchResult:
    seconds = [
        float(subprocess.run([sys.executable, "-c", FIRST_BLOCK], capture_output=True, text=True, check=True).stdout)
        for _ in range(processes)
    ]
    return BenchResult("first block of a process", "s", min(seconds), None, "", "under 0.3 s", min(seconds) < 0.3)


def _empty_block(turns: int = 300) -> BenchResult:
    model = nn.Linear(4, 4)

    def block() -> None:
        with record(model):
            pass

    return BenchResult("empty block", "ms", 1e3 * fastest_by_turns(block, turns=turns)[0], None, "", "-")


def _beside(name: str, model: nn.Module, run: Callable[[], Any], most: float, turns: int) -> BenchResult:
    """Recorded, as it is, and under a mode that does nothing."""

    @torch.no_grad()
    def bare() -> None:
        run()

    @torch.no_grad()
    def empty() -> None:
        with EmptyMode():
            run()

    @torch.no_grad()
    def recorded() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that layers without attention gave no map
            with record(model):
                run()

    ours, peer, least = fastest_by_turns(recorded, bare, empty, turns=turns)
    bar = f"at most {most:g} times; an empty mode {least / peer:.2f}"
    made = BenchResult(name, "ms", 1e3 * ours, 1e3 * peer, "not recorded", bar, ours <= most * peer)
    made.notes = {"empty_mode_ratio": round(least / peer, 3)}
    return made


def _bert() -> tuple[Any, torch.Tensor]:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(num_hidden_layers=6)
    return transformers.BertModel(config, add_pooling_layer=False).eval(), torch.randint(0, 30_000, (8, 128))


def _llama() -> tuple[Any, torch.Tensor]:
    import transformers

    torch.manual_seed(0)
    sizes = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config: Any = transformers.LlamaConfig.from_dict(sizes | {"num_attention_heads": 4, "num_key_value_heads": 2})
    config.eos_token_id = None
    return transformers.LlamaForCausalLM(config).eval(), torch.randint(0, 256, (1, 8))


def _generate(model: Any, prompt: torch.Tensor) -> Any:
    return model.generate(prompt, max_new_tokens=128, min_new_tokens=128, do_sample=False, pad_token_id=0)
