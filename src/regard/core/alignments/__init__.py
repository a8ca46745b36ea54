"""Alignments: scores into weights. Each class is also known by a name.

A file in this folder with a class that says its name, class Powers(Alignment, name="powers"), is all that a new one
needs.
"""

from ..name_registry import read_folder
from .alignment import ALIGNMENTS, NO_CONTEXT, Alignment, RowContext, RowState, open_pairs
from .local import Bell, Local, LocalPredictive
from .monotonic import Monotonic
from .reinforced import Reinforced
from .selection import Gumbel, Hard, TopK
from .soft import ReLU, Sigmoid, Softmax, Uniform
from .sparse import Entmax, Sparsemax

read_folder(__name__, __path__)  # a file with an alignment in it is enlisted by lying here
NAMES: dict[str, type[Alignment]] = ALIGNMENTS.free
_NEED_SIZES = {"topk": "TopK(k)", "top_k": "TopK(k)", "entmax": "Entmax(alpha)", "reinforced": "Reinforced(d)"}


def alignment_of(align: "str | Alignment") -> Alignment:
    """An alignment from its name (one shared object a name) or itself."""
    if isinstance(align, str):
        found = ALIGNMENTS.shared(align)
        if found is None:
            if align in _NEED_SIZES:
                raise ValueError(f"align={align!r} needs an argument: pass {_NEED_SIZES[align]}.")
            raise ValueError(f"align={align!r} is unknown; expected one of {', '.join(NAMES)}, or an Alignment.")
        return found
    if isinstance(align, Alignment):
        return align
    if isinstance(align, type):
        raise TypeError(f"align= got the class {align.__name__}: pass an object, {align.__name__}(...).")
    raise TypeError(f"align= got {type(align).__name__}, expected a name or an Alignment such as Entmax(1.5).")


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
    "Sparsemax",
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
