"""Graphs as a judge needs them: each a case of its own, laid end to end, with edges that can be taken away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Example

from .inputs import Inputs, Instance


@dataclass(frozen=True, eq=False)
class Laid:
    """Some cases as one graph: row (N,) of the features of each node, edge_index (2, E), graph (N,) the item of each.

    place (E,): where each edge stands among the tokens of its item, 0 for an edge that is no unit; item (E,).
    root (B,): the node that is judged, where one is.
    """

    row: Tensor
    edge_index: Tensor
    graph: Tensor
    place: Tensor
    item: Tensor
    root: Tensor | None


@dataclass(frozen=True, eq=False)
class Cases:
    """Graphs end to end: row (nodes,) of x for each node, edge_index (2, edges) with nodes counted within each case.

    start (cases + 1,) of nodes and edge_start of edges; unit (edges,): which edges go together, counted within each
    case, -1 for one that always stays; root (cases,) the judged node, or None where the whole graph is judged.
    ids: what each unit is called, by case; labels and gold by case.
    """

    row: Tensor
    start: Tensor
    edge_index: Tensor
    edge_start: Tensor
    unit: Tensor
    ids: tuple[Tensor, ...]
    labels: tuple["int | None", ...]
    root: Tensor | None = None
    gold: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device) -> "Cases":
        """What is laid out in each run, on the device where the model runs; names, labels and gold stay."""
        parts = ("row", "start", "edge_index", "edge_start", "unit", "root")
        return replace(self, **{name: x.to(device) for name in parts if (x := getattr(self, name)) is not None})

    def instances(self) -> list[Instance]:
        """Tokens: the number of the case as -1 - c, special, then its units; words name the nodes of each."""
        made = []
        for case, (ids, label) in enumerate(zip(self.ids, self.labels, strict=True)):
            tokens = torch.cat([torch.tensor([-1 - case]), ids.cpu()])
            made.append(Instance(tokens, label, tokens < 0, words=self._words(case)))
        return made

    def _words(self, case: int) -> tuple[str, ...]:
        """The judged node, or the graph; then of each unit who sends to whom ("3 to 2"), or whom a bond joins ("2-3").
        Nodes have the numbers that they have in the whole graph, or in their own where there are several."""
        first, span = int(self.start[case]), slice(int(self.edge_start[case]), int(self.edge_start[case + 1]))
        ends = self.edge_index[:, span].cpu()
        if self.root is not None:
            ends = self.row.cpu()[first + ends]
        found: dict[int, list[tuple[int, int]]] = {}
        for unit, a, b in zip(self.unit[span].tolist(), *ends.tolist(), strict=True):
            found.setdefault(unit, []).append((a, b))
        names = (found[unit] for unit in range(len(self.ids[case])))
        title = f"graph {case}" if self.root is None else f"node {int(self.row[first + self.root[case]])}"
        return title, *(
            "{} to {}".format(*some[0]) if len(some) == 1 else "{}-{}".format(*sorted(some[0])) for some in names
        )

    def laid(self, inputs: Inputs) -> Laid:
        """The cases of a batch side by side, without the units that are gone."""
        case = -1 - inputs.tokens[:, 0]
        node, graph, size = _ranges(self.start, case)
        edge, item, _ = _ranges(self.edge_start, case)
        first = size.cumsum(0) - size
        place = self.unit[edge] + 1
        there = inputs.real[item, place]
        index = self.edge_index[:, edge] + first[item]
        root = None if self.root is None else first + self.root[case]
        return Laid(self.row[node], index[:, there], graph, place[there], item[there], root)

    @property
    def one_row(self) -> bool:
        """Whether the units of each case are edges into one node, each on its own: weights that share one whole."""
        unit, device = self.unit >= 0, self.unit.device
        case = torch.repeat_interleave(torch.arange(len(self), device=device), self.edge_start.diff())[unit]
        units = torch.tensor([len(ids) for ids in self.ids], device=device)
        alone = bool((torch.bincount(case, minlength=len(self)) == units).all())
        if self.root is None or not alone:
            return False
        return bool((self.edge_index[1][unit] == self.root[case]).all())


def of_nodes(
    edge_index: Tensor,
    nodes: int,
    roots: Sequence[int],
    labels: Tensor | None = None,
    hops: int | None = None,
    units: str = "into",
) -> Cases:
    """A case for each node: what it can hear within `hops` edges, or the whole graph; those without a unit are left
    out.

    units: "into", the edges into the node itself, or "all", every edge of the case; loops are none.
    """
    if units not in ("into", "all"):
        raise ValueError(
            f"on_graph(units={units!r}): expected 'into' (the edges into the node) or 'all' (every edge "
            "that it can hear along)."
        )
    if hops is not None and hops < 1:
        raise ValueError(f"on_graph(hops={hops}): expected 1 or more, the number of the model's layers.")
    edge_index = edge_index.cpu()
    source, target = edge_index
    order = target.argsort(stable=True)
    into = order.split(torch.bincount(target, minlength=nodes).tolist())
    everything = torch.arange(nodes), torch.arange(edge_index.shape[1])
    rows, indices, unit, ids, kept = [], [], [], [], []
    for root in map(int, roots):
        some, edge = everything if hops is None else _around(root, hops, source, into)
        here = source[edge] != target[edge]
        if units == "into":
            here &= target[edge] == root
        if not bool(here.any()):
            continue
        number = torch.full((nodes,), -1)
        number[some] = torch.arange(len(some))
        numbered = torch.full_like(edge, -1)
        numbered[here] = torch.arange(int(here.sum()))
        rows.append(some)
        indices.append(number[edge_index[:, edge]])
        unit.append(numbered)
        ids.append(edge[here])
        kept.append(root)
    if not kept:
        raise ValueError("on_graph(nodes): none of them has an edge from another node, so there is nothing to judge.")
    root_at = torch.tensor([int((some == root).nonzero()[0, 0]) for some, root in zip(rows, kept, strict=True)])
    said = tuple(None if labels is None else int(labels[root]) for root in kept)
    return Cases(
        torch.cat(rows),
        _starts([len(x) for x in rows]),
        torch.cat(indices, 1),
        _starts([x.shape[1] for x in indices]),
        torch.cat(unit),
        tuple(ids),
        said,
        root_at,
    )


def of_graphs(examples: Sequence[Example], bonds: bool = True) -> Cases:
    """A case for each graph; bonds=True: the two directions of an edge are one unit. Loops are none."""
    rows = _starts([one.length for one in examples])
    indices, unit, ids = [], [], []
    for one in examples:
        if one.edges is None:
            raise ValueError("on_graphs(examples): expected graphs, examples with edges.")
        a, b = one.edges
        code = torch.minimum(a, b) * one.length + torch.maximum(a, b) if bonds else torch.arange(len(a))
        number = torch.full_like(a, -1)
        _, number[a != b] = code[a != b].unique(return_inverse=True)
        first = torch.full((int(number.max()) + 1 if len(a) else 0,), len(a))
        first.scatter_reduce_(0, number[a != b], torch.arange(len(a))[a != b], "amin")
        indices.append(one.edges)
        unit.append(number)
        ids.append(first)
    labels = tuple(None if one.target.is_floating_point() else int(one.target) for one in examples)
    gold = tuple(one.gold for one in examples if one.gold is not None)
    return Cases(
        torch.arange(int(rows[-1])),
        rows,
        torch.cat(indices, 1),
        _starts([x.shape[1] for x in indices]),
        torch.cat(unit),
        tuple(ids),
        labels,
        gold=gold if len(gold) == len(examples) else None,
    )


def _around(root: int, hops: int, source: Tensor, into: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Nodes and edges of the computation tree of a node, each once: edges that end less than `hops` from it."""
    seen, front, edges = {root}, [root], list[Tensor]()
    for _ in range(hops):
        found = torch.cat([into[node] for node in front]) if front else torch.empty(0, dtype=torch.long)
        edges.append(found)
        front = sorted(set(source[found].tolist()) - seen)
        seen.update(front)
    return torch.tensor(sorted(seen)), torch.cat(edges).sort().values


def _ranges(start: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The members of the chosen parts, one part after the other; which part each is of; their sizes."""
    size = start.diff()[chosen]
    part = torch.repeat_interleave(torch.arange(len(chosen), device=size.device), size)
    place = torch.arange(len(part), device=size.device) - (size.cumsum(0) - size)[part]
    return place + start[chosen][part], part, size


def _starts(sizes: Sequence[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)
