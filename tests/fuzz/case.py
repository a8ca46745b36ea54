"""A random plan, drawn from its name alone: "cpu-17.3" is variation 3 of configuration 17 of those for a CPU.

A configuration fixes what kernels are compiled for (score, modifiers, alignment, structure, widths, precision); sizes,
heads, strides and numbers differ between its variations. Kinds say where a case is to run:

    cpu      every backend of a CPU
    triton   Triton's kernels in its interpreter, small
    cuda     Triton's kernels and what else a GPU runs
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from zlib import crc32

import torch
from tests.catalogue import ALIGNMENTS, STRUCTURES, Room
from tests.fuzz.interpreted import on_any_device
from tests.fuzz.parts import FUSED, LAYOUTS, MODIFIERS, SCORES, Sizes
from tests.oracle import Case, Inputs
from torch import Tensor

from regard import Edges
from regard.core.errors import Refused
from regard.core.plan import Plan, make_plan
from regard.core.structures import Structure

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WIDTHS = {"cpu": (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 40, 64), "triton": (1, 3, 5, 8, 16, 17, 24, 33)}
WIDTHS["cuda"] = (1, 3, 8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 160, 256)
LENGTHS = {"cpu": (2, 3, 5, 8, 13, 16, 31, 33, 48, 64), "triton": (2, 3, 7, 16, 17, 33)}
LENGTHS["cuda"] = (2, 5, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 300, 511, 777)
EXTREMES = (0, 1)  # lengths


@dataclass(frozen=True)
class Configuration:
    """What kernels are compiled for."""

    score: str
    modifiers: tuple[str, ...]
    align: str
    over: str
    d_q: int
    d_k: int
    d_v: int
    hidden: int
    dtype: str
    dropout: float
    grouped: bool

    @staticmethod
    def drawn(kind: str, chance: random.Random) -> "Configuration":
        names = list(SCORES)
        popular = ["dot", "scaled dot", "general", "additive", "gaussian", "gat", "gatv2", "dot by feature"]
        score = chance.choice(names if chance.random() < 0.6 else popular)
        family = SCORES[score]
        widths = WIDTHS[kind]
        d_q = chance.choice(widths)
        d_k = d_q if family.equal else chance.choice(widths)
        d_v = d_q if family.own_width or chance.random() < 0.2 else chance.choice(widths)
        if family.wide and d_v > 17:
            d_v = d_k = d_q = 7 if family.own_width else chance.choice((1, 3, 5))
        count = chance.choice((0, 0, 0, 0, 1, 1, 1, 2, 3)) if kind == "cpu" else chance.choice((0, 0, 0, 1, 1, 2))
        modifiers = tuple(chance.sample(FUSED if kind == "triton" else list(MODIFIERS), count))
        precisions = list(DTYPES) if kind == "cpu" else ["fp32", "bf16", "fp16"]
        return Configuration(
            score,
            modifiers,
            chance.choice(list(ALIGNMENTS)),
            chance.choice(list(STRUCTURES)) if chance.random() < 0.7 else "full",
            d_q,
            d_k,
            d_v,
            chance.choice((1, 4, 5, 9)),
            chance.choice(precisions),
            chance.choice((0.0, 0.0, 0.0, 0.35)),
            chance.random() < 0.3,
        )

    def __str__(self) -> str:
        parts = [" | ".join((self.score, *self.modifiers)), self.align, self.over]
        parts.append(f"widths {self.d_q}, {self.d_k}, {self.d_v}")
        parts += [f"hidden {self.hidden}"] if "additive" in self.score or "query-free" in self.score else []
        parts += [self.dtype] + ([f"dropout {self.dropout}"] if self.dropout else [])
        return "; ".join(parts)


@dataclass(frozen=True)
class Fuzzed(Case):
    """A variation of a configuration: all that attend() is given."""

    name: str = ""
    turn: int = 0  # which numbers: 0 and 1
    device: str = "cpu"
    config: Configuration = field(default=None, repr=False)  # type: ignore[assignment]

    @property
    def kind(self) -> str:
        return self.name.split("-")[0]

    @cached_property
    def chance_of_sizes(self) -> tuple[int, int, int, int, int, str, str, str, float, bool, int]:
        """batch, heads, keys' heads, n, m, layouts of q, k and v, size of the numbers, garbage, axes."""
        chance = random.Random(f"sizes of {self.name}")
        heads = chance.choice((1, 2, 3, 4) if self.kind != "triton" else (1, 2))
        shared = chance.choice([x for x in (1, 2) if heads % x == 0]) if self.config.grouped else heads
        lengths = LENGTHS[self.kind]
        n, m = (chance.choice(EXTREMES if chance.random() < 0.07 else lengths) for _ in range(2))
        if self.config.over in ("window on a grid", "segments", "segments & causal") or chance.random() < 0.3:
            m = n
        layouts = [chance.choice(list(LAYOUTS)) if chance.random() < 0.5 else "contiguous" for _ in range(3)]
        size = chance.choice((0.02, 1.0, 1.0, 1.0, 3.0)) if self.config.dtype != "fp16" else 1.0
        if self.config.score.startswith("gaussian"):  # by products it rounds |q|^2 + |k|^2, not |q - k|^2: as is known
            size = min(size, 1.0)
        batch = chance.choice((1, 2, 3) if self.kind != "triton" else (1, 1, 2))
        axes = 4 if batch > 1 or chance.random() < 0.6 else 3 if heads > 1 or chance.random() < 0.5 else 2
        return batch, heads, shared, n, m, *layouts, size, chance.random() < 0.3, axes  # type: ignore[return-value]

    @property
    def sizes(self) -> Sizes:
        batch, heads, _, n, m, *_ = self.chance_of_sizes
        given = self.config
        return Sizes(batch, heads, n, m, given.d_q, given.d_k, given.d_v, given.hidden)

    @property
    def number(self) -> int:
        return crc32(f"{self.name}/{self.seed}/{self.turn}".encode())

    def structure(self) -> Structure | None:
        given = self.sizes
        room = Room(given.batch, given.heads, given.n, given.m, given.d_k, given.d_v, torch.Generator())
        room.random.manual_seed(self.number)
        over = STRUCTURES[self.config.over](room)
        return over if self.axes == 4 or over is None or not _with_batch(over) else None

    @property
    def axes(self) -> int:
        return self.chance_of_sizes[-1]

    @property
    def exists(self) -> bool:
        try:
            return self.structure() is not None and not self.plan(torch.float64).refusals["reference"]
        except (Refused, ValueError, TypeError):
            return False

    @property
    def runs_elsewhere(self) -> bool:
        """Whether more runs it on a CPU than chunked and the reference, which run almost everything."""
        refusals = self.plan(DTYPES[self.config.dtype]).refusals
        return any(not reasons for name, reasons in refusals.items() if name not in ("chunked", "reference"))

    @property
    def runs_in_kernels(self) -> bool:
        """Whether one of Triton's backends has code for it, whatever the device."""
        with on_any_device():
            refusals = self.plan(DTYPES[self.config.dtype]).refusals
        return any(not reasons for name, reasons in refusals.items() if name.startswith("triton"))

    def inputs(self, dtype: torch.dtype) -> "Inputs":
        return self.drawn(dtype)[0]

    def drawn(self, dtype: torch.dtype) -> tuple[Inputs, dict[str, Tensor]]:
        """What attend() takes, and the leaves whose gradients are compared. The same numbers in each precision."""
        batch, heads, shared, n, m, *layouts, size, garbage, axes = self.chance_of_sizes
        sizes, given, generator = self.sizes, self.config, torch.Generator().manual_seed(self.number)
        leaves: dict[str, Tensor] = {}

        def numbers(*shape: int, scale: float = 1.0) -> Tensor:
            """Those that fp16 and bf16 both hold."""
            x = (scale * torch.randn(shape, generator=generator)).bfloat16().half()
            return x.to(dtype)

        def leaf(*shape: int) -> Tensor:
            leaves[f"given {len(leaves)}"] = x = numbers(*shape).to(self.device).requires_grad_()
            return x

        over = self.structure()
        assert over is not None
        if isinstance(over, Edges) or any(isinstance(part, Edges) for part in over.parts()):
            over = _edges_in(over, dtype, self.device, leaves)
        over = over.to(self.device) if self.device != "cpu" else over
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.number)
            score = SCORES[given.score].make(sizes)
            for name in given.modifiers:
                score = score | MODIFIERS[name](sizes, leaf)
            align = ALIGNMENTS[given.align].make(heads, given.d_q, given.d_k)
        with torch.no_grad():
            for p in (*score.parameters(), *align.parameters()):
                if not any(p is x for x in leaves.values()):
                    p += 0.3 * torch.randn(p.shape, generator=generator)  # nothing starts at zero
        for module in (score, align):
            module.bfloat16().half().to(dtype).to(self.device)
        named = [("score", score), ("align", align)]
        leaves |= {f"{part}.{name}": p for part, module in named for name, p in module.named_parameters()}
        shapes = ((heads, n, given.d_q), (shared, m, given.d_k), (shared, m, given.d_v))
        tensors = []
        closed = _closed_keys(over, self) if garbage else None
        for shape, name, layout in zip(shapes, "qkv", layouts, strict=True):
            x = numbers(batch, *shape, scale=size if name != "v" else 1.0)
            if name != "q" and closed is not None:
                x = x.masked_fill(closed[..., None], float("nan"))
            leaves[name] = x = _laid_out(x.to(self.device), layout, axes).requires_grad_()
            tensors.append(x)
        return Inputs(*tensors, score, align, over), leaves

    @property
    def options(self) -> dict[str, object]:
        sample, drops = ALIGNMENTS[self.config.align].sample, self.config.dropout
        return {"dropout": drops, "sample": sample, "seed": 7 if drops or sample else None}

    def plan(self, dtype: torch.dtype) -> Plan:
        return make_plan(*self.inputs(dtype), **self.options)  # type: ignore[arg-type]

    def other_numbers(self) -> "Fuzzed":
        return replace(self, turn=1 - self.turn)

    def __str__(self) -> str:
        batch, heads, shared, n, m, *layouts, size, garbage, axes = self.chance_of_sizes
        parts = [str(self.config), f"batch {batch}, heads {heads} on {shared}, {n} on {m}"]
        parts += [f"{name} {layout}" for name, layout in zip("qkv", layouts, strict=True) if layout != "contiguous"]
        parts += [f"numbers times {size}"] if size != 1 else []
        parts += ["NaN in closed keys"] if garbage else []
        parts += [f"{axes} axes"] if axes != 4 else []
        return f"{self.name}: {'; '.join(parts)}"


