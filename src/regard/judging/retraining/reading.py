"""What a trained model says of every example, and where it looks: all that judges need of it afterwards."""

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.files import read_arrays
from regard.recording.io.writing import write_whole

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class TrainedReadout:
    """By part: said (N, classes) probabilities, weights (n,) of each example. kept: the epoch whose model this is.

    more   what else was measured of the model while it was there, by name
    """

    said: dict[str, np.ndarray]
    weights: dict[str, list[np.ndarray]]
    kept: int = 0
    more: dict[str, np.ndarray] = field(default_factory=dict)

    def classes(self, part: str = "test") -> np.ndarray:
        """(N,): the class that is said."""
        found: np.ndarray = self.said[part].argmax(-1)
        return found

    def save(self, path: Path) -> None:
        table = {"kept": np.asarray(self.kept), "names": np.asarray(sorted(self.more), dtype=np.str_)}
        for part in PARTS:
            table[f"said.{part}"] = self.said[part]
            table[f"weights.{part}"] = np.concatenate([np.zeros(0), *self.weights[part]]).astype(np.float32)
            table[f"lengths.{part}"] = np.asarray([len(one) for one in self.weights[part]], dtype=np.int64)
        held = io.BytesIO()
        np.savez_compressed(held, **table, **{f"more.{name}": x for name, x in self.more.items()})  # type: ignore[arg-type]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, [held.getvalue()])

    @classmethod
    def load(cls, path: Path) -> "TrainedReadout":
        names = read_arrays(path, ("names",))["names"].tolist()
        wanted = [f"{kind}.{part}" for kind in ("said", "weights", "lengths") for part in PARTS]
        found = read_arrays(path, ("kept", *wanted, *(f"more.{name}" for name in names)))
        weights = {
            part: np.split(found[f"weights.{part}"].astype(np.float64), found[f"lengths.{part}"].cumsum()[:-1])
            for part in PARTS
        }
        said = {part: found[f"said.{part}"] for part in PARTS}
        return cls(said, weights, int(found["kept"]), {name: found[f"more.{name}"] for name in names})
