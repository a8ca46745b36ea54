"""Origins that are worked out when a normalisation asks: until then the arguments of functions are noted.

Nearly every function of a model passes something on whose origin nobody will ever ask for, so what is done for each
must be little. Tensors are noted by a weak reference, shape and type; to work an origin out, tensors of that shape
without memory stand in for them.
"""

from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from .arguments import tensors_in, tensors_out
from .origins import MADE, UNKNOWN, Origin, Origins

DEEPEST = 64  # notes in a row; what is further back counts as an activation
NONE: dict[str, Any] = {}  # of arguments by name
NEAR = 12  # of them stay where a row becomes too long
MOST = 512  # notes of tensors, dead ones among them


class Past:
    """A tensor that was an argument, of which nothing was known."""

    __slots__ = ("dtype", "found", "shape")

    def __init__(self, found: Any, shape: torch.Size, dtype: torch.dtype):
        self.found, self.shape, self.dtype = found, shape, dtype


class Note(Past):
    """An output, and the call that it came from: its arguments as notes, or as they were."""

    __slots__ = ("args", "at", "depth", "func", "kwargs", "name", "origin", "shapes")

    def __init__(
        self,
        found: Any,
        shape: torch.Size,
        dtype: torch.dtype,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        depth: int,
    ):
        self.found, self.shape, self.dtype = found, shape, dtype
        self.name, self.func, self.args, self.kwargs, self.depth = name, func, args, kwargs, depth
        self.at = 0
        self.shapes: list[torch.Size] | None = None  # of all outputs, where there are several
        self.origin: Origin | None = None


class Resolved(Note):
    """An output whose origin is known as it is made; how is not kept."""

    __slots__ = ()

    def __init__(self, found: Any, shape: torch.Size, dtype: torch.dtype, origin: Origin):
        self.found, self.shape, self.dtype, self.origin, self.depth = found, shape, dtype, origin, 1


OF_LAYERS = [Origin(frozenset({axes - 1})) for axes in range(1, 9)]  # outputs x @ W^T by their number of axes


