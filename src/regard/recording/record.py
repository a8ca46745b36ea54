"""record: have the attention of any model, its kernel unchanged."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core.autocast import without_autocast
from ..core.display import Displayable
from ..core.maps.attention_map import AttentionMap, Strongest
from .attribution.weight_gradients import LazyGradient, StoredGradient
from .axes import axes_of
from .capture.calls import Call, ScoredCall, WeightedCall
from .capture.edge_maps import CapturedEdgeCall
from .capture.function_mode import InterventionResult, listen, stop
from .capture.key_buffer import KeyBuffer
from .capture.module_stack import ModulePaths, Site, describe_unmatched
from .capture.snapshot import written
from .capture.token_tracker import TokenTracker, described
from .capture.topk_map import TopKMap
from .io.quantization_error import Casting
from .labels import Labels, axis_of, by_word

KEEPS = ("qk", "weights", "stats", "topk")


class Statistics(NamedTuple):
    """Statistics of each row and key without the weights: entropy (B, H, n), the strongest keys, mass (B, H, m)."""

    entropy: Tensor
    strongest: Strongest
    mass: Tensor


class Maps(Mapping[str, AttentionMap]):
    """Maps by site. maps["encoder.layer.3.attention.self"], or a pattern that fits one site alone."""

    def __init__(self) -> None:
        self._by_site: dict[str, AttentionMap] = {}

    def __getitem__(self, name: str) -> AttentionMap:
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
    missed     what looked like attention and could not be read, counted by name; empty means that nothing was missed
    labels     what rows and columns are called: from record(tokenizer=...) or label(...)
    casting    with dtype=: the measured error of the weights
    """

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
    ):
        if keep not in KEEPS:
            raise ValueError(f"record(keep={keep!r}): expected one of {', '.join(map(repr, KEEPS))}.")
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"record(model) got a {type(model).__name__}, expected a torch.nn.Module: of a pipeline, "
                "pass its .model; without a model, record() captures everything that runs."
            )
        self.keep, self.glob, self.k, self.device, self.dtype, self.grad = keep, sites, k, device, dtype, grad
        self.maps, self.stats, self.missed = Maps(), dict[str, Statistics](), Counter[str]()
        self.gradients: dict[str, AttentionMap] = {}
        self.values: dict[str, Tensor] = {}
        self._with_values = values
        self._names, self._calls, self._keys = ModulePaths(model), Counter[str](), dict[str, KeyBuffer]()
        if tokenizer is not None and model is None:
            raise ValueError("record(tokenizer=...) needs a model whose input it names: record(model, tokenizer=...).")
        self.labels, self._tokenizer = Labels(), tokenizer
        self._token_tracker: TokenTracker | None = None
        self.casting = None if dtype is None else Casting(dtype)
        self.about: dict[str, Any] = described(model)  # the model, for people
        self.made: dict[str, Any] = {}  # the versions it was recorded with, of a record that was loaded

    @property
    def sites(self) -> list[Site]:
        return [_site(name) for name in self.maps or self.stats]

    def __enter__(self) -> "Record":
        listen(self)
        if self._tokenizer is not None:
            self._token_tracker = TokenTracker(self._names.model, self._tokenizer)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        stop(self)
        if kind is None and self.glob != "*" and self.empty:
            warnings.warn(self.unmet(), stacklevel=2)
        self._keys.clear()
        if self._token_tracker is not None:
            self._token_tracker.stop()
            self.labels.runs = self._token_tracker.axes()
            self.labels.put(self.maps.items())
            self._token_tracker = None

    @property
    def empty(self) -> bool:
        """Whether nothing was recorded."""
        return not self.maps and not self.stats

    def unmet(self) -> str:
        """Why nothing was recorded, and what to type."""
        text = (
            f"No attention was recorded: sites={self.glob!r} fits no site; {describe_unmatched(self.glob, self._calls)}"
        )
        return text + (f"; missed: {', '.join(list(self.missed)[:3])}." if self.missed else ".")

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
        with without_autocast(call.device):  # what the record computes and keeps is the same in every context
            self._on_call_outside_autocast(call, changed, out)

    def _on_call_outside_autocast(self, call: Call, changed: InterventionResult | None, out: Any) -> None:
        path = self._names.path()
        if path is None:
            return
        site = Site(path, self._calls[path])
        self._calls[path] += 1
        if not site.matches(self.glob):
            return
        name = str(site)
        with torch.no_grad():
            amap = self._map(path, call) if changed is None else self._changed(changed)
            if self.casting is not None and self.keep != "stats":
                self.casting.measure(name, call.map() if changed is None else changed.map, amap)
        if self._token_tracker is not None and self._token_tracker.run:
            self.labels.run_of[name] = self._token_tracker.run
        if self.keep == "stats":
            self.stats[name] = Statistics(amap.entropy(), amap.strongest(self.k), amap.mass())
        else:
            amap.site = name
            self.maps._by_site[name] = amap
        if self._with_values and (isinstance(call, ScoredCall) or (isinstance(call, WeightedCall) and call.plain)):
            assert call.v is not None
            self.values[name] = self._copy(call.v).reshape(amap.lead[0], -1, *call.v.shape[-2:])
        if self.grad:
            found = self._gradient(call, out)
            if found is not None:
                found.site = name
                self.gradients[name] = found

    def _gradient(self, call: Call, out: Any) -> AttentionMap | None:
        if isinstance(call, CapturedEdgeCall):
            return call.gradient(out, self._copy)
        if isinstance(call, ScoredCall) and isinstance(out, Tensor) and out.requires_grad:
            return LazyGradient(call, out, self._copy)
        if isinstance(call, WeightedCall) and call.root is not None and call.root.requires_grad:
            return StoredGradient(call, self._copy)
        return None

    def on_missed(self, name: str) -> None:
        path = self._names.path()
        if path is not None:
            self.missed[f"{path}: {name}"] += 1

    def may_edit(self, module: nn.Module) -> bool:
        return False

    def _map(self, path: str, call: Call) -> AttentionMap:
        if self.keep == "qk":
            keys = None
            if type(call) is ScoredCall:  # our own calls keep their map, which has its keys
                keys = self._keys.setdefault(path, KeyBuffer()).extend(call, self._copy)
            return call.snapshot(self._copy, keys).map()
        if self.keep == "stats":
            return call.map()
        return self._stored(call.map())

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
        """A tensor of the record's own: where and as what it is kept."""
        dtype = self.dtype if x.is_floating_point() else None
        if dtype is not None and (most := torch.finfo(dtype).max) < torch.finfo(x.dtype).max:
            x = torch.where(x.isinf(), x, x.clamp(-most, most))  # a finite mask stays finite
        made = x.detach().to(self.device or x.device, dtype or x.dtype)
        same = made.data_ptr() == x.data_ptr() and made.numel() > 0
        return made.clone(memory_format=torch.contiguous_format) if same or not made.is_contiguous() else made

    def __repr__(self) -> str:
        what = f"{len(self.maps)} maps" if self.keep != "stats" else f"statistics of {len(self.stats)} sites"
        return f"Record({what}, {sum(self.missed.values())} missed)"


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
    """
    return Record(model, keep, sites, k, device, dtype, grad, tokenizer, values)
