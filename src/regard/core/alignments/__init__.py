"""Alignments: scores into weights. Each class is also known by a name."""

from collections.abc import Callable

from .alignment import NOTHING, Alignment, Look, RowState, open_pairs
from .chosen import Gumbel, Hard, TopK
from .local import Bell, Local, LocalPredictive
from .monotonic import Monotonic
from .policy import Reinforced
from .soft import ReLU, Sigmoid, Softmax, Uniform
from .sparse import Entmax, Sparsemax

NAMES: dict[str, Callable[[], Alignment]] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax15": Entmax,
    "sigmoid": Sigmoid,
    "relu": ReLU,
    "uniform": Uniform,
    "hard": Hard,
    "gumbel": Gumbel,
    "local": Local,
    "local_predictive": LocalPredictive,
    "monotonic": Monotonic,
}
_NEED_SIZES = {"topk": "TopK(k)", "top_k": "TopK(k)", "entmax": "Entmax(alpha)", "reinforced": "Reinforced(d)"}
_made: dict[str, Alignment] = {name: make() for name, make in NAMES.items()}


def alignment_of(align: "str | Alignment") -> Alignment:
    """An alignment from its name (one shared object a name) or itself."""
    if isinstance(align, str):
        found = _made.get(align)
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
    "NAMES", "NOTHING", "Alignment", "Bell", "Entmax", "Gumbel", "Hard", "Local", "LocalPredictive", "Look",
    "Monotonic", "ReLU", "Reinforced", "RowState", "Sigmoid", "Softmax", "Sparsemax", "TopK", "Uniform", "alignment_of",
    "open_pairs",
]  # fmt: skip
