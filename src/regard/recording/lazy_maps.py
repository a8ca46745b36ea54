"""Maps by site that are put together when they are first asked for."""

from collections.abc import Callable, Iterator
from typing import Any

from ..core.maps.attention_map import AttentionMap


class LazyMaps(dict[str, AttentionMap]):
    """A dict whose values may be waiting: put_later(name, make) has make() called once, by the first who reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._makers: dict[str, Callable[[], AttentionMap]] = {}

    def put_later(self, name: str, make: Callable[[], AttentionMap]) -> None:
        super().__setitem__(name, None)  # type: ignore[assignment]
        self._makers[name] = make

    def made(self, name: str, amap: AttentionMap) -> None:
        """A map was made: it is told its name."""
        amap.site = name

    def __setitem__(self, name: str, amap: AttentionMap) -> None:
        self._makers.pop(name, None)
        super().__setitem__(name, amap)

    def __getitem__(self, name: str) -> AttentionMap:
        make = self._makers.get(name)
        if make is not None:
            amap = make()
            self.made(name, amap)
            self[name] = amap
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 it is what get is

    def items(self) -> Iterator[tuple[str, AttentionMap]]:  # type: ignore[override]
        return ((name, self[name]) for name in list(self))

    def values(self) -> Iterator[AttentionMap]:  # type: ignore[override]
        return (self[name] for name in list(self))
