"""Dense attention on a GPU beside the fastest that does the same: torch.compile, SDPA, FlexAttention, AdaSplash."""

from collections.abc import Callable, Iterator

import torch
from rich.console import Console

from ..measure import BenchResult, show
from .additive import additive
from .features import features
from .gqa import shared
from .harness import BenchSetting
from .modified import modified
from .pyramids import pyramids
from .softmax import gaussian, sigmoid, window
from .sparse import best, entmax

Part = Callable[[BenchSetting], Iterator[BenchResult]]
PARTS: tuple[Part, ...] = (additive, gaussian, window, modified, sigmoid, entmax, best, shared, features, pyramids)


def main(parts: str = "all", json: bool = False, warm: bool = False) -> None:
    """Runs some parts. A part that fails keeps what it measured before, and the others still run.

    warm: compiles and compares, but times nothing.
    """
    known = {part.__name__: part for part in PARTS}
    asked = list(known) if parts == "all" else parts.split(",")
    strange = [name for name in asked if name not in known]
    if strange:
        raise ValueError(f"--parts {strange[0]}: expected {', '.join(known)} or all.")
    if not torch.cuda.is_available():
        raise OSError("regard bench dense measures kernels of a GPU, and there is no CUDA device here.")
    console = Console(stderr=True)
    results, errors = [], []
    for name in asked:
        console.print(f"[dim]{known[name].__doc__}[/dim]")
        try:
            for result in known[name](BenchSetting(warm=warm)):
                console.print(f"  {result.name}: {result.ours:.4g} {result.unit}", markup=False)
                results.append(result)
        except Exception as error:
            errors.append(f"{name}: {type(error).__name__}: {error}")
            console.print_exception(max_frames=4)
        torch.cuda.empty_cache()
    show("dense", results, json, errors)
    if errors:
        raise SystemExit(1)
