"""A paged KV cache: keys and values of many sequences in pages of one pool, indexed by block tables."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.arguments import checked, is_whole, shown
from ..core.errors import Refused
from ..core.structures import Causal, Full, Padding, Structure, Window, structure_of
from ..core.structures.placed_band import PlacedBand
from .kv_cache import Cache


class PagedCache:
    """The keys and values of many sequences of one attention layer, in pages allocated as sequences grow.

        pool = PagedCache(pages=256, page_size=16)
        a, b = pool.begin(), pool.begin()
        attention(prompt[None], over=Causal("end"), cache=pool.of([a]))       # prompts of their own lengths
        attention(other[None], over=Causal("end"), cache=pool.of([b]))
        attention(tokens, over=Causal("end"), cache=pool.of([a, b]))          # (2, 1, dim): both, one step further
        pool.release(a)                                                       # its pages are free again

    keys (pages, page_size, kv_heads, d_k), values (pages, page_size, kv_heads, d_v), as vLLM and torch's varlen kernels
    have them; `block_tables(sequences)` (B, blocks) int32 and `lengths(sequences)` (B,) say which rows are whose.

    No memory is reserved for a sequence beyond its last page, and `fork` shares full pages. At each call the rows of
    the sequences are **gathered** into (B, kv_heads, longest, d): 2 B longest kv_heads (d_k + d_v) numbers are moved,
    on every backend; nothing is read in place. Inference only: gradients through a cache need a `Cache`.
    """

    @checked(pages=1, page_size=1)
    def __init__(self, pages: int, page_size: int = 16):
        self.pages, self.page_size = pages, page_size
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self._blocks: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._users = [0] * pages  # how many sequences hold a page
        self._next = 0

    @classmethod
    def holding(cls, keys: Tensor, values: Tensor, block_tables: Tensor, lengths: Tensor) -> "PagedCache":
        """Wraps an existing pool: sequences 0 to B - 1 are the rows of block_tables, of these lengths."""
        if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3]:
            raise ValueError(
                f"PagedCache.holding: keys {tuple(keys.shape)} and values {tuple(values.shape)}, expected (pages, "
                "page_size, kv_heads, width) alike but for the width."
            )
        made = cls(keys.shape[0], keys.shape[1])
        made.keys, made.values = keys, values
        if block_tables.ndim != 2 or lengths.shape != block_tables.shape[:1]:
            raise ValueError(
                f"PagedCache.holding: block_tables {tuple(block_tables.shape)} and lengths {tuple(lengths.shape)}, "
                "expected (sequences, blocks) and (sequences,)."
            )
        for row, length in zip(block_tables.tolist(), lengths.tolist(), strict=True):
            needed = -(-length // made.page_size)
            blocks = row[:needed]
            if length < 0 or len(blocks) < needed or any(not 0 <= page < made.pages for page in blocks):
                raise ValueError(
                    f"PagedCache.holding: a sequence of {length} rows has blocks {blocks}, expected {needed} pages "
                    f"from 0 to {made.pages - 1} of {made.page_size} rows."
                )
            sequence = made.begin()
            made._blocks[sequence], made._lengths[sequence] = blocks, length
            for page in blocks:
                made._users[page] += 1
        return made

    @property
    def free(self) -> int:
        """Number of free pages."""
        return self._users.count(0)

    def begin(self) -> int:
        """Starts a sequence; returns its id."""
        sequence, self._next = self._next, self._next + 1
        self._blocks[sequence], self._lengths[sequence] = [], 0
        return sequence

    def fork(self, sequence: int) -> int:
        """A copy of a sequence: full pages are shared, the last one is copied."""
        self._check([sequence])
        blocks, length = self._blocks[sequence], self._lengths[sequence]
        made, full = self.begin(), length // self.page_size
        self._blocks[made], self._lengths[made] = list(blocks[:full]), length
        for page in blocks[:full]:
            self._users[page] += 1
        if length > full * self.page_size:
            page = self._take(made)
            assert self.keys is not None and self.values is not None
            for pool in (self.keys, self.values):
                pool[page] = pool[blocks[full]]
        return made

    def release(self, sequence: int) -> None:
        """Ends a sequence and frees the pages that no other sequence shares."""
        self._check([sequence])
        for page in self._blocks.pop(sequence):
            self._users[page] -= 1
        del self._lengths[sequence]

    def truncate(self, sequence: int, length: int) -> None:
        """Drops all but the first `length` rows of a sequence (a rejected draft)."""
        self._check([sequence])
        if not is_whole(length) or not 0 <= length <= self._lengths[sequence]:
            raise ValueError(
                f"truncate(length={shown(length)}): sequence {sequence} has {self._lengths[sequence]} rows, expected 0 "
                "to that."
            )
        blocks, kept = self._blocks[sequence], -(-length // self.page_size)
        for page in blocks[kept:]:
            self._users[page] -= 1
        self._blocks[sequence], self._lengths[sequence] = blocks[:kept], length
        if kept and length % self.page_size and self._users[blocks[kept - 1]] > 1:  # copy on write
            shared, self._blocks[sequence] = blocks[kept - 1], blocks[: kept - 1]
            self._users[shared] -= 1
            page = self._take(sequence)
            assert self.keys is not None and self.values is not None
            for pool in (self.keys, self.values):
                pool[page] = pool[shared]

    def of(self, sequences: Sequence[int]) -> "PagedSequences":
        """The batch of these sequences: cache=pool.of([a, b]) of an attention layer; item i is sequences[i]."""
        chosen = [int(one) for one in sequences]
        self._check(chosen)
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"of({chosen}): a sequence is in the batch twice; fork(sequence) makes a copy.")
        return PagedSequences(self, chosen)

    def lengths(self, sequences: Sequence[int]) -> Tensor:
        """(B,) int32: the length of each sequence."""
        self._check(sequences)
        return torch.tensor([self._lengths[one] for one in sequences], dtype=torch.int32, device=self._device())

    def block_tables(self, sequences: Sequence[int]) -> Tensor:
        """(B, blocks) int32: the pages of each sequence in order; 0 behind its end, where `lengths` closes the rows."""
        self._check(sequences)
        rows = [self._blocks[one] for one in sequences]
        longest = max((len(row) for row in rows), default=0)
        padded = [row + [0] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.int32, device=self._device()).reshape(len(rows), longest)

    def gathered(self, sequences: Sequence[int]) -> tuple[Tensor, Tensor, Padding]:
        """keys (B, kv_heads, longest, d_k), values (..., d_v), and the padding behind shorter sequences: a copy."""
        if self.keys is None or self.values is None:
            raise ValueError("This cache is empty: append to a sequence first.")
        table, lengths = self.block_tables(sequences).long(), self.lengths(sequences)
        longest = max((self._lengths[one] for one in sequences), default=0)
        made = [x[table].flatten(1, 2)[:, :longest].transpose(1, 2) for x in (self.keys, self.values)]
        return made[0], made[1], Padding(lengths)

    def append(self, sequences: Sequence[int], keys: Tensor, values: Tensor) -> None:
        """n rows to the end of each sequence: keys (B, kv_heads, n, d_k), values (B, kv_heads, n, d_v)."""
        if torch.is_grad_enabled() and (keys.requires_grad or values.requires_grad):
            raise ValueError("A PagedCache keeps no gradients: call under torch.no_grad(), or use a Cache to train.")
        if keys.ndim != 4 or keys.shape[0] != len(sequences) or values.shape[:3] != keys.shape[:3]:
            raise ValueError(
                f"append: keys {tuple(keys.shape)} and values {tuple(values.shape)}, expected ({len(sequences)}, "
                "kv_heads, n, width), one item a sequence."
            )
        self._fit(keys, values)
        assert self.keys is not None and self.values is not None
        n, slots = keys.shape[2], []
        needed = sum(
            max(0, -(-(self._lengths[one] + n) // self.page_size) - len(self._blocks[one])) for one in sequences
        )
        if needed > self.free:
            raise RuntimeError(
                f"The cache has {self.free} free pages of {self.page_size} rows, {needed} are needed: "
                f"release(sequence) finished ones, or build it with more than pages={self.pages}."
            )
        for one in sequences:
            start = self._lengths[one]
            for place in range(start, start + n):
                if place // self.page_size == len(self._blocks[one]):
                    self._take(one)
                slots.append(self._blocks[one][place // self.page_size] * self.page_size + place % self.page_size)
            self._lengths[one] = start + n
        index = torch.tensor(slots, dtype=torch.long, device=keys.device)
        for pool, new in ((self.keys, keys), (self.values, values)):
            pool.view(-1, *pool.shape[2:]).index_copy_(0, index, new.transpose(1, 2).flatten(0, 1).detach())

    def _fit(self, keys: Tensor, values: Tensor) -> None:
        if self.keys is None or self.values is None:
            made = [x.new_zeros(self.pages, self.page_size, x.shape[1], x.shape[3]) for x in (keys, values)]
            self.keys, self.values = made
        for name, pool, new in (("keys", self.keys, keys), ("values", self.values, values)):
            alike = pool.dtype == new.dtype and pool.device == new.device
            if not alike or (pool.shape[2], pool.shape[3]) != (new.shape[1], new.shape[3]):
                raise ValueError(
                    f"The cache holds {name} of {pool.shape[2]} heads and width {pool.shape[3]} ({pool.dtype}, "
                    f"{pool.device}) and got {tuple(new.shape)} ({new.dtype}, {new.device}): each layer needs "
                    "its own cache."
                )

    def _take(self, sequence: int) -> int:
        try:
            page = self._users.index(0)
        except ValueError:
            raise RuntimeError(
                f"All {self.pages} pages are in use: release(sequence), or build the cache with more pages."
            ) from None
        self._users[page] = 1
        self._blocks[sequence].append(page)
        return page

    def _check(self, sequences: Sequence[int]) -> None:
        for one in sequences:
            if one not in self._blocks:
                raise KeyError(f"Sequence {one} is not in this cache: begin() gives a new one, release(...) ends it.")

    def _device(self) -> "torch.device | None":
        return None if self.keys is None else self.keys.device

    def __repr__(self) -> str:
        held = self.pages - self.free
        return f"PagedCache({len(self._blocks)} sequences, {held} of {self.pages} pages of {self.page_size} rows)"


class PagedSequences(Cache):
    """Sequences of a paged cache as the batch of one call; made by `PagedCache.of`."""

    def __init__(self, pool: PagedCache, sequences: list[int]):
        super().__init__()
        self.pool, self.sequences = pool, sequences

    @property
    def length(self) -> Any:
        """(B,), the length of each sequence."""
        return tuple(self.pool._lengths[one] for one in self.sequences)

    def start_of(self, n: int) -> Tensor:
        starts = self.pool.lengths(self.sequences).long()
        return starts[:, None, None] + torch.arange(n, device=starts.device)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.pool.append(self.sequences, keys, values)
        gathered = self.pool.gathered(self.sequences)
        return gathered[0], gathered[1]

    def structure(self, over: "Structure | str | None", n: int) -> Structure:
        """`over` within each sequence, aligned at its end."""
        lengths = self.pool.lengths(self.sequences)
        longest = max(self.length, default=0)
        made: Structure = Padding(lengths)
        for part in structure_of(over).parts():
            if type(part) is Full:
                continue
            causal = type(part) is Causal and part.align == "end"
            window = type(part) is Window and part.align == "end" and part.grid is None and part.dilation == 1
            if not causal and not window:
                raise Refused(
                    f'over={part} with a paged cache: expected Full(), Causal("end"), Window(..., align="end") or '
                    "these joined with &; sequences differ in length, so they are aligned at the end."
                )
            if causal and n == 1:
                continue  # a single new row attends every key
            places = lengths.long()[:, None] - n + torch.arange(n, device=lengths.device)
            left, right = (None, 0) if causal else (part.left, part.right)  # type: ignore[attr-defined]
            made = made & PlacedBand(places, torch.arange(longest, device=lengths.device), left, right)
        return made

    def truncate(self, length: Any) -> None:
        lengths = length if isinstance(length, (tuple, list)) else [length] * len(self.sequences)
        for one, size in zip(self.sequences, lengths, strict=True):
            self.pool.truncate(one, size)

    def reset(self) -> None:
        self.truncate(0)

    def reorder(self, index: Tensor) -> None:
        raise Refused(
            "reorder(index) of a paged cache: fork(sequence) the beams that survive, release(...) the others."
        )

    def copy(self) -> "PagedSequences":
        return PagedSequences(self.pool, [self.pool.fork(one) for one in self.sequences])

    def __repr__(self) -> str:
        return f"PagedSequences({self.sequences} of {self.pool!r})"
