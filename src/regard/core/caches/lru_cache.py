"""A bounded LRU cache that admits a key at its second request."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Entry(Generic[V]):
    __slots__ = ("last_used", "value")

    def __init__(self, value: V, last_used: int):
        self.value, self.last_used = value, last_used


class LruCache(Generic[K, V]):
    """`capacity` values by key; when full, the least recently used eighth is evicted.

    A key is admitted at its second request: decoding with a growing KV cache requests a new key at every step, which
    must not evict reused entries. The last `candidates` keys requested once are remembered, without a value.
    An entry holds its time of use, so that a hit hashes its key once: hashing the key of a call takes a microsecond.
    Single operations are thread-safe; two threads may both compute the value of a key, and the later one stays.
    """

    def __init__(self, capacity: int = 1024, candidates: int = 256):
        self.capacity, self.candidates = capacity, candidates
        self._entries: dict[K, _Entry[V]] = {}
        self._seen_once: dict[K, None] = {}
        self._clock = 0

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._clock = entry.last_used = self._clock + 1
        return entry.value

    def admits(self, key: K) -> bool:
        """Whether to compute a value for this key: it was requested before."""
        if key in self._seen_once:
            self._seen_once.pop(key, None)
            return True
        for oldest in list(self._seen_once)[: max(0, len(self._seen_once) + 1 - self.candidates)]:
            self._seen_once.pop(oldest, None)
        self._seen_once[key] = None
        return False

    def put(self, key: K, value: V) -> None:
        if key not in self._entries and len(self._entries) >= self.capacity:
            by_age = sorted(self._entries.copy().items(), key=lambda item: item[1].last_used)
            for oldest, _ in by_age[: max(1, self.capacity // 8)]:
                self._entries.pop(oldest, None)
        self._clock += 1
        self._entries[key] = _Entry(value, self._clock)

    def clear(self) -> None:
        self._entries.clear()
        self._seen_once.clear()

    def values(self) -> list[V]:
        return [entry.value for entry in self._entries.copy().values()]

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries.copy())

    def __len__(self) -> int:
        return len(self._entries)
