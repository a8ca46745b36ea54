"""record: have the attention of any model, its kernel unchanged."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core.autocast import without_autocast
from ..core.display import Displayable
from ..core.errors import within
from ..core.maps.attention_map import AttentionMap, Strongest
from ..core.torch_private import PLAIN
from .attribution.weight_gradients import LazyGradient, StoredGradient
from .audit.audit import Audit
from .axes import axes_of
from .capture.calls import Call, ScoredCall, WeightedCall
from .capture.edges.edge_maps import CapturedEdgeCall
from .capture.function_mode import InterventionResult, active_mode, functions_ran, listen, stop
from .capture.hidden.other_threads import OtherThreads
from .capture.key_buffer import KeyBuffer
from .capture.module_stack import ModulePaths, Site, describe_unmatched
from .capture.snapshot import written
from .capture.token_tracker import TokenTracker, described
from .capture.topk_map import TopKMap
from .io.quantization_error import Casting
from .labels import Labels, axis_of, by_word
from .lazy_maps import LazyMaps
from .missed import Missed, described_error
from .model_inputs import ModelInputs

KEEPS = ("qk", "weights", "stats", "topk")
answers_of_records: dict[str, Callable[..., Any]] = {}  # by name: modules above enlist what they answer


class Statistics(NamedTuple):
    """Statistics of each row and key without the weights: entropy (B, H, n), the strongest keys, mass (B, H, m)."""

    entropy: Tensor
    strongest: Strongest
    mass: Tensor


class Maps(Mapping[str, AttentionMap]):
    """Maps by site. maps["encoder.layer.3.attention.self"], a pattern that fits one site alone, or maps[1], in the
    order in which they ran."""

    def __init__(self) -> None:
        self._by_site = LazyMaps()

    def __getitem__(self, name: "str | int") -> AttentionMap:
        if isinstance(name, int) and not isinstance(name, bool):
            return list(self._by_site.values())[within(name, len(self), f"maps[{name}]", "maps")]
        found = self._by_site.get(str(name))
        if found is not None:
            return found
        fits = [key for key in self._by_site if fnmatchcase(key, str(name))]
        if len(fits) == 1:
            return self._by_site[fits[0]]
        if fits:
            raise KeyError(
                f"{name!r} fits {len(fits)} sites: {', '.join(fits[:6])}{', ...' if len(fits) > 6 else ''}. "
                "Name one of them."
            )
        recorded = ", ".join(list(self._by_site)[:6]) or "none was recorded"
        raise KeyError(f"There is no site {name!r}; recorded: {recorded}{', ...' if len(self._by_site) > 6 else ''}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_site)

    def __len__(self) -> int:
        return len(self._by_site)

    def __repr__(self) -> str:
        return f"Maps({_named(self._by_site)})"

    def find(self, glob: str) -> "list[AttentionMap]":
        """The maps of all sites that fit a pattern, in the order in which they ran."""
        return [amap for key, amap in self._by_site.items() if fnmatchcase(key, glob)]


class Record(Displayable):
    """What one run of a model left: maps by site, what was missed, and labels; made by `regard.record`.

    maps       an AttentionMap for each time that attention ran, by site: "encoder.layer.3.attention.self", and
               "...:1" for the second time that it ran there
    stats      with keep="stats": entropy, strongest keys and mass by site, and no maps
    gradients  with grad=True, after a backward: the gradient of the weights by site
    values     with values=True: what was averaged, (B, H_k, m, d_v) by site
    missed     attention that ran and has no map, how often each: entries are texts with .site, .operator, .reason,
               .file and .line; empty means that nothing was missed
    other      weights that ran and are no attention, in the same form: routers, codebooks, expectations over classes
    audit      with audit=True: the events that the audit saw, and what it could not follow
    labels     what rows and columns are called: from record(tokenizer=...) or label(...)
    inputs     a copy of the inputs of the model's first run
    casting    with dtype=: the measured error of the weights
    """

    may_change = False  # a listener that records alone
    internal = Displayable.internal | {
        "change", "device", "dtype", "glob", "grad", "k", "keep", "made", "may_change", "may_edit",
        "on_call", "on_missed", "on_other", "unmet",
    }  # fmt: skip

    def __init__(
        self,
        model: nn.Module | None = None,
        keep: str = "qk",
        sites: str = "*",
        k: int = 8,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
        grad: bool = False,
        tokenizer: Any = None,
        values: bool = False,
        audit: bool = False,
    ):
        if keep not in KEEPS:
            raise ValueError(f"record(keep={keep!r}): expected one of {', '.join(map(repr, KEEPS))}.")
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"record(model) got a {type(model).__name__}, expected a torch.nn.Module: of a pipeline, "
                "pass its .model; without a model, record() captures everything that runs."
            )
        self.keep, self.glob, self.k, self.device, self.dtype, self.grad = keep, sites, k, device, dtype, grad
        self.maps, self.stats, self.missed, self.other = Maps(), dict[str, Statistics](), Counter[str](), Counter[str]()
        self.gradients: dict[str, AttentionMap] = {}
        self.values: dict[str, Tensor] = {}
        self._with_values = values
        self._names, self._calls, self._keys = ModulePaths(model), Counter[str](), dict[str, KeyBuffer]()
        if tokenizer is not None and model is None:
            raise ValueError("record(tokenizer=...) needs a model whose input it names: record(model, tokenizer=...).")
        self.audit = Audit(model, lambda: active_mode() is None) if audit else None
        self.labels, self._tokenizer = Labels(), tokenizer
        self._token_tracker: TokenTracker | None = None
        self._other_threads: OtherThreads | None = None
        self.casting = None if dtype is None else Casting(dtype)
        self.inputs = ModelInputs()
        self.made: dict[str, Any] = {}  # the versions it was recorded with, of a record that was loaded

    @cached_property
    def about(self) -> dict[str, Any]:
        """The model, for people."""
        return described(self._names.model)

    @property
    def sites(self) -> list[Site]:
        """Where attention ran, in the order of the first run: module path and call number."""
        return [_site(name) for name in self.maps or self.stats]

    def __enter__(self) -> "Record":
        listen(self)
        if self._names.model is not None:
            self._other_threads = OtherThreads(self._names.model, self._tell)
        if self._tokenizer is not None:
            self._token_tracker = TokenTracker(self._names.model, self._tokenizer)
        if self.audit is not None:
            self.audit.__enter__()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.audit is not None:
            self.audit.__exit__(kind, *_)
            self._report_silent(self.audit)
        ran = functions_ran()
        stop(self)
        if self._other_threads is not None:
            self._other_threads.stop()
            self._other_threads = None
        if kind is None and self.empty and (ran or self.glob != "*"):
            warnings.warn(self.unmet(), stacklevel=2)
        self._keys.clear()
        if self._token_tracker is not None:
            self._token_tracker.stop()
            if kind is None and (error := self._token_tracker.error) is not None:
                warnings.warn(
                    f"record(tokenizer=...): the ids could not be read: {described_error(error)}.", stacklevel=2
                )
            self.labels.runs = self._token_tracker.axes()
            self.labels.put(self.maps.items())
            self._token_tracker = None

    def _report_silent(self, audit: Audit) -> None:
        """What the audit saw and nothing speaks of becomes an entry: attention is missed, anything else is other."""
        for event in audit.silent([*self.missed, *self.other]):
            (self.missed if event.attention else self.other)[event.entry()] += 1

    @property
    def empty(self) -> bool:
        """Whether nothing was recorded."""
        return not self.maps and not self.stats

    def unmet(self) -> str:
        """Why nothing was recorded, and what to type."""
        whose = "code in the block" if self._names.model is None else f"{type(self._names.model).__name__}"
        text = (
            f"sites={self.glob!r} fits no site; {describe_unmatched(self.glob, self._calls)}"
            if self.glob != "*"
            else f"{whose} ran none that is visible"
        )
        entries = {"missed": self.missed, "other": self.other}
        beside = [f"{name}: {', '.join(list(found)[:3])}" for name, found in entries.items() if found]
        return f"No attention was recorded: {'; '.join([text, *beside])}."

    def label(
        self,
        tokens: Any = None,
        text: "str | Sequence[str] | None" = None,
        offsets: Any = None,
        *,
        tokenizer: Any = None,
        grid: "tuple[int, int] | None" = None,
        first: Sequence[str] = (),
        nodes: Any = None,
        side: str = "source",
    ) -> "Record":
        """Name the rows and columns of the maps.

        tokens     names, or ids with tokenizer=; a list of lists for a batch
        text       the source text, with offsets= (start and end of each token in it) or tokenizer=
        grid       (height, width) of an image's patches, with the names of what comes before them: first=("[CLS]",)
        nodes      names of a graph's nodes
        side       "source", or "target" for what a decoder writes
        """
        if side not in ("source", "target"):
            raise ValueError(f"label(side={side!r}): expected 'source' or 'target'.")
        made = axes_of(tokens, text, offsets, tokenizer, grid, first, nodes)
        self.labels.runs = [{**run, side: made} for run in self.labels.runs or [{}]]
        self.labels.put(self.maps.items())
        return self

    def words(self, item: int = 0, side: str = "source") -> list[tuple[int, int]]:
        """Spans of tokens that are a word, for amap.group(rec.words())."""
        return axis_of(self.labels, item, side).words()

    def why(self, site: "str | int", head: int, i: int | None = None, j: int | None = None, **how: Any) -> Any:
        """Why a head looks from token i to token j, as `regard.why(rec, site, head, i, j)`: a `Why`."""
        return answers_of_records["why"](self, site, head, i, j, **how)

    def by_word(self, name: str, item: int = 0) -> AttentionMap:
        """The map of a site with tokens merged into words: what a word gives is averaged, what it receives summed."""
        return by_word(self.labels, self.maps[name], item)

    def save(self, path: "str | os.PathLike[str]", progress: "Callable[[int, int], None] | None" = None) -> Path:
        """Write the record as one file, whole or not at all; `regard.load` reads it. Row states are computed first.

        The file is safetensors with JSON in its header; progress(done, of) is called map by map.
        """
        from .io.saving import save

        return save(self, path, progress)

    def change(self, call: Call, changed: InterventionResult | None) -> InterventionResult | None:
        return None

    def on_call(self, call: Call, changed: InterventionResult | None, out: Any) -> None:
        if torch.is_grad_enabled() or torch.is_autocast_enabled(call.device.type):
            with torch.no_grad(), without_autocast(call.device):  # what is kept is the same in every context
                self._on_call_outside_autocast(call, changed, out)
        else:
            self._on_call_outside_autocast(call, changed, out)

    def _on_call_outside_autocast(self, call: Call, changed: InterventionResult | None, out: Any) -> None:
        path = self._names.path()
        if path is None:
            return
        self.inputs.see(self._names.model)
        count = self._calls[path]
        self._calls[path] = count + 1
        if self.glob != "*" and not Site(path, count).matches(self.glob):
            return
        name = f"{path}:{count}" if count else path
        if count and changed is None and self._is_a_step(call):
            assert isinstance(call, ScoredCall)
            keys = self._buffer(path).extend(call, self._copy)
            self.maps._by_site.put_later(name, call.step(self._copy(call.q), keys).map)
            self._label_run(name)
            return
        amap = self._map(path, call) if changed is None else self._changed(changed)
        if self.casting is not None and self.keep != "stats":
            self.casting.measure(name, call.map() if changed is None else changed.map, amap)
        self._label_run(name)
        if self.keep == "stats":
            self.stats[name] = Statistics(amap.entropy(), amap.strongest(self.k), amap.mass())
        else:
            amap.site = name
            self.maps._by_site[name] = amap
        if self._with_values and (isinstance(call, ScoredCall) or (isinstance(call, WeightedCall) and call.plain)):
            assert call.v is not None
            self.values[name] = self._copy(call.v).reshape(amap.lead[0], -1, *call.v.shape[-2:])
        if self.grad:
            found = self._gradient(call, out, path)
            if found is not None:
                found.site = name
                self.gradients[name] = found

    def _label_run(self, name: str) -> None:
        if self._token_tracker is not None and self._token_tracker.run:
            self.labels.run_of[name] = self._token_tracker.run

    def _is_a_step(self, call: Call) -> bool:
        """Whether this is one more plain call at a site that had such: its map, which is like the ones before, is put
        together when it is read."""
        if type(call) is not ScoredCall or not call.plain or self.keep != "qk":
            return False
        return not (self.grad or self._with_values or self.casting is not None)

    def _gradient(self, call: Call, out: Any, path: str) -> AttentionMap | None:
        missed = Missed.here(call.kernel)

        def failed(error: Exception) -> None:
            reason = f"its gradient: {described_error(error)}"
            self._tell(Missed(missed.operator, reason, path, missed.file, missed.line))

        if isinstance(call, CapturedEdgeCall):
            return call.gradient(out, self._copy, failed)
        if isinstance(call, ScoredCall) and isinstance(out, Tensor) and out.requires_grad:
            return LazyGradient(call, out, self._copy, failed)
        if isinstance(call, WeightedCall) and call.root is not None and call.root.requires_grad:
            return StoredGradient(call, self._copy, failed)
        return None

    def on_missed(self, missed: Missed) -> None:
        path = self._names.path()
        if path is not None:
            self._tell(missed.at(path))

    def _tell(self, missed: Missed) -> None:
        self.missed[missed] += 1

    def on_other(self, other: Missed) -> None:
        path = self._names.path()
        if path is not None:
            self.other[other.at(path)] += 1

    def may_edit(self, module: nn.Module) -> bool:
        return False

    def _map(self, path: str, call: Call) -> AttentionMap:
        if self.keep == "qk":
            keys = None
            if type(call) is ScoredCall:  # our own calls keep their map, which has its keys
                keys = self._buffer(path).extend(call, self._copy)
            return call.snapshot(self._copy, keys).map()
        if self.keep == "stats":
            return call.map()
        return self._stored(call.map())

    def _buffer(self, path: str) -> KeyBuffer:
        buffer = self._keys.get(path)
        if buffer is None:
            buffer = self._keys[path] = KeyBuffer()
        return buffer

    def _changed(self, changed: InterventionResult) -> AttentionMap:
        """What an intervention made of a call, kept as asked."""
        if self.keep == "qk":
            return changed.snapshot(self._copy)
        return changed.map if self.keep == "stats" else self._stored(changed.map)

    def _stored(self, amap: AttentionMap) -> AttentionMap:
        """Weights written out, or the largest of each row."""
        if self.keep == "topk":
            return TopKMap.of(amap, self.k, self._copy)
        return written(amap, self._copy)

    def _copy(self, x: Tensor) -> Tensor:
        """A plain tensor of the record's own: where and as what it is kept."""
        if type(x) not in PLAIN:
            x = x.as_subclass(Tensor)
        if self.dtype is None and self.device is None:
            return x.detach().clone(memory_format=torch.contiguous_format)
        dtype = self.dtype if x.is_floating_point() else None
        if dtype is not None and (most := torch.finfo(dtype).max) < torch.finfo(x.dtype).max:
            x = torch.where(x.isinf(), x, x.clamp(-most, most))  # a finite mask stays finite
        made = x.detach().to(self.device or x.device, dtype or x.dtype)
        same = made.data_ptr() == x.data_ptr() and made.numel() > 0
        return made.clone(memory_format=torch.contiguous_format) if same or not made.is_contiguous() else made

    def __getitem__(self, name: "str | int") -> "AttentionMap | Statistics":
        """rec["encoder.layer.3.attention.self"], rec["*.3.*"], rec[1]: a map, or statistics where they were kept."""
        if self.keep != "stats" or name not in self.stats:
            return self.maps[name]
        return self.stats[str(name)]

    def __iter__(self) -> Iterator[str]:
        """The sites, by name."""
        return iter(list(self.maps) or list(self.stats))

    def __contains__(self, name: object) -> bool:
        return name in self.maps._by_site or name in self.stats

    def __repr__(self) -> str:
        kept: Mapping[str, Any] = self.stats if self.keep == "stats" else self.maps
        one, many = ("map", "maps") if kept is self.maps else ("site's statistics", "sites' statistics")
        what = f"{len(kept)} {one if len(kept) == 1 else many}"
        other = f", {sum(self.other.values())} other" if self.other else ""
        return f"Record({what}, {sum(self.missed.values())} missed{other})"


