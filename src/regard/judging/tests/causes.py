"""Is the named cause of a weight its cause? The part is taken out, and vectors of the same size that mean nothing."""

import math
from typing import Any

import numpy as np
import torch

from regard.core.errors import Refused
from regard.recording import record, why
from regard.recording.decomposition.cut import weights_after

from ..adapters.adapter import Adapter, evaluating
from ..adapters.inputs import NotApplicable
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..wording import amount
from .faithfulness import RANDOM

TEST = "causes"
MOST = 40  # instances that are taken apart, one cell of each
DRAWS = 20  # random vectors of the writer's size, for each cell


@asks("Do the named causes of a weight change it when they are removed?", first=1, aspect="trap")
def causes(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """The writer that a weight is explained by is taken out of its key, and the weight must fall by what was said.

    One cell an instance: a row of a judged head, drawn at random, and the key with its largest weight. The writer is
    the one whose part of the key adds most to its score over the row's other keys (`regard.why(against="row")`).

    lost     the weight that is lost without it, in a run with the key changed (the normalisation computed again);
             beside it the mean loss without random vectors of the same size in the residual stream
    said     |the loss predicted by the parts alone - the loss|, beside the loss itself: the error of predicting none

    Wang et al. 2023 (path patching). Attention whose scores do not decompose has no such test.
    """
    rows = _cells(adapter, seed)
    if len(rows) < 2:
        raise NotApplicable("In fewer than two instances a writer raises a weight above the row's other keys.")
    lost, random, said = (np.asarray([row[name] for row in rows]) for name in ("lost", "random", "said"))
    names = [row["writer"] for row in rows]
    most = max(set(names), key=names.count)
    value = compare(lost, {RANDOM: random.T}, scale=(-1.0, 1.0), seed=seed)
    error = compare(np.abs(said - lost), {"predicting no loss": np.abs(lost)}, scale=(-1.0, 1.0), seed=seed)
    return [
        Finding.of(
            value,
            name="weight lost without the writer it is explained by",
            better="higher",
            test=TEST,
            unit="weight",
            says=f"Without the named writer (most often {most}) the weight of the key {_falls(value.value)}; without "
            f"random vectors of the same size it {_falls(value.baselines[RANDOM])}.",
        ),
        Finding.of(
            error,
            name="error of the loss that the parts predict",
            better="lower",
            test=TEST,
            unit="weight",
            says=f"The parts, with scales frozen, predict the loss with a mean error of {amount(error.value)}.",
        ),
    ]


def _falls(value: float | None) -> str:
    if value is None or value == 0:
        return "stays as it is" if value == 0 else "changes by an undefined amount"
    return f"{'falls' if value > 0 else 'rises'} by {amount(abs(value))}"


def _cells(adapter: Adapter, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    places = random.permutation(len(adapter))[:MOST]
    made: list[dict[str, Any]] = []
    refused = ""
    with evaluating(adapter.model):
        for place in sorted(places.tolist()):
            inputs = adapter.inputs([place])
            with torch.no_grad(), record(adapter.model) as rec:
                adapter.logits(inputs)
            sites = [site for site in adapter.judged if site in rec.maps] or list(rec.maps)
            site = sites[int(random.integers(len(sites)))]
            amap = rec.maps[site]
            head, i = int(random.integers(amap.heads)), int(random.integers(amap.n))
            one = amap[0] if len(amap.lead) > 1 else amap
            row = one[head].row(i).reshape(-1)
            if int((row > 0).sum()) < 2:
                continue
            try:
                found = _cell(rec, site, head, i, int(row.argmax()), random)
            except Refused as problem:
                refused = str(problem)
                continue
            if found is not None:
                made.append(found)
    if not made and refused:
        raise NotApplicable(f"{refused[0].upper()}{refused[1:].rstrip('.')}.")
    return made


def _cell(rec: Any, site: str, head: int, i: int, j: int, random: np.random.Generator) -> dict[str, Any] | None:
    over = why(rec, site, head, i, j, against="row")
    best = max(over.by_writer("key"), key=lambda share: share.value)
    if best.value <= 0 or best.writer is None:
        return None
    found = why(rec, site, head, i, j)
    cut = found.cut(best.writer, "key")
    call = found.run.call(site)
    with torch.no_grad():
        _, (part,) = found.run.without(call, 0, head, j, "key", [best.writer])
        size = float(part.norm())
        draws = [torch.from_numpy(random.standard_normal(part.shape)) for _ in range(DRAWS)]
        values, _ = found.run.without(call, 0, head, j, "key", [x * (size / float(x.norm())) for x in draws])
        row = found.weights(i).double()  # type: ignore[misc]
        after = [float(weights_after(found, call, row, i, j, "key", x - values[0])[j]) for x in values[1:]]
    if not all(map(math.isfinite, after)):
        return None
    return {
        "writer": best.name,
        "lost": cut.before - cut.weight,
        "said": cut.before - cut.said,
        "random": [cut.before - x for x in after],
    }
