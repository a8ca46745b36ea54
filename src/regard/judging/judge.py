"""`regard.judge`: a model and its data through the battery, and a report of what came of it."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..data.batch import Example
from . import eraser
from .adapters.adapter import Adapter
from .adapters.inputs import Instance
from .report import Report
from .result_cache import ResultCache, configuration
from .suite import Judged, chosen, run

ROWS = "instances"  # what is kept beside the tests: ERASER's rows
SuiteProgress = Callable[[int, int, str], None]  # tests done, of how many, the test that runs now
RENAMED = {"hear": "on_progress", "look": "selector"}  # old keywords, accepted for one version with a warning


def judge(
    model: "nn.Module | Adapter",
    data: "Sequence[Instance | Example] | None" = None,
    tests: "str | Iterable[str]" = "all",
    *,
    seed: int = 0,
    folder: "str | os.PathLike[str] | None" = None,
    again: bool = False,
    about: Mapping[str, Any] | None = None,
    on_progress: SuiteProgress | None = None,
    **options: Any,
) -> Report:
    """Put a model's attention to the tests, each beside its baselines, and report.

        report = regard.judge(model, instances, tests="all")
        report.save("report.html")

    model    any nn.Module with its data, or an Adapter, which has both
    data     Instances (tokens, label, rationale), or examples of regard.data
    tests    "all", "permutation,adversary", or a list of names
    seed     the same seed gives the same report, bit for bit
    folder   finished tests are kept here, and read again where model, data, seed and versions are the same: what was
             stopped goes on. again=True judges anew
    about    more to say about what was judged: {"model": "minilm", "data": "sst"}
    on_progress   called with (tests done, of how many, the test that runs now), for a progress bar
    options  of Adapter: selector=, removal=, forward=, names=, trivial=, size=, ...

    A test that has no meaning for this model or these data is left out, and the report says why.
    """
    for old, new in RENAMED.items():
        if old in options:
            warnings.warn(f"judge({old}=) is now judge({new}=).", FutureWarning, stacklevel=2)
            options[new] = options.pop(old)
    on_progress = options.pop("on_progress", on_progress)
    if isinstance(model, Adapter):
        if data is not None or options:
            raise ValueError("judge(adapter): an adapter has its data and options; give it nothing else but tests.")
        adapter = model
    elif data is None:
        raise ValueError("judge(model) needs data: Instances, or examples of regard.data.")
    else:
        adapter = Adapter(model, data, **options)
    some = chosen(tests)
    config = configuration(adapter, seed, about or {})
    kept = ResultCache(None if folder is None else Path(folder), config)
    found: list[Judged] = []
    for place, test in enumerate(some):
        if on_progress is not None:
            on_progress(place, len(some) + 1, test.name)
        before = None if again else kept.read(test.name)
        if before is not None:
            found.append(Judged.from_dict(before))
            continue
        found.append(run(test, adapter, seed=seed))
        kept.write(test.name, found[-1].as_dict())
    if on_progress is not None:
        on_progress(len(some), len(some) + 1, ROWS)
    rows = None if again else kept.read(ROWS)
    if rows is None:
        rows = eraser.rows(adapter) if adapter.selector.tokens and adapter.gives == "classes" else []
        kept.write(ROWS, rows)
    return Report(config, found, rows)
