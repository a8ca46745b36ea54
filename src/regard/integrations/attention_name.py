"""Names of attention functions, such as "regard:entmax15,window=1024": alignment, window and backend."""

from dataclasses import dataclass
from difflib import get_close_matches

from ..core.alignments import Alignment, Entmax, ReLU, Sigmoid, Softmax, Sparsemax, TopK

PREFIX = "regard"
_PLAIN = {"softmax": Softmax, "sparsemax": Sparsemax, "entmax15": Entmax, "sigmoid": Sigmoid, "relu": ReLU}
_WITH_VALUE = ("top_k", "entmax", "window", "backend")


# Names that the integrations register when they are imported.
PRESETS = (
    "regard",
    "regard:softmax",
    "regard:sparsemax",
    "regard:entmax15",
    "regard:sigmoid",
    "regard:relu",
    "regard:top_k=64",
    "regard:softmax,window=1024",
)


@dataclass(frozen=True)
class NamedAttention:
    """The specification of a name.

    align     normalises the scores of a row
    window    a query attends keys less than this many positions away; None for all
    backend   as in `attend`
    """

    name: str
    align: Alignment
    window: int | None = None
    backend: str = "auto"

    @property
    def is_softmax(self) -> bool:
        return type(self.align) is Softmax


def parse(name: str) -> NamedAttention:
    """The specification that "regard" or "regard:part,part" names.

    regard                          softmax over what the model's own mask allows
    regard:entmax15                 another alignment: softmax, sparsemax, entmax15, sigmoid, relu
    regard:top_k=64                 the 64 best keys of each row
    regard:entmax=1.3               entmax with this alpha
    regard:softmax,window=1024      and a sliding window on top of the model's mask
    regard:softmax,backend=chunked  by this backend, as in attend(backend=)
    """
    head, colon, rest = name.partition(":")
    if head != PREFIX or (colon and not rest):
        raise ValueError(f"{name!r} is no attention of Regard: expected 'regard' or 'regard:entmax15,window=1024'.")
    align: Alignment | None = None
    window: int | None = None
    backend = "auto"
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if key == "window" and equals:
            window = _count(name, key, value)
        elif key == "backend" and value:
            backend = value
        elif align is not None:
            raise ValueError(f"{name!r} names two alignments: keep one of them.")
        elif key == "top_k" and equals:
            align = TopK(_count(name, key, value))
        elif key == "entmax" and equals:
            align = Entmax(_alpha(name, value))
        elif key in _PLAIN and not equals:
            align = _PLAIN[key]()
        else:
            raise ValueError(f"{name!r}: {part!r} is unknown{_nearest(key)}. {_EXPECTED}")
    return NamedAttention(name, align or Softmax(), window, backend)


_EXPECTED = (
    f"Expected one of {', '.join(_PLAIN)}, top_k=64 or entmax=1.3, and after a comma window=1024 or backend=chunked."
)


def _nearest(key: str) -> str:
    close = get_close_matches(key, [*_PLAIN, *_WITH_VALUE], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _count(name: str, key: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"{name!r}: {key}={value!r}, expected a whole number from 1, such as {key}=64.")
    return int(value)


def _alpha(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name!r}: entmax={value!r}, expected a number such as entmax=1.3.") from None
