"""Result of a composition: its output and each of its attention steps, by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from ..core.attend import Attended, Sample
from ..core.maps.attention_map import AttentionMap
from ..core.torch_private import register_dataclass


@dataclass(eq=False)
class Composed:
    """out and the attention steps behind it; `out, maps = module(...)` unpacks the output and the maps by name.

    steps   an `Attended` each: context (out), weights (map) and sample
    """

    out: Tensor
    steps: dict[str, Attended] = field(default_factory=dict)

    @property
    def maps(self) -> dict[str, AttentionMap]:
        """The attention map of each step."""
        return {name: step.map for name, step in self.steps.items()}

    @property
    def samples(self) -> dict[str, Sample]:
        """Samples of the stochastic steps (hard, reinforced)."""
        return {name: step.sample for name, step in self.steps.items() if step.sample is not None}

    def __iter__(self) -> Iterator[object]:
        return iter((self.out, self.maps))


register_dataclass(Composed, serialized_type_name="regard.Composed")
