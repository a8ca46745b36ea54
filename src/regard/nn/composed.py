"""What a composition returns: its output, and every step of attention it took, by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from ..core.attend import Attended, Sample
from ..core.maps.attention_map import AttentionMap
from ..core.torch_private import register_dataclass


@dataclass(eq=False)
class Composed:
    """out, and the steps that led to it; `out, maps = module(...)` unpacks the output and the maps by name.

    steps   each an `Attended` with what it read (out), where it looked (map) and what it drew (sample)
    """

    out: Tensor
    steps: dict[str, Attended] = field(default_factory=dict)

    @property
    def maps(self) -> dict[str, AttentionMap]:
        """Where each step looked."""
        return {name: step.map for name, step in self.steps.items()}

    @property
    def samples(self) -> dict[str, Sample]:
        """What was drawn, by the steps that draw (hard, reinforced)."""
        return {name: step.sample for name, step in self.steps.items() if step.sample is not None}

    def __iter__(self) -> Iterator[object]:
        return iter((self.out, self.maps))


register_dataclass(Composed, serialized_type_name="regard.Composed")
