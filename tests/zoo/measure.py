"""What a record has of one run of a model, beside the truth."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard import intervene, interventions, record
from regard.core.maps.attention_map import AttentionMap
from regard.recording.capture.edges.edge_maps import EdgeMap

from .truth import TruthAudit, error

Run = Callable[[], Any]


@dataclass
class Result:
    """Of one run: events of attention by what became of them, and what is said that is not so."""

    equal: bool = True
    exact: int = 0
    told: int = 0
    wrong: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    other: int = 0
    other_silent: list[str] = field(default_factory=list)
    other_maps: list[str] = field(default_factory=list)  # maps of routers, codebooks: no attention
    entries: int = 0
    wolf: list[str] = field(default_factory=list)  # entries of rec.missed that are no attention
    maps: int = 0
    freeze: float | None = None  # difference of the output with the record's own weights put back
    audit_failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(model: nn.Module, run: Run, freeze: bool = True) -> Result:
    """`run` runs the model once, deterministically, and returns its output."""
    with torch.no_grad():
        torch.manual_seed(0)
        bare = _tensors(run())
        torch.manual_seed(0)
        with torch.compiler.set_stance("force_eager"), TruthAudit(model) as truth:
            again = _tensors(run())
        torch.manual_seed(0)
        with record(model) as rec:
            out = _tensors(run())
        result = Result(equal=_equal(bare, out), maps=len(rec.maps), audit_failures=truth.failures)
        if not _equal(bare, again):
            result.notes.append("the audit changed the output")
        _compare(rec, truth, result)
        if freeze and rec.maps:
            result.freeze = _frozen(model, run, rec, bare, result)
    return result


def _compare(rec: Any, truth: TruthAudit, result: Result) -> None:
    entries = [*rec.missed, *getattr(rec, "other", ())]
    free = {name: _numbers(amap) for name, amap in rec.maps.items()}
    events = [event for event in truth.events if event.attention]
    unmatched = []
    for event in events:
        known = truth.of(event)
        name = _match(free, known)
        if name is not None:
            result.exact += 1
            del free[name]
        else:
            unmatched.append((event, known))
    others = [event for event in truth.events if not event.attention]
    for event in others:
        known = truth.of(event)
        name = _match(free, known)
        result.other += 1
        if name is not None:
            del free[name]
            result.other_maps.append(f"{name}: {event.entry()}")
        elif not any(map(event.is_in, entries)):
            result.other_silent.append(str(event.entry()))
    for event, known in unmatched:
        if any(map(event.is_in, entries)):
            result.told += 1
            continue
        near = next((name for name in free if name.partition(":")[0] == event.site), None)
        if near is None:
            result.silent.append(str(event.entry()))
        elif not known:  # nothing to compare with: a map of weights that only this model knows
            result.told += 1
            result.notes.append(f"{near} is unchecked: {event.entry()}")
            del free[near]
        else:
            result.wrong.append(f"{near}: {min(error(free[near], one) for one, _ in known):.1e}: {event.entry()}")
            del free[near]
    result.notes += [f"a map without an event: {name} {tuple(w.shape)}" for name, w in free.items()]
    result.entries = len(rec.missed)
    sites = {event.site for event in events}
    result.wolf = [
        entry
        for entry in rec.missed
        if not any(event.is_in(entry) for event in events) and (entry.site not in sites or "Error" in entry.reason)
    ]


def _match(free: dict[str, Tensor], known: list[tuple[Tensor, float]]) -> str | None:
    return next((name for name, w in free.items() for truth, bound in known if error(w, truth) <= bound), None)


def _numbers(amap: AttentionMap) -> Tensor:
    """The weights as the model has them: of a graph, one for each edge that ran."""
    return amap.ran() if isinstance(amap, EdgeMap) else amap.weights()


def _frozen(model: nn.Module, run: Run, rec: Any, bare: list[Tensor], result: Result) -> float | None:
    torch.manual_seed(0)
    try:
        with intervene(model, {"*": interventions.Freeze(rec)}):
            out = _tensors(run())
    except Exception as raised:
        result.notes.append(f"Freeze raised {type(raised).__name__}: {str(raised)[:160]}")
        return None
    if len(out) != len(bare):
        return float("inf")
    pairs = [(a, b) for a, b in zip(out, bare, strict=True) if a.is_floating_point()]
    return max((_difference(a, b) for a, b in pairs), default=0.0)


def _difference(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        return float("inf")
    both = a.isfinite() & b.isfinite()
    return float((a - b)[both].abs().max()) / max(1.0, float(b[both].abs().max())) if both.any() else 0.0


def _equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(
        x.shape == y.shape and torch.equal(x.nan_to_num(7.0), y.nan_to_num(7.0)) for x, y in zip(a, b, strict=True)
    )


def _tensors(out: Any) -> list[Tensor]:
    """The dense tensors of an output, in order."""
    if isinstance(out, Tensor):
        return [out.clone()] if out.layout is torch.strided and not out.is_nested else []
    if isinstance(out, dict):
        return [x for value in out.values() for x in _tensors(value)]
    if isinstance(out, (list, tuple)):
        return [x for value in out for x in _tensors(value)]
    return []
