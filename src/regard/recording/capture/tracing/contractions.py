"""Products of torch in one form: a letter for each axis of each operand, and the letters of the output.

    torch.bmm(a, b)      a: (b, i, k)   b: (b, k, j)   ->   (b, i, j)

Letters that stand in no output are summed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .arguments import Place, argument, tensors_in

Letters = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor of a product, where it stands among the arguments, and a letter for each of its axes."""

    place: Place
    tensor: Tensor
    letters: Letters

    def long(self) -> set[Any]:
        """The letters of axes that are not of length one, which broadcast."""
        return {letter for letter, size in zip(self.letters, self.tensor.shape, strict=True) if size != 1}


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product: what goes in, and the letters of what comes out."""

    operands: tuple[Operand, ...]
    out: Letters


RANK = {"input": 0, "self": 0, "x": 0, "tensor": 0, "mat": 0, "a": 0, "mat1": 1, "batch1": 1, "other": 2, "mat2": 2,
        "batch2": 2, "vec": 2, "vec2": 2, "tensor2": 2, "weight": 2, "y": 2, "b": 2, "bias": 3}  # fmt: skip


def _ordered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Place, Tensor]]:
    """By position and name, as the function is defined."""
    found = [(place, x) for place, x in tensors_in(args, kwargs) if place[0] != "out"]
    return sorted(found, key=lambda item: item[0][0] if isinstance(item[0][0], int) else RANK.get(item[0][0], 9))


def _matmul(a: Tensor, b: Tensor) -> tuple[Letters, Letters, Letters] | None:
    def lead(x: Tensor) -> Letters:
        return tuple(("batch", i) for i in reversed(range(max(0, x.ndim - 2))))

    left = ("k",) if a.ndim == 1 else (*lead(a), "i", "k")
    right = ("k",) if b.ndim == 1 else (*lead(b), "k", "j")
    if not a.ndim or not b.ndim:
        return None
    longest = max(lead(a), lead(b), key=len)
    return left, right, (*longest, *(("i",) if a.ndim > 1 else ()), *(("j",) if b.ndim > 1 else ()))


def _two(form: Callable[[Tensor, Tensor], "tuple[Letters, Letters, Letters] | None"], skip: int = 0) -> Any:
    """Of the first two operands, or of the second and third where the first is added."""

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
        found = _ordered(args, kwargs)[skip : skip + 2]
        if len(found) < 2:
            return None
        (at, a), (other, b) = found
        made = form(a, b)
        return None if made is None else Contraction((Operand(at, a, made[0]), Operand(other, b, made[1])), made[2])

    return read


def _rmatmul(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    made = _matmul(args[1], args[0])
    return (
        None
        if made is None
        else Contraction((Operand((1,), args[1], made[0]), Operand((0,), args[0], made[1])), made[2])
    )


def _addbmm(a: Tensor, b: Tensor) -> tuple[Letters, Letters, Letters]:
    return ("batch", "i", "k"), ("batch", "k", "j"), ("i", "j")


def _linear(a: Tensor, b: Tensor) -> tuple[Letters, Letters, Letters] | None:
    rows = tuple(("row", i) for i in range(a.ndim - 1))
    return ((*rows, "k"), ("j", "k")[2 - b.ndim :], (*rows, *(("j",) if b.ndim == 2 else ()))) if a.ndim else None


def _inner(a: Tensor, b: Tensor) -> tuple[Letters, Letters, Letters] | None:
    if not a.ndim or not b.ndim:
        return None
    rows, columns = tuple(("row", i) for i in range(a.ndim - 1)), tuple(("column", i) for i in range(b.ndim - 1))
    return (*rows, "k"), (*columns, "k"), (*rows, *columns)


def _outer(a: Tensor, b: Tensor) -> tuple[Letters, Letters, Letters] | None:
    return (("i",), ("j",), ("i", "j")) if a.ndim == b.ndim == 1 else None


def _tensordot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    found = _ordered(args, kwargs)[:2]
    dims = argument(args, kwargs, 2, "dims", default=2)
    if len(found) < 2 or isinstance(dims, Tensor):
        return None
    (at, a), (other, b) = found
    ours, theirs = (range(a.ndim - dims, a.ndim), range(dims)) if isinstance(dims, int) else dims
    ours, theirs = ([ours] if isinstance(ours, int) else ours), ([theirs] if isinstance(theirs, int) else theirs)
    left: list[Any] = [("row", i) for i in range(a.ndim)]
    right: list[Any] = [("column", i) for i in range(b.ndim)]
    for n, (i, j) in enumerate(zip(ours, theirs, strict=True)):
        left[i] = right[j] = ("k", n)
    out = [letter for letter in left + right if letter[0] != "k"]
    return Contraction((Operand(at, a, tuple(left)), Operand(other, b, tuple(right))), tuple(out))


def _vecdot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    found = _ordered(args, kwargs)[:2]
    if len(found) < 2:
        return None
    (at, a), (other, b) = found
    wide = max(a.ndim, b.ndim)
    dim = int(argument(args, kwargs, 2, "dim", default=-1)) % wide
    names = tuple("k" if i == dim else ("batch", i) for i in range(wide))
    left, right = names[wide - a.ndim :], names[wide - b.ndim :]
    return Contraction((Operand(at, a, left), Operand(other, b, right)), tuple(x for x in names if x != "k"))


def _chain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    found = _ordered(args, kwargs)
    if any(x.ndim > 2 or not x.ndim for _, x in found):
        return None
    operands = []
    for i, (place, x) in enumerate(found):
        one = (i + 1,) if i == 0 and x.ndim == 1 else (i,)
        operands.append(Operand(place, x, (i, i + 1) if x.ndim == 2 else one))
    out = tuple(n for n in (0, len(found)) if any(n in operand.letters for operand in operands))
    return Contraction(tuple(operands), out)


def _einsum(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    found = list(tensors_in(args, kwargs))
    equation = args[0] if args else kwargs.get("equation")
    if isinstance(equation, str):
        left, arrow, right = re.sub(r"\s", "", equation).partition("->")
        terms: list[list[Any]] = [re.findall(r"\.\.\.|.", term) for term in left.split(",")]
        out: list[Any] | None = re.findall(r"\.\.\.|.", right) if arrow else None
    else:
        terms = [
            ["..." if x is Ellipsis else x for x in term] for term in args[1::2] if isinstance(term, (list, tuple))
        ]
        out = ["..." if x is Ellipsis else x for x in args[-1]] if len(args) % 2 else None
        found = [((i,), x) for i, x in enumerate(args) if isinstance(x, Tensor)]
    if len(terms) != len(found):
        return None
    if out is None:
        letters = [x for term in terms for x in term if x != "..."]
        out = ["..."] * any("..." in term for term in terms) + sorted(x for x in set(letters) if letters.count(x) == 1)
    longest = max(
        (x.ndim - len(term) + 1 for term, (_, x) in zip(terms, found, strict=True) if "..." in term), default=0
    )

    def spelt(term: list[Any], wide: int) -> Letters:
        many = [("...", i) for i in reversed(range(wide))]
        return tuple(y for x in term for y in (many if x == "..." else [x]))

    operands = []
    for term, (place, x) in zip(terms, found, strict=True):
        made = spelt(term, x.ndim - len(term) + 1)
        if len(made) != x.ndim or len(set(made)) != len(made):
            return None
        operands.append(Operand(place, x, made))
    return Contraction(tuple(operands), spelt(out, longest))


_PRODUCT = _two(_matmul)
_ADDED = _two(_matmul, skip=1)
READERS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Contraction | None]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "smm"), _PRODUCT),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "sparse_addmm", "sspaddmm", "hspmm"), _ADDED),
    "rmatmul": _rmatmul,
    "addbmm": _two(_addbmm, skip=1),
    "linear": _two(_linear),
    "inner": _two(_inner),
    **dict.fromkeys(("outer", "ger"), _two(_outer)),
    "tensordot": _tensordot,
    "vecdot": _vecdot,
    "multi_dot": _chain,
    "chain_matmul": _chain,
    "einsum": _einsum,
}


def contraction(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Contraction | None:
    """The product that this call is; None where its form cannot be read."""
    reader = READERS.get(name)
    if reader is None:
        return None
    try:
        return reader(args, kwargs)
    except (IndexError, ValueError, TypeError):  # torch itself says what is wrong with such a call
        return None
