"""Example and batch of any task: words, documents, pixels, audio frames, nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..core.structures import Padding, Segments, Structure


@dataclass(eq=False)
class Example:
    """A training or test example.

    inputs   (n, ...): words (n,), a document (sentences, words), frames (n, bands), pixels (1, h, w), nodes (N, F)
    target   () a class or a number, (t,) words, (1, h, w) pixels, (N,) a class for each node
    gold     gold attention weights: (n,) a rationale or the patches of a box, (t, n) word alignment, (N,) nodes or (E,)
             edges of an explanation
    parts    (n,) the length of each row of inputs, for documents
    second   (m, ...) a second input, such as a question
    edges    (2, E) sources, then targets, for graphs
    """

    inputs: Tensor
    target: Tensor
    gold: Tensor | None = None
    parts: Tensor | None = None
    second: Tensor | None = None
    edges: Tensor | None = None
    id: int = 0

    @property
    def length(self) -> int:
        return self.inputs.shape[0]


@dataclass(eq=False)
class Batch:
    """Examples padded with zeros to the longest; graphs are concatenated instead.

    inputs (B, n, ...), lengths (B,); target (B, ...), target_lengths (B,) where targets are sequences;
    gold, parts, second as in an example with a batch axis before them; ids (B,);
    graphs: inputs (N, F), edge_index (2, E), graph (N,) the graph of each node, edge_attr (E, D).
    """

    inputs: Tensor
    target: Tensor
    lengths: Tensor
    ids: Tensor
    target_lengths: Tensor | None = None
    gold: Tensor | None = None
    parts: Tensor | None = None
    second: Tensor | None = None
    second_lengths: Tensor | None = None
    edge_index: Tensor | None = None
    graph: Tensor | None = None
    edge_attr: Tensor | None = None

    def __len__(self) -> int:
        return self.ids.shape[0]

    @property
    def over(self) -> Structure:
        """The structure of the inputs: padding, or for graphs segments of nodes."""
        if self.graph is not None:
            return Segments(self.graph, count=len(self))
        return Padding(self.lengths)

    @property
    def real(self) -> Tensor:
        """(B, n) bool: positions that are not padding."""
        return torch.arange(self.inputs.shape[1], device=self.lengths.device) < self.lengths[:, None]

    def to(self, device: torch.device | str) -> "Batch":
        moved = {f.name: x.to(device) for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)}
        return replace(self, **moved)


def collate(examples: Sequence[Example]) -> Batch:
    """A batch of examples with the same fields."""
    if not examples:
        raise ValueError("collate(examples): expected at least one example.")
    ids = torch.tensor([one.id for one in examples])
    lengths = torch.tensor([one.length for one in examples])
    first = examples[0]
    if first.edges is not None:
        return _end_to_end(examples, lengths, ids)
    sequences = first.target.ndim == 1
    return Batch(
        stacked([one.inputs for one in examples]),
        stacked([one.target for one in examples]),
        lengths,
        ids,
        torch.tensor([one.target.shape[0] for one in examples]) if sequences else None,
        _optional(examples, "gold"),
        _optional(examples, "parts"),
        _optional(examples, "second"),
        None if first.second is None else torch.tensor([len(one.second) for one in examples]),  # type: ignore[arg-type]
    )


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """(B, ...): each axis padded with zeros to the longest."""
    if all(x.shape == parts[0].shape for x in parts):
        return torch.stack(list(parts))
    size = [max(sides) for sides in zip(*(x.shape for x in parts), strict=True)]
    filled = []
    for x in parts:
        room = [side for have, want in zip(reversed(x.shape), reversed(size), strict=True) for side in (0, want - have)]
        filled.append(F.pad(x, room) if any(room) else x)
    return torch.stack(filled)


def _optional(examples: Sequence[Example], name: str) -> Tensor | None:
    found = [getattr(one, name) for one in examples]
    return None if found[0] is None else stacked(found)


def _end_to_end(examples: Sequence[Example], lengths: Tensor, ids: Tensor) -> Batch:
    start = lengths.cumsum(0) - lengths
    edges = [one.edges + first for one, first in zip(examples, start, strict=True) if one.edges is not None]
    by_node = examples[0].target.ndim == 1
    targets = [one.target for one in examples]
    found = [one.gold for one in examples if one.gold is not None]
    if found and found[0].ndim == 2:  # one column for each admissible explanation
        found = [F.pad(x, (0, max(y.shape[1] for y in found) - x.shape[1])) for x in found]
    return Batch(
        torch.cat([one.inputs for one in examples]),
        torch.cat(targets) if by_node else torch.stack(targets),
        lengths,
        ids,
        gold=torch.cat(found) if found else None,
        edge_index=torch.cat(edges, 1),
        graph=torch.repeat_interleave(torch.arange(len(examples)), lengths),
    )
