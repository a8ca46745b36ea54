"""save: a record as one file. Closed forms are stored as such; every weight follows from the file.

    w_ij = exp(s_ij - tau_i),   s_ij = scale q_i . k_j, capped, plus the bias, where the structure allows (i, j)

Queries and keys stay in the model's type. The keys of a site that grows with a cache, masks and biases that layers
share, stand in the file once. What has no such form (weights that a model wrote out, a score function of the user's)
is kept as weights.
"""

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.alignments import Softmax
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.maps.stored import StoredMap
from regard.core.scores import Dot, Modified, PairBias, RelativeBias, ScaledDot, SoftCap

from ..attribution.weight_gradients import StoredGradient
from ..capture.calls import ScoredCall
from ..capture.edges.edge_maps import CapturedEdges, EdgeGradient, EdgeMap
from ..capture.topk_map import TopKMap
from ..labels import Labels
from .reading import VERSION
from .structure_codec import Form, bias_form, diagonals_of, forms_of, packed_pairs
from .writing import Table

if TYPE_CHECKING:
    from ..record import Record, Statistics


def save(rec: "Record", path: "str | os.PathLike[str]", progress: "Callable[[int, int], None] | None" = None) -> Path:
    """Write a record; progress(done, of) is called map by map."""
    table, bias_forms = Table(), dict[Any, Any]()
    maps: list[Form] = []
    later_keys: dict[str, tuple[str, Tensor]] = {}  # by path: the keys of the call that came after
    names = list(rec.maps)
    for done, name in enumerate(reversed(names)):
        place = len(names) - 1 - done
        maps.append({"site": name} | map_form(rec.maps[name], table, str(place), bias_forms, later_keys))
        if progress is not None:
            progress(done + 1, len(names))
    stats = [_stats_form(name, found, table, f"stats{i}") for i, (name, found) in enumerate(rec.stats.items())]
    gradients = [
        _gradient_form(name, found, table, f"gradient{i}")
        for i, (name, found) in enumerate(rec.gradients.items())
        if _is_filled(found)
    ]
    about = {
        "format": "regard record",
        "version": VERSION,
        "made": rec.made or versions(),
        "model": rec.about,
        "keep": rec.keep,
        "missed": dict(rec.missed),
        "other": dict(rec.other),
        "casting": None if rec.casting is None else vars(rec.casting) | {"rows": rec.casting.rows},
        "labels": labels_form(rec.labels),
        "maps": maps[::-1],
        "stats": stats,
        "gradients": gradients,
    }
    return table.write(path, about)


def versions() -> dict[str, str]:
    """What was run: the versions of Regard and of what it stands on."""
    made = {"python": platform.python_version(), "torch": str(torch.__version__)}  # which build, too: +cpu, +cu130
    for name in ("regard", "transformers", "torch_geometric"):
        try:
            made[name] = version(name)
        except PackageNotFoundError:
            continue
    return made


# maps


def map_form(
    amap: AttentionMap, table: Table, name: str, bias_forms: dict[Any, Any], later_keys: dict[str, tuple[str, Tensor]]
) -> Form:
    """One map as JSON and tensors."""
    if isinstance(amap, EdgeMap):
        return _edges_form(amap.lead, amap.weight[amap.slab], amap.graph, table, name)
    if isinstance(amap, TopKMap):
        return {
            "kind": "top",
            "lead": list(amap.lead),
            "m": amap.m,
            "weight": table.add(f"{name}.weight", amap.weight[amap.slab]),
            "key": table.add(f"{name}.key", amap.key[amap.slab].int()),
        }
    if isinstance(amap, LazyMap):
        if amap.graph is not None:
            return _edges_form(amap.lead, *_of_lazy_edges(amap), table, name)
        call = scored(amap)
        if call is not None:
            return _scored_form(amap, call, table, name, bias_forms, later_keys)
    flat = amap.weights().flatten(0, len(amap.lead) - 1) if amap.lead else amap.weights()[None]
    form: Form = {
        "kind": "weights",
        "lead": list(amap.lead),
        "features": amap.features is not None,
        "weights": table.add(f"{name}.weights", flat),
    }
    keep = amap.keep if isinstance(amap, StoredMap) else None
    if keep is not None and amap.features is None:
        form["over"] = [packed_pairs(amap, table, f"{name}.over")]
    return form


def scored(amap: AttentionMap) -> ScoredCall | None:
    """The call that a lazy map was made from, where it is a softmax of scaled products with known modifiers."""
    plan = amap.plan if isinstance(amap, LazyMap) else None
    if plan is None or type(plan.align) is not Softmax or amap.slab != slice(0, plan.batch * plan.heads):
        return None
    score = plan.score.score if isinstance(plan.score, Modified) else plan.score
    if type(score) not in (Dot, ScaledDot) or score.features is not None or len(amap.lead) != 2:
        return None
    assert isinstance(score, Dot)
    call = ScoredCall(plan.q, plan.k, plan.v, score.scale(plan.q), plan.over)
    if isinstance(plan.score, Modified):
        call.sink = plan.score.sink
        for place, modifier in enumerate(plan.score.pointwise()):
            if type(modifier) is SoftCap and place == 0:
                call.cap = modifier.cap
            elif type(modifier) is PairBias and call.bias is None and not call.modifiers:
                call.bias = modifier.bias
            elif type(modifier) is RelativeBias and call.bias is None and not call.modifiers:
                call.modifiers = (modifier,)
            else:
                return None
    return call


