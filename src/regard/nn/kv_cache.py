"""KV cache: keys and values of the steps so far, for decoding one step at a time."""

import torch
from torch import Tensor

from ..core.arguments import checked, is_whole, shown
from ..core.structures import Structure


class Cache:
    """The keys and values of the steps so far, for one attention layer.

        cache = Cache()
        for token in tokens:                                     # (B, 1, dim)
            out, amap = attention(token, over=Causal(align="end"), cache=cache)

    keys (..., kv_heads, length, d_k), values (..., kv_heads, length, d_v); one cache a layer.

    A map of an earlier step stays valid: memory that a map reads is never overwritten. Appending writes only behind the
    last step (the buffer doubles, or has `room` positions from the start); after `truncate` or `reorder` the next
    append allocates new memory. Where gradients are recorded, and under torch.compile, each append is a
    concatenation, so that backward through all steps works.
    """

    @checked(room=0)
    def __init__(self, room: int = 0):
        self.room = room
        self.closed = False
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self._buffers: tuple[Tensor, Tensor] | None = None  # keys and values are their first `length` rows
        self._evicted = 0

    @classmethod
    def holding(cls, keys: Tensor, values: Tensor) -> "Cache":
        """A closed cache: a fixed memory (`Attention.remember`)."""
        made = cls()
        made.keys, made.values, made.closed = keys, values, True
        return made

    @property
    def length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[-2]

    @property
    def position(self) -> int:
        """Position of the next step: the number of steps appended so far, evicted ones included."""
        return self.length + self._evicted

    def start_of(self, n: int) -> "int | Tensor":
        """Positions of the next n rows: that of the first, or (..., 1, n) where sequences differ."""
        return self.position

    def structure(self, over: "Structure | str | None", n: int) -> "Structure | str | None":
        """`over` for n queries and all cached keys."""
        return over

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds steps at the end; returns all keys and all values."""
        if self.closed:
            raise ValueError(
                "This cache is closed: it holds a fixed memory made by Attention.remember(...). "
                "For a cache that grows write Cache()."
            )
        for name, x in (("keys", keys), ("values", values)):
            if not isinstance(x, Tensor) or x.ndim < 2:
                raise TypeError(f"append({name}={shown(x)}): expected a tensor (..., kv_heads, steps, width).")
        self._check("keys", self.keys, keys)
        self._check("values", self.values, values)
        parts = [x for x in (self.keys, self.values, keys, values) if x is not None]
        recorded = torch.is_grad_enabled() and any(x.requires_grad for x in parts)
        if recorded or torch.compiler.is_compiling():
            if self.keys is not None and self.values is not None:
                keys, values = torch.cat([self.keys, keys], -2), torch.cat([self.values, values], -2)
            self.keys, self.values, self._buffers = keys, values, None
        else:
            self._write(keys, values)
        assert self.keys is not None and self.values is not None
        return self.keys, self.values

    def _check(self, name: str, kept: Tensor | None, new: Tensor) -> None:
        if kept is None:
            return
        alike = kept.dtype == new.dtype and kept.device == new.device
        if not alike or kept.shape[:-2] != new.shape[:-2] or kept.shape[-1] != new.shape[-1]:
            raise ValueError(
                f"The cache holds {name} {tuple(kept.shape)} ({kept.dtype}, {kept.device}) and got "
                f"{tuple(new.shape)} ({new.dtype}, {new.device}): all but the length must agree from step to step. "
                "Each layer needs its own cache; reset() empties one; reorder(index) follows a change of the batch."
            )

    def _write(self, keys: Tensor, values: Tensor) -> None:
        start = self.length
        stop = start + keys.shape[-2]
        buffers = self._buffers
        inference = torch.is_inference_mode_enabled()
        if buffers is None or stop > buffers[0].shape[-2] or buffers[0].is_inference() != inference:
            size = max(self.room, 2 * stop, 16)
            buffers = (_grown(self.keys, keys, size), _grown(self.values, values, size))
        for buffer, new in zip(buffers, (keys, values), strict=True):
            # .data keeps the version: no map and no backward reads these positions yet.
            buffer.data[..., start:stop, :] = new
        self._buffers = buffers
        self.keys, self.values = buffers[0][..., :stop, :], buffers[1][..., :stop, :]

    def truncate(self, length: int) -> None:
        """Drops all but the first `length` steps (a rejected draft); maps of dropped steps stay valid."""
        if not is_whole(length) or not 0 <= length <= self.length:
            raise ValueError(
                f"truncate(length={shown(length)}): the cache holds {self.length} steps, expected 0 to that."
            )
        if self.keys is not None and self.values is not None and length < self.length:
            self.keys, self.values = self.keys[..., :length, :], self.values[..., :length, :]
            self._buffers = None

    def keep(self, index: Tensor) -> None:
        """KV-cache eviction: keeps only the indexed keys. Maps of earlier steps stay valid.

        index   the steps to keep, (kept,) for all items and heads, or (..., kv_heads, kept) for each of
                them; rotary positions of later steps are unaffected
        """
        whole = isinstance(index, Tensor) and not index.is_floating_point() and index.dtype != torch.bool
        if self.keys is None or self.values is None or self.closed:
            raise ValueError("keep(index) needs a growing cache that is not empty.")
        if not whole or (index.ndim != 1 and index.shape[:-1] != self.keys.shape[:-2]):
            raise ValueError(
                f"keep(index={shown(index)}): expected whole numbers (kept,) or {tuple(self.keys.shape[:-2])} + (kept,)"
                ", for example received.topk(64, -1).indices.sort(-1).values."
            )
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < self.length:
            raise ValueError(f"keep(index): the cache holds {self.length} steps, expected 0 to {self.length - 1}.")
        line = index.expand(*self.keys.shape[:-2], -1)[..., None]
        self._evicted += self.length - line.shape[-2]
        self.keys, self.values = (
            x.gather(-2, line.expand(*line.shape[:-1], x.shape[-1])) for x in (self.keys, self.values)
        )
        self._buffers = None

    def reset(self) -> None:
        """Empties the cache; the next append may have another batch size."""
        self.keys = self.values = self._buffers = None
        self._evicted = 0

    def reorder(self, index: Tensor) -> None:
        """Item b of the batch becomes item index[b]: surviving beams in their new order; repeats are allowed."""
        if not isinstance(index, Tensor) or index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
            raise TypeError("reorder(index) takes a 1-D integer tensor: the old index of each item, in the new order.")
        if self.keys is None or self.values is None:
            return
        if self.keys.ndim < 4:
            raise ValueError(f"reorder(index) selects items of a batch, but keys {tuple(self.keys.shape)} have none.")
        self.keys, self.values = self.keys.index_select(0, index), self.values.index_select(0, index)
        self._buffers = None

    def copy(self) -> "Cache":
        """A second cache with the same past; the two grow apart."""
        made = Cache(self.room)
        made.keys, made.values, made.closed = self.keys, self.values, self.closed
        made._evicted = self._evicted
        return made

    def __repr__(self) -> str:
        shape = "" if self.keys is None else f", keys={tuple(self.keys.shape)}"
        return f"Cache(length={self.length}{shape}{', closed' if self.closed else ''})"


def _grown(kept: Tensor | None, new: Tensor, size: int) -> Tensor:
    """A buffer for `size` steps that starts with the cached ones."""
    made = torch.empty((*new.shape[:-2], size, new.shape[-1]), dtype=new.dtype, device=new.device)
    if kept is not None:
        made[..., : kept.shape[-2], :] = kept.detach()
    return made
