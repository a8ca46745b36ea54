"""Writers: who added to the residual stream, as people call them."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from .evaluation import Key
from .tape import Node, OperatorTape

KINDS = ("embedding", "position", "segment", "head", "MLP", "recurrence", "feature", "rest", "bias", "other")


class Writer(NamedTuple):
    """One writer: kind, layer, head, and its path in the model.

    kind    "embedding", "position", "segment", "head", "MLP", "recurrence" (linear attention, state space models:
            one writer each), "bias", or "other": an operator that is none of these; "feature" and "rest" of a
            `FeatureDictionary`
    layer   which attention of the run a head is, or an MLP comes after; -1 before the first, and for biases
    """

    kind: str
    layer: int
    head: int
    path: str

    @property
    def label(self) -> str:
        if self.kind == "head":
            return f"head {self.layer}.{self.head}" if self.head >= 0 else f"attention {self.layer}"
        if self.kind in ("MLP", "recurrence"):
            return f"{self.kind} {self.layer}"
        if self.kind == "feature":
            return f"feature {self.path}"
        if self.kind == "rest":
            return f"rest of {self.path}"
        if self.kind == "bias" and self.path.startswith("dictionary"):
            return f"bias of the {self.path}"
        if self.kind in ("bias", "other"):
            found = re.search(r"(?:^|\.)(\d.*)$", self.path)
            short = (self.path if found is None else found.group(1)).removesuffix(".bias").removesuffix(".weight")
            return f"{self.kind} {short}".strip()
        return self.kind


def writer_of(key: Key, leaves: dict[int, Node], tape: OperatorTape) -> Writer:
    """The writer of a key of `WrittenParts`."""
    source, head = key
    if isinstance(source, str):
        kind = "position" if "pos" in source.rpartition(".")[2] or "position" in source else "bias"
        return Writer("embedding" if "token" in source and "cls" in source else kind, -1, -1, source)
    node = leaves[source]
    layer = recurrence_of(node.path, tape)
    if layer is not None:
        return Writer("recurrence", layer, -1, node.path)
    if node.call is not None:
        return Writer("head", node.layer, head, node.call.site)
    if node.op == "embedding":
        return Writer(_table(node), -1, -1, node.kwargs.get("weight", ""))
    if node.op == "constant":
        return Writer("bias", -1, -1, node.path or "constant")
    if node.op == "input" or (node.layer < 0 and node.op in ("convolution", "mkldnn_convolution")):
        return Writer("embedding", -1, -1, node.path)
    return Writer("MLP" if node.layer >= 0 else "other", node.layer, -1, node.path)


def recurrence_of(path: str, tape: OperatorTape) -> int | None:
    """Which call of the run a path inside a recurrent layer belongs to."""
    return next((n for own, n in tape.recurrent.items() if path == own or path.startswith(own + ".")), None)


def _table(node: Node) -> str:
    """Rows read in order are positions; rows that are the same for every token tell segments."""
    ids, name = node.kwargs["ids"], node.kwargs.get("weight", "")
    if "pos" in name or "wpe" in name:
        return "position"
    flat = ids.reshape(-1, ids.shape[-1])
    order = torch.arange(ids.shape[-1], device=ids.device) + flat[:, :1]
    if ids.shape[-1] > 2 and bool((flat == order).all()):
        return "position"
    return "segment" if "type" in name else "embedding"
