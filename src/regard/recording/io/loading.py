"""load: a record from its file. What its description says is checked against the tensors before anything is made."""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.core.alignments import RowState
from regard.core.maps.attention_map import AttentionMap, Strongest
from regard.core.maps.lazy import LazyMap, RowsApart
from regard.core.maps.stored import StoredMap
from regard.core.structures import Structure

from ..attribution.weight_gradients import LazyGradient, StoredGradient
from ..axes import Axis
from ..capture.calls import ScoredCall
from ..capture.edges.edge_maps import CapturedEdges, EdgeGradient, EdgeMap
from ..capture.topk_map import TopKMap
from ..labels import Labels
from ..lazy_maps import LazyMaps
from ..missed import Missed
from ..record import Maps, Record, Statistics
from .checking import (
    FLOATS,
    SHAPES,
    check_map,
    check_number,
    check_within,
    is_pair,
    list_in,
    object_in,
    site_in,
    size_in,
    texts_in,
)
from .quantization_error import Casting
from .reading import BadRecord, RecordFile
from .structure_codec import Form, bias_of_diagonals, check, structure_from, tensor


def load(path: "str | os.PathLike[str]") -> Record:
    """A record that was saved, mapped into memory: nothing of it is read before it is looked at."""
    return read(path)


def read(path: "str | os.PathLike[str]", go_on: Callable[[], None] = lambda: None) -> Record:
    """`load`, calling go_on() every now and then; an exception that it raises ends the read."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"load({str(path)!r}): there is no such file.")
    file = RecordFile(path, go_on)
    about = file.about
    rec = Record(keep=about["keep"] if about.get("keep") in ("qk", "weights", "stats", "topk") else "qk")
    rec.about, rec.made = texts_in(file, about.get("model")), texts_in(file, about.get("made"))
    rec.missed, rec.other = (_counted(file, about.get(name, {})) for name in ("missed", "other"))
    rec.casting = _casting(file, about.get("casting"))
    rec.labels = labels_from(file, about.get("labels"))
    rec.maps, names = Maps(), LazyLabels(rec.labels)
    makers: dict[str, Callable[[], AttentionMap]] = {}
    for form in list_in(file, about.get("maps")):
        name = site_in(file, form)
        if name in makers:
            file._refuse(f"the site {name[:80]!r} stands twice")
        names.add(name, *check_map(file, form))
        makers[name] = _map_maker(file, form, name)
        go_on()
    rec.maps._by_site = StoredMaps(makers, names)
    for form in list_in(file, about.get("stats")):
        name = site_in(file, form)
        rec.stats[name] = _statistics(file, form)
        go_on()
    for form in list_in(file, about.get("gradients")):
        name = site_in(file, form)
        rec.gradients[name] = _gradient(file, form)
        go_on()
    return rec


def _counted(file: RecordFile, form: Any) -> Counter[str]:
    """What ran and has no map, and how often."""
    entries = object_in(file, form).items()
    return Counter({Missed.parse(text): n for text, n in entries if type(n) is int and 0 <= n < 2**63})


class LazyLabels:
    """Rows and columns of a map when they are asked for: many maps of one long text would hold a copy each."""

    def __init__(self, labels: Labels):
        self._labels = labels
        self._places: dict[str, tuple[str, int, tuple[int, ...], int, int, int]] = {}
        self._rows: Counter[tuple[str, int]] = Counter()  # that a module has seen in a run

    def add(self, name: str, lead: tuple[int, ...], n: int, m: int) -> None:
        path, run = re.sub(r":\d+$", "", name), self._labels.run_of.get(name, 0)
        self._places[name] = path, run, lead, n, m, self._rows[path, run]
        self._rows[path, run] += n

    def __getitem__(self, name: str) -> tuple[Any, Any]:
        return self._labels._of(*self._places[name])


class StoredMaps(LazyMaps):
    """Maps of a file: each is read when it is first asked for, and labelled."""

    def __init__(self, makers: "dict[str, Callable[[], AttentionMap]]", names: LazyLabels):
        super().__init__()
        self._names = names
        for name, make in makers.items():
            self.put_later(name, make)

    def made(self, name: str, amap: AttentionMap) -> None:
        super().made(name, amap)
        amap.rows, amap.columns = self._names[name]


def _map_maker(file: RecordFile, form: Form, name: str) -> Callable[[], AttentionMap]:
    def make() -> AttentionMap:
        try:
            return map_from(file, form)
        except BadRecord:
            raise
        except (ValueError, TypeError) as problem:
            return file._refuse(f"the map of {name[:80]!r} does not fit together ({problem})")

    return make


def map_from(file: RecordFile, form: Form) -> AttentionMap:
    """A map from its form, which check_map has let pass; values are checked here."""
    kind = form["kind"]
    if kind == "scored":
        return _scored_from(file, form)
    lead = tuple(form["lead"])
    if kind == "top":
        key, m = tensor(file, form["key"]), form["m"]
        check_within(file, key, -1, m, "keys")
        return TopKMap(lead, tensor(file, form["weight"]), key, m)
    if kind == "edges":
        return EdgeMap(lead, tensor(file, form["weight"]), _graph(file, form))
    weights, keep = tensor(file, form["weights"]), None
    if "over" in form:
        heads = lead[-1] if lead else 1
        shape = (weights.shape[0] // max(1, heads), heads, weights.shape[-2], weights.shape[-1])
        over = structure_from(file, form["over"], shape[2], shape[3], shape[0], heads, build=True)
        kept = getattr(over, "keep", None)
        keep = None if kept is None else kept.expand(shape).flatten(0, 1)
    return StoredMap(lead, weights, bool(form.get("features")), rooted=False, keep=keep)


def _scored_from(file: RecordFile, form: Form) -> AttentionMap:
    q, k, tau = (tensor(file, form[part]) for part in ("q", "k", "tau"))
    k = k[:, :, : form["m"]]
    (b, h, n, _), m = q.shape, k.shape[2]
    over = structure_from(file, form["over"], n, m, b, h, build=True)
    call = ScoredCall(q, k, k[..., :0], float(form["scale"]), over, cap=form.get("cap"))
    if "sink" in form:
        call.sink = tensor(file, form["sink"])
    bias = form.get("bias", {})
    if "pairs" in bias:
        call.bias = tensor(file, bias["pairs"])
    elif "diagonals" in bias:
        call.modifiers = (bias_of_diagonals(tensor(file, bias["diagonals"]), n, m),)
    amap = call.map()
    assert isinstance(amap, LazyMap)
    amap._state = RowState(tau.flatten(0, 1))
    if "peak" in form:
        peak, log_sum = (tensor(file, form[part]).flatten(0, 1) for part in ("peak", "log_sum"))
        amap._apart = (RowsApart(peak, RowState(log_sum)),)
    return amap


def _graph(file: RecordFile, form: Form) -> CapturedEdges:
    index, source, target, edge = (tensor(file, form[part]) for part in ("edge_index", "source", "target", "edge"))
    n, m = form["n"], form["m"]
    check_within(file, source, 0, m, "sources")
    check_within(file, target, 0, n, "targets")
    check_within(file, edge, 0, index.shape[1] + max(n, m), "edges")
    check_within(file, index, -1, max(n, m), "nodes")
    kinds: dict[tuple[str, str, str], tuple[int, int]] = {}
    for entry in list_in(file, form.get("kinds", [])):
        if not isinstance(entry, list) or [type(x) for x in entry] != [str, str, str, int, int]:
            file._refuse(f"a type of edges is described by {str(entry)[:80]}")
        kinds[entry[0], entry[1], entry[2]] = (entry[3], entry[4])
    return CapturedEdges(index, source, target, edge, n, m, kinds or None)


def _statistics(file: RecordFile, form: Form) -> Statistics:
    for part in ("entropy", "mass", "weight"):
        check(file, form.get(part), FLOATS)
    check(file, form.get("key"), ("I32",), file.shape(form["weight"]))
    edge = None
    if "edge" in form:
        check(file, form["edge"], ("I64",), file.shape(form["weight"]))
        edge = tensor(file, form["edge"])
    entropy, mass, weight, key = (tensor(file, form[part]) for part in ("entropy", "mass", "weight", "key"))
    key = file.made_once(("whole", form["key"]), key.long)
    return Statistics(entropy, Strongest(weight, key, edge), mass)


def _gradient(file: RecordFile, form: Form) -> Any:
    if form.get("kind") == "edges":
        check_map(file, form)
        graph, weight = _graph(file, form), tensor(file, form["weight"])
        made = EdgeGradient((*weight.shape[:-1], 0), graph)
        made.weight, made.filled, made.lead = weight, True, tuple(form["lead"])
        return made
    if form.get("kind") == "written":
        b, h, n, m = check(file, form.get("given"), FLOATS, SHAPES)
        own: Any = object.__new__(StoredGradient)
        AttentionMap.__init__(own, (b, h), n, m, slice(0, b * h))
        own.given = tensor(file, form["given"]).flatten(0, 1)
        return own
    b, h, n, d = check(file, form.get("pull"), FLOATS, SHAPES)
    _, _, m, _ = check(file, form.get("v"), FLOATS, (b, h, -1, d))
    over: Structure = structure_from(file, form.get("over"), n, m, b, h, build=True)
    pull, v = tensor(file, form["pull"]), tensor(file, form["v"])
    found: Any = object.__new__(LazyGradient)
    AttentionMap.__init__(found, (b, h), n, m, slice(0, b * h))
    found.pull, found.v, found.features = pull, v, d if form.get("features") is True else None
    found.call = ScoredCall(pull[..., :0], v[..., :0], v[..., :0], 1.0, over)
    return found


def labels_from(file: RecordFile, form: Any) -> Labels:
    made = Labels()
    form = object_in(file, form)
    for run in list_in(file, form.get("runs", [])):
        made.runs.append(
            {
                side: [_axis(file, axis) for axis in list_in(file, axes)]
                for side, axes in object_in(file, run).items()
                if side in ("source", "target")
            }
        )
    made.run_of = {name: x for name, x in object_in(file, form.get("run_of", {})).items() if type(x) is int and x >= 0}
    return made


def _axis(file: RecordFile, form: Any) -> Axis:
    form = object_in(file, form)
    names, text, kind, grid = form.get("names"), form.get("text"), form.get("kind", "tokens"), form.get("grid")
    spans = form.get("spans")
    good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    good = good and (text is None or isinstance(text, str)) and kind in ("tokens", "patches", "nodes")
    good = good and (grid is None or (is_pair(grid) and len(grid) == 2))
    if good and spans is not None:
        good = isinstance(spans, list) and len(spans) == len(names) and isinstance(text, str)
        good = good and all(is_pair(span) and span[0] <= span[1] <= len(text) for span in spans)
    if not good:
        file._refuse("its labels are not names of an axis")
    return Axis(names, text, None if spans is None else [(a, b) for a, b in spans], kind, grid and (grid[0], grid[1]))


def _casting(file: RecordFile, form: Any) -> Any:
    if form is None:
        return None
    form = object_in(file, form)
    made = Casting(torch.float32)
    made.dtype, made.rows = str(form.get("dtype"))[:40], size_in(file, form.get("rows", 0))
    errors = object_in(file, form.get("error"))
    for x in errors.values():
        check_number(file, x)
    made.error = errors
    return made
