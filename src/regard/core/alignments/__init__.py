"""Alignments: scores into weights. Each class is also known by a name.

A file in this folder with a class that says its name, class Powers(Alignment, name="powers"), is all that a new one
needs.
"""

from ..arguments.synonyms import function_name
from ..name_registry import call_of, read_folder
from .alignment import ALIGNMENTS, NO_CONTEXT, Alignment, RowContext, RowState, open_pairs
from .local import Bell, Local, LocalPredictive
from .monotonic import Monotonic
from .reinforced import Reinforced
from .selection import Gumbel, Hard, TopK
from .soft import ReLU, Sigmoid, Softmax, Uniform
from .softmax_one import SoftmaxOne
from .softpick import Softpick
from .sparse import Entmax, Sparsemax
from .stick_breaking import StickBreaking

read_folder(__name__, __path__)  # a file with an alignment in it is enlisted by lying here
NAMES: dict[str, type[Alignment]] = ALIGNMENTS.free
_BUILT_BY_A_NUMBER = {"topk": "TopK(k)", "top_k": "TopK(k)", "entmax": "Entmax(alpha)"}


def alignment_of(align: "str | Alignment") -> Alignment:
    """An alignment from its name (one shared object a name) or itself."""
    if isinstance(align, str):
        found = ALIGNMENTS.shared(align)
        if found is None:
            own = ALIGNMENTS.own_name(align)
            built = ALIGNMENTS.built.get(own)
            needed = _BUILT_BY_A_NUMBER.get(own) if built is None else call_of(built)
            if needed is not None:
                raise ValueError(f"align={align!r} needs an argument: pass {needed}.")
            raise ALIGNMENTS.unknown("align", align, NAMES, "an Alignment")
        return found
    if isinstance(align, Alignment):
        return align
    if isinstance(align, type):
        raise TypeError(f"align= got the class {align.__name__}: pass an object, {align.__name__}(...).")
    hint = function_name(align, ALIGNMENTS.built)
    if align is None:
        hint = "; leave it out for softmax"
    raise TypeError(f"align= got {type(align).__name__}, expected a name or an Alignment such as Entmax(1.5){hint}.")


__all__ = [
    "ALIGNMENTS",
    "NAMES",
    "NO_CONTEXT",
    "Alignment",
    "Bell",
    "Entmax",
    "Gumbel",
    "Hard",
    "Local",
    "LocalPredictive",
    "Monotonic",
    "ReLU",
    "Reinforced",
    "RowContext",
    "RowState",
    "Sigmoid",
    "Softmax",
    "SoftmaxOne",
    "Softpick",
    "Sparsemax",
    "StickBreaking",
    "TopK",
    "Uniform",
    "alignment_of",
    "open_pairs",
]
for _kind in ALIGNMENTS.pages:  # those that no line above imports
    if globals().setdefault(_kind.__name__, _kind) is _kind and _kind.__name__ not in __all__:
        __all__.append(_kind.__name__)
for _name in NAMES:  # made now: torch.compile meets them as they are
    ALIGNMENTS.shared(_name)
