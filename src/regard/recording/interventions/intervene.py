"""intervene: change the attention of any model while it runs."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from regard.core.alignments import Alignment
from regard.core.errors import Refused
from regard.core.structures import Full

from ..capture.calls import ScoredCall, WeightedCall
from ..capture.edges.edge_maps import CapturedEdgeCall
from ..capture.function_mode import InterventionResult, listen, stop
from ..capture.module_stack import ModulePaths, Site, describe_unmatched
from ..missed import Missed
from .edge_edits import OnEdges
from .edits import EditedCall
from .interventions import Here, Intervention, numbers
from .pair_edits import LazyWeights, Written

Given = Intervention | Sequence[Intervention]


class Intervene:
    """Interventions by site, there while its block runs; made by `regard.intervene`. `sites` are those changed."""

    may_change = True

    def __init__(self, model: nn.Module | None, interventions: "Mapping[str, Given] | Given", heads: Any, rows: Any):
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"intervene(model) got a {type(model).__name__}, expected a torch.nn.Module: of a "
                "pipeline, pass its .model."
            )
        by_site = interventions if isinstance(interventions, Mapping) else {"*": interventions}
        self.interventions = {glob: _list(glob, given) for glob, given in by_site.items()}
        self.heads, self.rows = heads, rows
        self._names = ModulePaths(model)
        self._start()

    def _start(self) -> None:
        self.sites: list[str] = []
        self._calls, self._met, self._unread = Counter[str](), set[str](), Counter[Missed]()

    def __enter__(self) -> "Intervene":
        self._start()
        listen(self)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        stop(self)
        if kind is None:
            self._say_what_was_not_met()

    def change(self, call: Any, changed: InterventionResult | None) -> InterventionResult | None:
        path = self._names.path()
        if path is None:
            return None
        site = Site(path, self._calls[path])
        self._calls[path] += 1
        found = [(glob, each) for glob, given in self.interventions.items() if site.matches(glob) for each in given]
        if not found:
            return None
        self._met.update(glob for glob, _ in found)
        self.sites.append(str(site))
        now, here = _as_edited(call) if changed is None else changed.state, Here(site, call)
        for _, intervention in found:
            now = self._applied(intervention, now, here)
        return InterventionResult(now)

    def _applied(self, intervention: Intervention, now: EditedCall, here: Here) -> EditedCall:
        after = intervention.apply(now, here)
        if self.heads is None and self.rows is None:
            return after
        heads = numbers(self.heads, now.heads, "intervene(heads)", "heads", here)
        rows = numbers(self.rows, now.sizes[0], "intervene(rows)", "rows", here)
        return now.mixed(after, now.selected(heads, rows))

    def on_call(self, call: Any, changed: InterventionResult | None, out: Any) -> None:
        pass

    def on_missed(self, missed: Missed) -> None:
        path = self._names.path()
        if path is not None:
            self._unread[missed.at(path)] += 1

    def on_other(self, other: Missed) -> None:
        pass

    def may_edit(self, module: nn.Module) -> bool:
        """Whether a pattern fits a multi-head attention in this module, whichever time it runs."""
        for inner in module.modules():
            if isinstance(inner, nn.MultiheadAttention):
                path = self._path(inner)
                if path is not None and any(
                    fnmatchcase(path, glob) or fnmatchcase(path, glob.rpartition(":")[0]) for glob in self.interventions
                ):
                    return True
        return False

    def _path(self, module: nn.Module) -> str | None:
        model = self._names.model
        if model is None:
            return type(module).__name__
        found = self._names.paths.get(id(module))
        return None if found is None else found or type(model).__name__

    def _say_what_was_not_met(self) -> None:
        for glob in self.interventions:
            unread = [missed for missed in self._unread if Site(missed.site).matches(glob)]
            if unread:
                warnings.warn(
                    f"intervene: at {unread[0].site!r} attention ran that could not be read, so nothing was changed "
                    f"there: {'; '.join(unread[:3])}.",
                    stacklevel=3,
                )
            if glob in self._met or unread:
                continue
            text = describe_unmatched(glob, self._calls, self._unread)
            warnings.warn(f"intervene: {glob!r} fits no site, so nothing was changed there; {text}.", stacklevel=3)


def _as_edited(call: Any) -> EditedCall:
    """A call as it is."""
    if isinstance(call, CapturedEdgeCall):
        return OnEdges(call)
    if isinstance(call, ScoredCall):
        plan = getattr(call, "plan", None)
        if plan is not None and plan.score.feature_count(plan.q) is not None:
            raise Refused(
                "Attention with a weight for each feature of the values is changed on graphs only: here its "
                "weights have five axes."
            )
        return LazyWeights(call, call.over)
    if isinstance(call, WeightedCall):
        return Written(call, getattr(call, "over", Full()))
    raise TypeError(f"{type(call).__name__} cannot be intervened on.")


def _list(glob: Any, given: Any) -> "list[Intervention]":
    each = list(given) if isinstance(given, Sequence) else [given]
    for one in each:
        if isinstance(one, type) and issubclass(one, Intervention):
            raise TypeError(
                f"intervene got the class {one.__name__} for {glob!r}: pass an object, {one.__name__}(...)."
            )
        if isinstance(one, Alignment):
            raise TypeError(
                f"intervene got the alignment regard.{type(one).__name__} for {glob!r}; interventions "
                "are in regard.interventions."
            )
        if not isinstance(one, Intervention):
            raise TypeError(
                f"intervene got a {type(one).__name__} for {glob!r}, expected an intervention of "
                "regard.interventions: Uniform(), Replace(weights), Freeze(record), ..."
            )
    return each


def intervene(
    model: nn.Module | None, interventions: "Mapping[str, Given] | Given", *, heads: Any = None, rows: Any = None
) -> Intervene:
    """Change the attention of a model while this block runs; without a site that fits, not a bit of it changes.

        with regard.intervene(model, {"encoder.layer.3.*": regard.interventions.Uniform()}, heads=[0, 5]):
            model(**inputs)

    model           an nn.Module; None for everything that attends in this thread
    interventions   by pattern of module paths, as regard.record names them ("...:1" is the second time that a site
                    runs); several for one pattern, and several patterns that fit one site, follow one another in
                    order. One intervention by itself is for every site
    heads, rows     numbers or a slice: only these change, the others keep the bits of the kernel's own output

    Blocks nest: an inner one changes what the outer one made. A record in or around the block captures the weights that
    ran. Dropout on the weights does not apply to what is changed.
    """
    return Intervene(model, interventions, heads, rows)