def fuzzed(name: str, device: str = "cpu") -> Fuzzed:
    """The case of that name: the first configuration of its number that exists, with the first sizes that fit it."""
    kind, number, variation = _read(name)
    for attempt in range(1000):
        config = Configuration.drawn(kind, random.Random(f"{kind}-{number}/{attempt}"))
        first = _fitted(kind, number, 0, config)
        if first is not None and _is_wanted(first, number):
            found = first if variation == 0 else _fitted(kind, number, variation, config) or first
            return replace(found, device=device)
    raise LookupError(f"{name}: no configuration was found in 1,000 attempts")


def _read(name: str) -> tuple[str, int, int]:
    kind, _, rest = name.partition("-")
    number, _, variation = rest.partition(".")
    if kind not in WIDTHS or not number.isdigit() or not variation.isdigit():
        raise ValueError(
            f"{name!r} is no case: expected KIND-NUMBER.VARIATION, such as cpu-17.0 ({', '.join(WIDTHS)})."
        )
    return kind, int(number), int(variation)


def _is_wanted(case: Fuzzed, number: int) -> bool:
    """On a CPU every second configuration is one that more than chunked runs; on a GPU five of six run in kernels."""
    if case.kind == "cpu":
        return number % 2 == 0 or case.runs_elsewhere
    return case.runs_in_kernels or (case.kind == "cuda" and number % 6 == 5)


