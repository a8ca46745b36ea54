"""What was judged before: each test that is done stands in a file, and is read where nothing has changed since."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..recording.io.writing import bytes_of, write_whole
from .adapters.adapter import Adapter

FOLDER = "tests"
STATISTICS = 4  # raised when the same model, data and seed are judged by other statistics: what was kept is judged anew
LARGEST = 512_000_000  # bytes of a file that is read


def configuration(adapter: Adapter, seed: int, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the bits of a report follow from, and what it is called; no time and no place is in it."""
    import numpy
    import scipy

    from .. import __version__

    selector = adapter.selector
    return {
        **about,
        **({"caution": adapter.caution} if adapter.caution else {}),
        "instances": len(adapter),
        "unit": adapter.called_instances,
        **({"cut": cut} if (cut := sum(one.truncated for one in adapter.instances)) else {}),
        "seed": seed,
        "look": {"sites": selector.sites, "layer": selector.layer, "row": selector.row, "judged": adapter.judged},
        "removal": adapter.removal if selector.tokens else "delete",
        "blank": adapter.blank,
        "batch": adapter.size,
        "classes": list(adapter.names),
        "trivial": sorted(adapter.trivial),
        "model class": type(adapter.model).__name__,
        "weights": weights_hash(adapter.model),
        "data hash": data_hash(adapter),
        "device": adapter.device.type,
        "versions": {
            "regard": __version__,
            "statistics": STATISTICS,
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
    }


def weights_hash(model: nn.Module) -> str:
    """The same for the same parameters and buffers under the same names."""
    digest = hashlib.sha256()
    for name, x in sorted(model.state_dict().items()):
        if isinstance(x, Tensor):
            digest.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
            digest.update(bytes_of(x).data)
    return digest.hexdigest()


def data_hash(adapter: Adapter) -> str:
    """The same for the same instances in the same order, and the same trivial answers to them."""
    digest = hashlib.sha256(json.dumps(adapter.trivial, sort_keys=True).encode())
    for place, one in enumerate(adapter.instances):
        digest.update(json.dumps([one.label, one.words, one.name, one.total]).encode())
        for x in adapter.content(place):
            digest.update(b"-" if x is None else f"{x.dtype} {tuple(x.shape)}\n".encode() + bytes_of(x).tobytes())
    return digest.hexdigest()


class ResultCache:
    """Finished tests in a folder, by name; each file is written whole or not at all.

    A file that was made under another configuration, or that cannot be read, is as if it were not there.
    """

    def __init__(self, folder: "Path | None", about: Mapping[str, Any]):
        self.folder = None if folder is None else folder / FOLDER
        self.key = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()

    def read(self, name: str) -> Any:
        """What was kept under this name; None where nothing was."""
        if self.folder is None:
            return None
        path = self.folder / f"{name}.json"
        try:
            if path.stat().st_size > LARGEST:
                return None
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found.get("kept") if isinstance(found, dict) and found.get("key") == self.key else None

    def write(self, name: str, what: Any) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"key": self.key, "kept": what}, ensure_ascii=False, allow_nan=False)
            write_whole(self.folder / f"{name}.json", [text.encode()])