class LazyOrigins(Origins):
    """By tensor, held weakly."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: dict[int, Note] = {}

    def of(self, x: Any) -> Origin:
        note = self._notes.get(id(x))
        if note is None or note.found() is not x:
            return UNKNOWN
        return self._worked_out(note) if note.origin is None else note.origin

    def known(self, x: Any) -> bool:
        note = self._notes.get(id(x))
        return note is not None and note.found() is x

    def put(self, x: Tensor, origin: Origin) -> None:
        note = self._notes[id(x)] = Note(ref(x), x.shape, x.dtype, "", None, (), {}, 1)
        note.origin = origin

    def see(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        if type(out) is not Tensor or kwargs:
            self._see_any(name, func, args, kwargs, out)
            return
        dtype = out.dtype
        if not dtype.is_floating_point:
            return
        notes, depth, light = self._notes, -1 if name not in MADE else 0, list[Any]()
        for x in args:
            kind = type(x)
            if kind is Tensor:
                note = notes.get(id(x))
                if note is not None and note.found() is x:
                    light.append(note)
                    depth = max(depth, note.depth)
                else:
                    light.append(Past(ref(x), x.shape, x.dtype))
            elif kind is nn.Parameter:
                light.append(x)
                depth = max(depth, 0)
            elif kind is list or kind is tuple or isinstance(x, Tensor):
                self._see_any(name, func, args, kwargs, out)
                return
            else:
                light.append(x)
        if depth < 0:
            return  # nothing is known of what it was given
        if depth >= DEEPEST:
            depth -= _shorten(light, {})
        notes[id(out)] = Note(ref(out), out.shape, dtype, name, func, light, kwargs, depth + 1)
        if len(notes) > MOST:
            self._forget()

    def see_linear(self, func: Any, args: tuple[Any, ...], out: Tensor) -> None:
        """x @ W^T of a parameter, the same in less time: x alone may be known."""
        x = args[0]
        note, depth = self._notes.get(id(x)), 0
        before: Past | None = note
        shape = out.shape
        axes = len(shape)
        plain = OF_LAYERS[axes - 1] if 0 < axes < 9 else None
        unknown = note is None or note.found() is not x
        if plain is not None and (unknown or (note is not None and note.origin is plain)):
            self._notes[id(out)] = Resolved(ref(out), shape, out.dtype, plain)
            if len(self._notes) > MOST:
                self._forget()
            return
        if note is None or unknown:
            before = Past(ref(x), x.shape, x.dtype)
        else:
            depth = note.depth
            if depth >= DEEPEST:
                depth -= _shorten((note,), {})
        self._notes[id(out)] = Note(ref(out), out.shape, out.dtype, "linear", func, (before, args[1]), NONE, depth + 1)
        if len(self._notes) > MOST:
            self._forget()

    def _see_any(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """The same of several outputs, of lists among the arguments, and of arguments by name."""
        made = tensors_out(out)
        if not made or not made[0].dtype.is_floating_point:
            return
        given = [x for _, x in tensors_in(args, kwargs)]
        depths = [self._notes[id(x)].depth for x in given if self.known(x)]
        if not depths and name not in MADE and not any(isinstance(x, nn.Parameter) for x in given):
            return
        depth = max(depths, default=0)
        light, named = self._listed(list(args)), {key: self._listed([x])[0] for key, x in kwargs.items()}
        if depth >= DEEPEST:
            depth -= _shorten(light, named)
        shapes = None if out is made[0] else [y.shape for y in made]
        for at, y in enumerate(made):
            note = self._notes[id(y)] = Note(ref(y), y.shape, y.dtype, name, func, light, named, depth + 1)
            note.at, note.shapes = at, shapes
        self._forget()

    def _forget(self) -> None:
        if len(self._notes) > MOST:
            self._notes = {key: note for key, note in self._notes.items() if note.found() is not None}

    def _listed(self, given: Any) -> Any:
        light = list[Any]()
        for x in given:
            if isinstance(x, Tensor) and not isinstance(x, nn.Parameter):
                note = self._notes.get(id(x))
                known = note is not None and note.found() is x
                light.append(note if known else Past(ref(x), x.shape, x.dtype))
            else:
                light.append(self._listed(x) if isinstance(x, (list, tuple)) and x else x)
        return light if isinstance(given, list) else tuple(light)

    def _worked_out(self, note: Note) -> Origin:
        scratch = Origins()
        scratch._constants, scratch._written = self._constants, self._written
        waiting = [note]
        while waiting:
            last = waiting[-1]
            before = (
                [] if last.origin is not None else [x for x in _notes_in(last.args, last.kwargs) if x.origin is None]
            )
            waiting += before
            if not before:
                if last.origin is None:
                    last.origin = UNKNOWN  # where this fails it is not tried again
                    last.origin = _origin(last, scratch)
                    last.args = last.kwargs = ()  # they are asked for no more
                waiting.pop()
        assert note.origin is not None
        return note.origin


def _shorten(args: Any, kwargs: Any) -> int:
    """Let go of the far end of the rows of notes that lead to these arguments; by how much they are shorter then."""
    far = DEEPEST - NEAR
    near: dict[int, Note] = {}
    waiting = _notes_in(args, kwargs)
    while waiting:
        note = waiting.pop()
        if id(note) not in near and note.depth > far:
            near[id(note)] = note
            waiting += _notes_in(note.args, note.kwargs)
    for note in near.values():
        note.args = [_cut(x, near) for x in note.args]
        note.kwargs = {key: _cut(x, near) for key, x in note.kwargs.items()} if note.kwargs else {}
    for note in near.values():
        note.depth -= far
    return far


def _cut(x: Any, near: dict[int, Note]) -> Any:
    if type(x) is Note and id(x) not in near:
        return Past(x.found, x.shape, x.dtype)
    return type(x)(_cut(y, near) for y in x) if type(x) in (list, tuple) else x


def _notes_in(args: Any, kwargs: Any) -> list[Note]:
    given = (*args, *(kwargs.values() if kwargs else ()))
    return [y for x in given for y in (x if isinstance(x, (list, tuple)) else (x,)) if type(y) is Note]


def _origin(note: Note, scratch: Origins) -> Origin:
    held: list[Tensor] = []  # the table of origins holds its tensors weakly
    args = tuple(_stand_in(x, scratch, held) for x in note.args)
    kwargs = {key: _stand_in(x, scratch, held) for key, x in note.kwargs.items()}
    shapes = [note.shape] if note.shapes is None else note.shapes
    outs = [torch.empty(shape, dtype=note.dtype, device="meta") for shape in shapes]
    scratch.see(note.name, note.func, args, kwargs, outs[0] if note.shapes is None else outs)
    return scratch.of(outs[note.at])


def _stand_in(x: Any, scratch: Origins, held: list[Tensor]) -> Any:
    if isinstance(x, Past):
        known = x.origin if isinstance(x, Note) else None
        if known is None:
            alive: Any = x.found()
            if alive is not None and alive.shape == x.shape:
                return alive
        held.append(torch.empty(x.shape, dtype=x.dtype, device="meta"))
        if known is not None:
            scratch.put(held[-1], known)
        return held[-1]
    if isinstance(x, list):
        return [_stand_in(y, scratch, held) for y in x]
    return tuple(_stand_in(y, scratch, held) for y in x) if type(x) is tuple else x