def _scored_form(
    amap: AttentionMap,
    call: ScoredCall,
    table: Table,
    name: str,
    bias_forms: dict[Any, Any],
    later_keys: dict[str, Any],
) -> Form:
    assert isinstance(amap, LazyMap)
    n, m, over = amap.n, amap.m, call.over
    form: Form = {
        "kind": "scored",
        "scale": call.scale,
        "q": table.add(f"{name}.q", call.q),
        "k": _keys(amap.site or name, call.k, table, name, later_keys),
        "m": m,
        "tau": table.add(f"{name}.tau", amap.state.tau.detach().reshape(*amap.lead, n)),
    }
    if amap.apart is not None:  # tau is too large to hold the logarithm of a sum beside it
        form["peak"], form["log_sum"] = (
            table.add(f"{name}.{part}", x.detach().reshape(*amap.lead, n))
            for part, x in (("peak", amap.apart.peak), ("log_sum", amap.apart.state.tau))
        )
    if call.cap is not None:
        form["cap"] = call.cap
    if call.sink is not None:
        form["sink"] = table.add(f"{name}.sink", call.sink.reshape(-1), shared=True)
    if call.bias is not None:
        bias = call.bias.reshape((1,) * (4 - call.bias.ndim) + tuple(call.bias.shape))
        form["bias"], closed = bias_form(bias, n, m, table, name, bias_forms)
        over = over & closed
    elif call.modifiers:
        form["bias"] = {"diagonals": table.add(f"{name}.bias", diagonals_of(call.modifiers[0], n, m), shared=True)}
    form["over"] = forms_of(over, amap, table, name)
    return form


def _keys(site: str, k: Tensor, table: Table, name: str, later_keys: dict[str, tuple[str, Tensor]]) -> str:
    """The keys of a step are the first of the next step's, when a model generates: then they stand there."""
    path = site.rpartition(":")[0] if site.rpartition(":")[2].isdigit() else site
    after = later_keys.get(path)
    if after is not None:
        where, wide = after
        if wide.shape[:2] == k.shape[:2] and wide.shape[3:] == k.shape[3:] and wide.shape[2] >= k.shape[2]:
            part = wide[:, :, : k.shape[2]]
            if wide.dtype == k.dtype and wide.device == k.device and _same(part, k):
                return where
    made = table.add(f"{name}.k", k)
    later_keys[path] = made, k
    return made


def _same(a: Tensor, b: Tensor) -> bool:
    return (a.data_ptr() == b.data_ptr() and a.stride() == b.stride()) or torch.equal(a, b)


def _edges_form(lead: tuple[int, ...], weight: Tensor, graph: CapturedEdges, table: Table, name: str) -> Form:
    parts = {
        part: table.add(f"{name}.{part}", getattr(graph, part).long(), shared=True)
        for part in ("edge_index", "source", "target", "edge")
    }
    kinds = [[*kind, *span] for kind, span in (graph.kinds or {}).items()]
    return {
        "kind": "edges",
        "lead": list(lead),
        "n": graph.n,
        "m": graph.m,
        "kinds": kinds,
        "weight": table.add(f"{name}.weight", weight),
    } | parts


def _of_lazy_edges(amap: LazyMap) -> tuple[Tensor, CapturedEdges]:
    """Weights (g, [F,] ids) and the graph; an edge that did not run has the ends -1."""
    near = amap.graph
    assert near is not None
    source, target, edge = near.source.long(), near.targets(), near.edge.long()
    index = torch.full((2, near.edges), -1, device=source.device)
    own = edge < near.edges
    index[:, edge[own]] = torch.stack([source[own], target[own]])
    graph = CapturedEdges(index, source, target, edge, amap.n, amap.m)
    axes = max(0, len(amap.lead) - 1)
    weight, loops = amap.edges(), amap.loops
    missing = graph.size - weight.shape[-1] - loops.shape[-1]
    whole = torch.cat([weight, loops, loops.new_zeros((*loops.shape[:-1], missing))], -1)
    return (whole.flatten(0, axes) if amap.lead else whole[None]), graph


def _stats_form(name: str, found: "Statistics", table: Table, at: str) -> Form:
    form: Form = {
        "site": name,
        "entropy": table.add(f"{at}.entropy", found.entropy),
        "mass": table.add(f"{at}.mass", found.mass),
        "weight": table.add(f"{at}.weight", found.strongest.weight),
        "key": table.add(f"{at}.key", found.strongest.key.int()),
    }
    if found.strongest.edge is not None:
        form["edge"] = table.add(f"{at}.edge", found.strongest.edge.long())
    return form


def _is_filled(found: Any) -> bool:
    """Whether a backward pass has filled this gradient."""
    if isinstance(found, EdgeGradient):
        return bool(found.filled)
    return getattr(found, "given" if isinstance(found, StoredGradient) else "pull", None) is not None


def _gradient_form(name: str, found: Any, table: Table, at: str) -> Form:
    if isinstance(found, EdgeMap):
        return {"site": name} | _edges_form(found.lead, found.weight, found.graph, table, at)
    if isinstance(found, StoredGradient):
        given = found.given
        assert given is not None
        return {"site": name, "kind": "written", "given": table.add(f"{at}.given", given.unflatten(0, found.lead))}
    v = found.v
    form: Form = {
        "site": name,
        "kind": "product",
        "pull": table.add(f"{at}.pull", found.pull),
        "v": table.add(f"{at}.v", v),
    }
    if found.features is not None:
        form["features"] = True
    amap = found.call.map()
    if isinstance(amap, LazyMap):
        return form | {"over": forms_of(amap.live.structure, amap, table, at)}
    return form | {"over": [packed_pairs(amap, table, f"{at}.over")]}


def labels_form(labels: Labels) -> Form:
    """Axes that several runs share, such as a text read twice, are written for each run."""
    runs = [
        {
            side: [{key: x for key, x in vars(axis).items() if x is not None} for axis in axes]
            for side, axes in run.items()
        }
        for run in labels.runs
    ]
    return {"runs": runs, "run_of": labels.run_of}
