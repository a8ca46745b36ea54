"""What a record says of a spelling, beside the truth."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard import record
from regard.recording.record import Record

from .spelling import Given, Spelling


@dataclass
class Outcome:
    """What a record has of a spelling.

    kind   "exact", "missed", "other" or "nothing" as a spelling expects it; else what went wrong: "wrong" (a map
           that is not the truth), "unchecked" (a map where none is due), "incomplete" (a right map and silence about
           the rest), "output" (recording changed it), "raised"
    """

    kind: str
    error: float = 0.0
    maps: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    note: str = ""


def outcome(spelling: Spelling, **options) -> Outcome:
    model, x = spelling.build()
    with torch.set_grad_enabled(spelling.grad):
        torch.manual_seed(1)
        bare = model(x)
        torch.manual_seed(1)
        try:
            with record(model, **options) as rec:
                out = model(x)
        except Exception as error:
            return Outcome("raised", note=f"{type(error).__name__}: {error}"[:200])
    said = {"maps": list(rec.maps), "missed": list(rec.missed), "other": list(getattr(rec, "other", ()))}
    if not torch.equal(bare, out):
        return Outcome("output", note="the output changed", **said)
    if not rec.maps:
        return Outcome(next((kind for kind in ("missed", "other") if said[kind]), "nothing"), **said)
    if spelling.truth is None:
        return Outcome("unchecked", note="a map without a truth", **said)
    error, all_there = _error(rec, spelling, x)
    if error > 1e-5:
        return Outcome("wrong", error, note="a map that is not the truth", **said)
    rest = next((kind for kind in ("missed", "other") if said[kind]), "incomplete")
    return Outcome("exact" if all_there else rest, error, **said)


def _error(rec: Record, spelling: Spelling, x: Tensor) -> tuple[float, bool]:
    """The largest difference of maps from truths in fp64, in their order, and whether every truth has its map."""
    model, _ = spelling.build()
    with torch.no_grad():
        truth = spelling.truth(Given(model.double(), x.double()))
    truths = list(truth) if isinstance(truth, tuple) else [truth]
    found = [amap.weights() for amap in rec.maps.values()]
    if len(truths) == 1 < len(found):
        return _of_parts(found, truths[0]), True
    errors, places = [], iter(truths)
    for w in found:
        fits = (float((w.double().reshape(t.shape) - t).abs().max()) for t in places if t.numel() == w.numel())
        errors.append(next((error for error in fits if error <= 1e-5), float("inf")))
    return max(errors), len(found) == len(truths)


def _of_parts(found: list[Tensor], truth: Tensor) -> float:
    """Maps of one head, item, or some of the keys each: the same numbers altogether."""
    if sum(w.numel() for w in found) != truth.numel():
        return float("inf")
    ours, theirs = (torch.cat([x.double().flatten() for x in xs]).sort().values for xs in (found, [truth]))
    return float((ours - theirs).abs().max())
