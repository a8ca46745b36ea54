"""Monitor: what attention does while a model trains, from a few rows of a few steps."""

import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from regard.core.arguments import flag, whole
from regard.core.autocast import without_autocast
from regard.core.display import view
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.structures import Causal, Window

from ..capture.calls import Call, ScoredCall, WeightedCall
from ..capture.edges.edge_maps import CapturedEdgeCall
from ..capture.function_mode import InterventionResult, listen, stop
from ..capture.gradient_hook import on_gradient
from ..capture.module_stack import ModulePaths, Site
from ..labels import CROSS
from ..missed import Missed, described_error
from .alarms import Alarm, AttentionAlarm, Watch
from .head_statistics import COLUMNS, HeadStatistics, statistics_of
from .logger import Logger
from .sampled_rows import sampled
from .table import table_of

KEPT = 1000  # snapshots; of longer runs every second of the earlier ones is let go


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What was seen at one step: statistics by site, in the order in which attention ran."""

    step: int
    sites: dict[str, HeadStatistics]


class _Seen:
    """Of one site at one step, on the model's device until the step is over."""

    def __init__(self, means: Tensor, twins: Tensor, places: Tensor, output: Tensor):
        self.means, self.twins, self.places, self.output = means, twins, places, output
        self.gradient: Tensor | None = None  # (H,) sums of squares

    def statistics(self) -> HeadStatistics:
        squares = torch.full_like(self.output, torch.nan) if self.gradient is None else self.gradient
        share = squares / squares.sum()
        rows = [*self.means, self.output, share, *self.twins]
        table = torch.stack([x.to(self.means.dtype) for x in rows]).cpu()
        return HeadStatistics(**dict(zip(COLUMNS, table, strict=True)), rows=self.places.cpu())


