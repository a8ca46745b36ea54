"""Where the residual stream stands just before a query or a key is made of it."""

import heapq

from . import rules
from .tape import Node


def stream_before(node: Node) -> Node:
    """The last tensor on every way to a node at which writers are added up: what the site's normalisation reads.

    Nodes are visited from the latest to the first; one that is alone in the frontier is on every way.
    """
    frontier, queued = [(-node.index, node)], {node.index}
    while frontier:
        _, one = heapq.heappop(frontier)
        if not frontier and (not rules.linear(one) or _adds_up(one)):
            return one
        for before in rules.read(one) if rules.linear(one) else ():
            before = before.args[0] if before.op == "item" and before.args[0].op in rules.KEEPS_OUTPUTS else before
            if before not in rules.frozen(one) and before.index not in queued:
                queued.add(before.index)
                heapq.heappush(frontier, (-before.index, before))
    return node


def _adds_up(node: Node) -> bool:
    if node.op == "cat":
        axis = (node.args[1] if len(node.args) > 1 else 0) % len(node.shape)
        return axis != len(node.shape) - 1
    if node.op not in ("add", "sub"):
        return False
    a, b = node.args[:2]
    if isinstance(a, Node) and isinstance(b, Node):
        return not (leaves_of(a) & leaves_of(b)) or _several(node)
    other = b if isinstance(a, Node) else a
    return getattr(other, "ndim", 0) > 1 and sum(size > 1 for size in other.shape) > 1


def _several(node: Node) -> bool:
    """A residual addition of two branches that share writers: x + f(x) with f linear in part."""
    return len(leaves_of(node.args[0]) ^ leaves_of(node.args[1])) > 0


def leaves_of(node: Node) -> frozenset[int]:
    """The writers behind a node."""
    found, waiting, seen = set[int](), [node], set[int]()
    while waiting:
        one = waiting.pop()
        if one.index in seen:
            continue
        seen.add(one.index)
        if rules.linear(one):
            waiting += [x for x in rules.read(one) if x not in rules.frozen(one)]
        else:
            found.add(one.index)
    return frozenset(found)