def _named(by_site: Mapping[str, Any]) -> str:
    """The first and the last name."""
    names = list(by_site)
    return ", ".join(map(repr, names)) if len(names) < 3 else f"{names[0]!r} ... {names[-1]!r}"


def _site(name: str) -> Site:
    path, colon, call = name.rpartition(":")
    return Site(path, int(call)) if colon and call.isdigit() else Site(name)


def record(
    model: nn.Module | None = None,
    *,
    keep: str = "qk",
    sites: str = "*",
    k: int = 8,
    device: "torch.device | str | None" = None,
    dtype: torch.dtype | None = None,
    grad: bool = False,
    tokenizer: Any = None,
    values: bool = False,
    audit: bool = False,
) -> Record:
    """Record the attention of a model that runs in this block; its kernel and its outputs do not change.

        with regard.record(model) as rec:
            model(**inputs)
        rec.maps["encoder.layer.3.attention.self"].weights()

    model   an nn.Module; without one, everything that attends in this thread is captured
    keep    "qk": queries and keys, from which every weight follows exactly, O(n d)
            "weights": the weights, O(n m); "topk": the k largest of each row; "stats": entropy, peaks and mass alone
    sites   a pattern of module paths: "encoder.layer.0.*"; one that fits nothing warns, and names the nearest sites
    device, dtype   where and as what to keep it; the model's own unless told (rec.casting has the error this costs)
    grad    after a backward pass, rec.gradients has the gradient of the weights, dO V^T, also from a fused kernel
    tokenizer   names rows and columns by the text that the model is given, step by step when it generates
    values  keep the values too, for norm-based maps
    audit   look a second time, at the operators themselves: attention that was neither recorded nor reported becomes
            an entry of rec.missed; the events are in rec.audit. The run is slower, its results are the same
    """
    return Record(model, keep, sites, k, device, dtype, grad, tokenizer, values, audit)