class Monitor:
    """Statistics of every head while a model trains; its kernels, outputs and gradients do not change.

        with regard.Monitor(model, every=100, log="attention.csv") as monitor:
            train(model)                      # any loop: steps of the model's optimiser are counted

    model   an nn.Module; a callback of a trainer may set it later
    every   looks at each so many-th step, the first one included; other steps run as without a monitor
    rows    of each site's weights, drawn from up to 4 items of the batch among rows that are no padding: each is read
            whole, O(rows x m), once
    log     where statistics go: "attention.csv", "tensorboard:folder", "wandb:project", "mlflow:experiment", an object
            that `regard.recording.monitor.logger.Logger` takes, a Logger, or a list of these
    watch   when to raise an alarm, a `Watch`; False for never. Alarms are warnings (`AttentionAlarm`)
    serve   show a live page at an address that is printed; True, or a port
    table   print a table at the end of the block
    evaluation  look at forward passes in evaluation mode too
    sites   a pattern of module paths

    What is measured: `HeadStatistics`. Attention that one forward pass runs is looked at, the first of a step: what
    runs again while gradients are taken (checkpointing) or in later passes of the step is not. Code that torch.compile
    made runs eagerly at the steps that are looked at. `history` has the last 1,000 snapshots, thinned; a CSV has all.
    """

    may_change = False  # a listener that looks alone
    wants_peaks = True  # of scores that a model writes out, which are gone when their weights are used

    def __init__(
        self,
        model: nn.Module | None = None,
        every: int = 100,
        rows: int = 64,
        *,
        log: Any = None,
        watch: "Watch | bool" = True,
        serve: "bool | int" = False,
        table: bool = True,
        evaluation: bool = False,
        sites: str = "*",
        seed: int = 0,
    ):
        if model is not None and not isinstance(model, nn.Module):
            raise TypeError(
                f"Monitor(model) got a {type(model).__name__}, expected a torch.nn.Module: of a trainer, pass its "
                ".model."
            )
        self.model = model
        self.every, self.rows = whole(every, "Monitor", "every"), whole(rows, "Monitor", "rows")
        self.history: list[Snapshot] = []
        self.alarms: list[Alarm] = []
        self.missed: Counter[str] = Counter()
        self.url = ""
        self._logger = log if isinstance(log, Logger) else Logger(*_targets(log))
        self._own_logger = not isinstance(log, Logger)
        self._watch = Watch() if watch is True else watch or None
        self._serve, self._table = serve, flag(table, "Monitor", "table")
        self._evaluation, self._sites, self._seed = flag(evaluation, "Monitor", "evaluation"), sites, seed
        self._page: Any = None
        self._names = ModulePaths(model)
        self._step = 0
        self._counted = False  # whether somebody calls step()
        self._thread: int | None = None  # that is being listened to
        self._open = False  # whether calls of this step are still looked at
        self._seen: dict[str, _Seen] = {}
        self._calls: Counter[str] = Counter()
        self._handles: list[Any] = []
        self._optimiser: weakref.ref[Any] | None = None  # whose steps count
        self._running = self._begun = False

    def __enter__(self) -> "Monitor":
        self.start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.finish()
            return
        self.stop()
        if self._table and self.history:
            print(self.table())

    def finish(self) -> None:
        """End, print the table if it is wanted, and warn if nothing was seen. A `with` block does so."""
        if not self._running:
            return
        self.stop()
        if self._table and self.history:
            print(self.table())
        if not self.history:
            warnings.warn(self._nothing(), stacklevel=3)

    def start(self, step: int = 0, listen_now: bool = True) -> None:
        """Begin: the next forward pass belongs to `step`. A `with` block does so; a callback calls begin_step later."""
        if self._running:
            raise RuntimeError(
                "This Monitor is running already: end its block, or call stop(), before it starts again."
            )
        self._names = ModulePaths(self.model)
        self._running, self._step, self._begun = True, step, False
        self._counted = not listen_now
        self._handles = [
            register_optimizer_step_pre_hook(self._before_optimiser),
            register_optimizer_step_post_hook(self._after_optimiser),
        ]
        if self._serve is not False and self._page is None:
            port = 0 if self._serve is True else int(self._serve)
            self._page = view("live_page")(self, port)
            self.url = self._page.url
            print(f"Attention while it trains: {self.url}", file=sys.stderr)
        if listen_now:
            self.begin_step()

    def stop(self) -> None:
        """Stop. Statistics of an unfinished step are dropped."""
        if not self._running:
            return
        self._running = False
        for handle in self._handles:
            handle.remove()
        self._unlisten()
        self._seen.clear()
        if self._own_logger:
            self._logger.close()
        if self._page is not None:
            self._page.close()
            self._page = None
            self.url = ""

    def begin_step(self, step: int | None = None) -> None:
        """The next forward pass belongs to this step, which is numbered on unless told."""
        if not self._running:
            raise RuntimeError("This Monitor is not running: call it inside `with Monitor(...) as monitor`.")
        self._step = self._step if step is None else step
        self._begun = True
        if self._step % self.every == 0 and self._thread is None:
            self._thread, self._open = get_ident(), True
            self._seen.clear()
            self._calls.clear()
            listen(self)

    def end_step(self) -> None:
        """The step has made its update: what was seen of it is kept and logged."""
        if not self._begun or self._thread not in (None, get_ident()):
            return  # another thread trains something else
        self._unlisten()
        if self._seen:
            self._keep(self._step)
        self._step, self._begun = self._step + 1, False

    def step(self) -> None:
        """End this step and begin the next, in training loops without an optimiser of torch."""
        self._counted = True
        if not self._running:
            raise RuntimeError("This Monitor is not running: call it inside `with Monitor(...) as monitor`.")
        self.end_step()
        self.begin_step()

    @property
    def latest(self) -> "Snapshot | None":
        """The last snapshot."""
        return self.history[-1] if self.history else None

    def table(self) -> str:
        """The last snapshot beside the first, site by site, as text."""
        return table_of(self.history, self.alarms, self.missed)

    def _repr_parts(self) -> str:
        return f"every={self.every}, rows={self.rows}, step {self._step}, {len(self.history)} snapshots"

    def __repr__(self) -> str:
        return f"Monitor({self._repr_parts()}, {len(self.alarms)} alarms)"

    # steps

    def _before_optimiser(self, optimiser: Any, args: Any, kwargs: Any) -> None:
        """Attention inside the optimiser's update is not monitored."""
        if self._thread is not None and self._owns(optimiser):
            self._unlisten()

    def _after_optimiser(self, optimiser: Any, args: Any, kwargs: Any) -> None:
        """An optimiser has made a step: the first one that has a parameter of the model counts them."""
        if self._counted:
            return
        counts = None if self._optimiser is None else self._optimiser()
        if counts is None and self._owns(optimiser):
            counts, self._optimiser = optimiser, weakref.ref(optimiser)
        if counts is optimiser:
            self.end_step()
            self.begin_step()

    def _owns(self, optimiser: Any) -> bool:
        if self.model is None:
            return True
        own = {id(x) for x in self.model.parameters()}
        return any(id(x) in own for group in optimiser.param_groups for x in group["params"])

    def _unlisten(self) -> None:
        if self._thread == get_ident():
            stop(self)
            self._thread = None

    def _keep(self, step: int) -> None:
        with torch.no_grad():
            sites = {site: seen.statistics() for site, seen in self._seen.items()}
        self._seen.clear()
        self.history.append(Snapshot(step, sites))
        if len(self.history) > KEPT:
            self.history[1 : KEPT // 2] = self.history[1 : KEPT // 2 : 2]
        alarms = [] if self._watch is None else self._watch.look(step, sites)
        self.alarms += alarms
        self._logger.write(step, sites, alarms)
        for alarm in alarms:
            warnings.warn(alarm.says, AttentionAlarm, stacklevel=2)

    def _nothing(self) -> str:
        missed = f"; missed: {', '.join(list(self.missed)[:3])}" if self.missed else ""
        if not self._step:
            return (
                "Monitor saw no step: no optimiser with parameters of this model made one. Call monitor.step() at the "
                f"end of each step{missed}."
            )
        return f"Monitor saw no attention in {self._step} steps{missed}."

    # what a listener is told

    def change(self, call: Call, changed: "InterventionResult | None") -> "InterventionResult | None":
        return None

    def may_edit(self, module: nn.Module) -> bool:
        return False

    def on_other(self, other: Missed) -> None:
        """Weights that are not attention are not monitored."""

    def on_missed(self, missed: Missed) -> None:
        path = self._names.path() if self._open else None
        if path is not None:
            self.missed[missed.at(path)] += 1

    def on_call(self, call: Call, changed: "InterventionResult | None", out: Any) -> None:
        if not self._open or (self.model is not None and not (self.model.training or self._evaluation)):
            return
        path = self._names.path()
        if path is None:
            return
        site = Site(path, self._calls[path])
        self._calls[path] += 1
        if self._sites == "*" or site.matches(self._sites):
            with torch.no_grad(), without_autocast(call.device):
                self._look(str(site), call, changed, out)

    def _look(self, site: str, call: Call, changed: "InterventionResult | None", out: Any) -> None:
        amap = call.map() if changed is None else changed.map
        seed = f"{self._seed} {self._step}"
        peak = call.peak if isinstance(call, WeightedCall) and changed is None else None
        rows = sampled(amap, self.rows, seed, peak)
        found = statistics_of(rows, _shift(amap, site))
        if found is None:
            return
        means, twins, places = found
        output, shape = torch.full_like(means[0], torch.nan), None
        if isinstance(out, Tensor):
            shape = _by_head(call, amap, out)
        if shape is not None:
            norm = torch.linalg.vector_norm(out.detach().reshape(shape), dim=(0, 2, 3), dtype=means.dtype)
            output = norm / (out.numel() / shape[1]) ** 0.5
        seen = self._seen[site] = _Seen(means, twins, places, output)
        if shape is not None and out.requires_grad:
            self._follow_gradient(seen, out, shape, site)

    def _follow_gradient(self, seen: _Seen, out: Tensor, shape: tuple[int, ...], site: str) -> None:
        def add(grad: Tensor) -> None:
            self._open = False  # what runs from now on runs again, for gradients
            norm = torch.linalg.vector_norm(grad.detach().reshape(shape), dim=(0, 2, 3), dtype=seen.means.dtype)
            seen.gradient = norm.square() if seen.gradient is None else seen.gradient + norm.square()

        missed = Missed.here("gradient share")

        def failed(error: Exception) -> None:
            self.missed[Missed(missed.operator, described_error(error), site, missed.file, missed.line)] += 1

        on_gradient(out, add, failed)


def _targets(log: Any) -> Sequence[Any]:
    return () if log is None else tuple(log) if isinstance(log, (list, tuple)) else (log,)


def _shift(amap: AttentionMap, site: str) -> int | None:
    """How far key positions run ahead of query positions; None where they do not correspond."""
    if CROSS.search(site) or getattr(amap, "graph", None) is not None:
        return None
    if amap.n == amap.m:
        return 0
    parts = amap.live.structure.parts() if isinstance(amap, LazyMap) else ()
    aligned = [part.align for part in parts if isinstance(part, (Causal, Window))]
    return (amap.m - amap.n if aligned[0] == "end" else 0) if aligned else None


def _by_head(call: Call, amap: AttentionMap, out: Tensor) -> tuple[int, ...] | None:
    """The shape (B, H, n, d_v) of the output, where it has that layout."""
    heads = amap.heads
    items = (amap.slab.stop - amap.slab.start) // heads
    wide = items * heads * amap.n
    if not wide or out.numel() % wide or not out.numel():
        return None
    if isinstance(call, CapturedEdgeCall) and not (out.ndim > 2 and out.shape[-3] == heads and out.shape[-2] == amap.n):
        return None
    if isinstance(call, WeightedCall) and not call.plain:
        return None
    if isinstance(call, ScoredCall) and out.shape[-2] != amap.n:
        return None
    return items, heads, amap.n, out.numel() // wide
