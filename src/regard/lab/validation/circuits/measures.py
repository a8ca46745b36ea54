"""How well edges were found: AUROC against the compiled circuit, and the benchmark's measures of faithfulness."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np
import torch
from torch import Tensor

from .compiler import Compiled
from .finders import METHODS, metric
from .network import EdgeNetwork
from .planted import planted
from .program import Edge, Program
from .programs import programs
from .trained import STEPS, agreement, trained, untaught


@dataclass
class CircuitLine:
    """One method on one program and seed."""

    program: str
    method: str
    seed: int
    auroc: float
    cpr: float
    cmd: float
    forward: int
    backward: int
    seconds: float  # of the processor
    right: float
    agrees: float | None = None  # of a trained network: with the program, the worse of both kinds of exchange


def auroc(scores: dict[Edge, float], truth: set[Edge]) -> float:
    """The chance that an edge of the circuit has more than one that is not; ties count half."""
    inside = np.array([x for edge, x in scores.items() if edge in truth])
    outside = np.array([x for edge, x in scores.items() if edge not in truth])
    difference = inside[:, None] - outside[None]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


@torch.no_grad()
def faithfulness(model: EdgeNetwork, ids: Tensor, scores: dict[Edge, float]) -> tuple[float, float]:
    """(CPR, CMD) of Mueller et al. 2025: f is the share of the metric that the k best edges recover.

    CPR = mean_k f(k),    CMD = mean_k |1 - f(k)|,    k = 0 ... all edges; the others are absent
    """
    other = {name: torch.zeros_like(x) for name, x in model.patched(ids, {}, {})[1].items()}
    order = sorted(scores, key=lambda edge: -scores[edge])

    def value(kept: set[Edge]) -> float:
        mask = {edge: torch.tensor(float(edge in kept)) for edge in order}
        return float(metric(model, model.patched(ids, mask, other)[0], ids))

    nothing, whole = value(set()), value(set(order))
    sizes = np.unique(np.linspace(0, len(order), 13).round().astype(int))
    f = np.array([(value(set(order[:k])) - nothing) / (whole - nothing) for k in sizes])
    return float(f.mean()), float(np.abs(1 - f).mean())


def _programs(kind: str) -> list[Program]:
    return planted() if kind == "planted" else programs()


def program_names(kind: str) -> list[str]:
    """What can be asked for by name."""
    return [one.name for one in _programs(kind)]


def measured(
    noise: float = 0.0,
    seeds: int = 3,
    texts: int = 8,
    names: "Sequence[str] | None" = None,
    on_progress: "Callable[[int, int, str], None] | None" = None,
    kind: str = "compiled",
    steps: int = STEPS,
) -> list[CircuitLine]:
    """Every method on every program (or those of some names); noise is added to every weight of the model.

    kind   "compiled", "planted" (shortcuts), or "trained" by interchange interventions, for so many steps
    """
    made: list[CircuitLine] = []
    chosen = [one for one in _programs(kind) if names is None or one.name in names]
    for seed in range(seeds):
        for number, program in enumerate(chosen):
            if on_progress is not None:
                on_progress(seed * len(chosen) + number, seeds * len(chosen), program.name)
            model: EdgeNetwork = trained(program, seed, steps) if kind == "trained" else Compiled(program, seed)
            agrees = min(agreement(model)) if kind == "trained" else None
            unknown = untaught(program) if kind == "trained" else set()
            random = torch.Generator().manual_seed(100 + seed)
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(noise * torch.randn(p.shape, generator=random))
            ids = torch.stack([program.sample(random) for _ in range(texts)])
            answer = torch.stack([program.answer(one) for one in ids])
            with torch.no_grad():
                right = float((model(ids).argmax(-1) == answer)[answer >= 0].float().mean())
            for name, method in METHODS.items():
                start = process_time()
                found = method(model, ids)
                seconds = process_time() - start
                scored = {edge: x for edge, x in found.scores.items() if edge not in unknown}
                cpr, cmd = faithfulness(model, ids, found.scores)
                made.append(
                    CircuitLine(
                        program.name,
                        name,
                        seed,
                        auroc(scored, program.truth),
                        cpr,
                        cmd,
                        found.forward,
                        found.backward,
                        seconds,
                        right,
                        agrees,
                    )
                )
    return made


CIRCUITS = ("method", "AUROC", "worst program", "CPR", "CMD", "forward", "backward", "s")


def circuit_rows(lines: list[CircuitLine]) -> list[tuple[str, ...]]:
    """One row a method: means over programs and seeds, and the program where it does worst."""
    made: list[tuple[str, ...]] = []
    for name in dict.fromkeys(line.method for line in lines):
        own = [line for line in lines if line.method == name]
        by_program = {
            program: float(np.mean([line.auroc for line in own if line.program == program]))
            for program in dict.fromkeys(line.program for line in own)
        }
        worst = min(by_program, key=by_program.__getitem__)
        mean = [float(np.mean([getattr(line, x) for line in own])) for x in ("auroc", "cpr", "cmd")]
        cost = [float(np.mean([getattr(line, x) for line in own])) for x in ("forward", "backward", "seconds")]
        made.append(
            (
                name,
                f"{mean[0]:.3f}",
                f"{by_program[worst]:.2f} ({worst})",
                f"{mean[1]:.2f}",
                f"{mean[2]:.2f}",
                f"{cost[0]:.1f}",
                f"{cost[1]:.1f}",
                f"{cost[2]:.3f}",
            )
        )
    return made


def circuits_json(lines: list[CircuitLine]) -> str:
    """Every line."""
    return json.dumps([asdict(line) for line in lines], indent=2)
