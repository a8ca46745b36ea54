"""Regard builds, runs, sees and judges attention: any score, any alignment, any structure, in PyTorch."""

import sys as _sys
from importlib import import_module as _import_module
from os.path import basename as _basename
from typing import TYPE_CHECKING

_is_command = False
if _sys.argv[:1] == ["-m"] or _basename("".join(_sys.argv[:1])).startswith("regard"):
    from .cli import interrupts as _interrupts  # this may be the command: it handles Ctrl-C before torch is imported

    _interrupts.forget_current_folder()
    _interrupts.end_on_interrupt()
    _is_command = _interrupts.is_command()

if TYPE_CHECKING or not _is_command:  # `regard --help` needs no torch
    from .eager_names import *  # noqa: F403

if TYPE_CHECKING:
    from . import derived, detectors, interventions, models, nn
    from .integrations.registration import register
    from .judging.judge import judge
    from .recording import Monitor, Record, intervene, load, record, why
    from .studies import Study

__version__ = "0.2.0"

# Lazy imports: the package that has the name, "" where the name is a package itself.
_LAZY = {
    "Monitor": "recording",
    "Record": "recording",
    "intervene": "recording",
    "load": "recording",
    "record": "recording",
    "why": "recording",
    "judge": "judging",
    "register": "integrations.registration",
    "Study": "studies",
    "derived": "",
    "detectors": "",
    "interventions": "",
    "models": "",
    "nn": "",
}


def load_eager_names() -> None:
    """Import the names that the command did not import at once."""
    eager = _import_module(".eager_names", __name__)
    globals().update({name: getattr(eager, name) for name in eager.__all__})


def __getattr__(name: str) -> object:
    if name in __all__ and name not in _LAZY:  # in the command, before it runs something
        load_eager_names()
        return globals()[name]
    if name not in _LAZY:
        if name.startswith("_"):
            raise AttributeError(f"module 'regard' has no attribute {name!r}")
        places = {f"{__name__}.{one}": _import_module(f".{one}", __name__).__all__ for one in ("nn", "recording")}
        raise _import_module(".core.arguments.synonyms", __name__).no_attribute(__name__, name, __all__, places)
    package = _import_module(f".{_LAZY[name] or name}", __name__)
    value = getattr(package, name) if _LAZY[name] else package
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "FIRE",
    "GAT",
    "ALiBi",
    "ActivatedGeneral",
    "Activation",
    "Additive",
    "Alignment",
    "Attended",
    "AttentionMap",
    "Axial",
    "BiasedGeneral",
    "Causal",
    "Clamp",
    "CoPE",
    "Content",
    "ConvolvedDot",
    "Cosine",
    "Dot",
    "EdgeBias",
    "Edges",
    "Entmax",
    "ForgettingGate",
    "Full",
    "GATv2",
    "Gaussian",
    "General",
    "GridRotary",
    "Gumbel",
    "Hard",
    "Kerple",
    "Laplace",
    "LearnedQuery",
    "LinearKernel",
    "Local",
    "LocalPredictive",
    "Location",
    "LocationAware",
    "Mask",
    "Modifier",
    "Monitor",
    "Monotonic",
    "Neighbourhood",
    "Padding",
    "PairBias",
    "PastBlocks",
    "Plan",
    "Pyramid",
    "QueryFree",
    "ReLU",
    "Record",
    "Refused",
    "Reinforced",
    "RelativeBias",
    "Rotary",
    "Sample",
    "ScaledDot",
    "Score",
    "Segments",
    "Selected",
    "ShiftedWindows",
    "Sigmoid",
    "Sink",
    "SoftCap",
    "Softmax",
    "SoftmaxOne",
    "Softpick",
    "Sparsemax",
    "StickBreaking",
    "Structure",
    "Study",
    "T5Bias",
    "TopK",
    "Trilinear",
    "Uniform",
    "Window",
    "alignments",
    "attend",
    "attend_packed",
    "derived",
    "detectors",
    "factored_attend",
    "intervene",
    "interventions",
    "judge",
    "linear_attend",
    "load",
    "models",
    "nn",
    "plan",
    "record",
    "register",
    "scores",
    "why",
]