def _fitted(kind: str, number: int, variation: int, config: Configuration) -> Fuzzed | None:
    """Sizes are drawn from the name: where they do not fit, those of a variation far from any that is asked for do."""
    for attempt in range(20):
        case = Fuzzed(name=f"{kind}-{number}.{variation + 1000 * attempt}", config=config)
        if case.exists:
            return case
    return None


def _laid_out(x: Tensor, layout: str, axes: int) -> Tensor:
    x = LAYOUTS[layout](x)
    return x if axes == 4 else x[0] if axes == 3 else x[0, 0]


def _with_batch(over: Structure) -> bool:
    """Whether its tensors have an axis for the batch, or for heads, which calls of fewer axes have not."""
    return any(x.ndim > 1 for _, x in tensors_of(over) if x.dtype == torch.bool or not x.is_floating_point()) and not (
        any(isinstance(part, Edges) for part in over.parts())
    )


def _closed_keys(over: Structure, case: Fuzzed) -> Tensor | None:
    """(B, H_k or 1, m): keys that no query may see."""
    batch, heads, shared, n, m, *_ = case.chance_of_sizes
    if any(isinstance(part, Edges) for part in over.parts()):
        return None
    keys = over.fit((batch,) if case.axes == 4 else (1,), heads, n, m).keys(m)
    if keys is None:
        return None
    keys = keys if keys.shape[1] in (1, shared) else keys.unflatten(1, (shared, -1)).any(2)
    return (~keys).cpu().expand(batch, keys.shape[1], m)


def _edges_in(over: Structure, dtype: torch.dtype, device: str, leaves: dict[str, Tensor]) -> Structure:
    """The graph with its features in this precision; they are leaves."""
    parts = []
    for part in over.parts():
        if isinstance(part, Edges):
            features = {}
            for name in ("key", "value"):
                x = getattr(part, name)
                if x is not None:
                    x = x.detach().bfloat16().half().to(dtype).to(device).requires_grad_()
                    leaves[f"edge {name}"] = features[name] = x
            part = replace(part, **features)
        parts.append(part)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined & part
    return joined


def tensors_of(over: Structure) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a structure holds."""
    for place, part in enumerate(over.parts()):
        assert is_dataclass(part)
        for each in fields(part):
            value = getattr(part, each.name)
            if isinstance(value, Tensor):
                yield f"{place}.{each.name}", value
