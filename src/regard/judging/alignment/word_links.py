"""Links between words: read off attention weights, and two directions made into one."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

Link = tuple[int, int]
Links = frozenset[Link]  # (place in source, place in target), from 0

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def argmax_links(weights: Tensor | np.ndarray) -> Links:
    """Each target word is linked to the source word that it attends to most.

    weights (targets, sources)  ->  links (source, target)

    Rows attend, as in every map: here target words. A row of zeros links nothing; of equal weights the first wins.
    A map of the other direction, weights (sources, targets), gives links to be turned round: `turned`.
    """
    w = _matrix(weights)
    if w.shape[1] == 0:
        return frozenset()
    return frozenset((int(s), t) for t, s in enumerate(w.argmax(1)) if w[t, s] > 0)


def threshold_links(weights: Tensor | np.ndarray, threshold: float) -> Links:
    """Every pair whose weight is at least the threshold: weights (targets, sources)  ->  links (source, target)."""
    if not threshold > 0:
        raise ValueError(f"threshold_links(threshold={threshold}): expected more than 0, or every pair is a link.")
    return frozenset((int(s), int(t)) for t, s in zip(*np.nonzero(_matrix(weights) >= threshold), strict=True))


def turned(links: Iterable[Link]) -> Links:
    """Links of the reverse direction, source and target in their places."""
    return frozenset((b, a) for a, b in links)


def intersection(forward: Iterable[Link], backward: Iterable[Link]) -> Links:
    """Links of both directions; both are (source, target)."""
    return frozenset(forward) & frozenset(backward)


def union(forward: Iterable[Link], backward: Iterable[Link]) -> Links:
    """Links of either direction."""
    return frozenset(forward) | frozenset(backward)


def grow_diagonal(forward: Iterable[Link], backward: Iterable[Link], free: str = "both", final: bool = False) -> Links:
    """The intersection, grown by neighbours (diagonal ones too) in the union that link words not yet linked.

    free   "both": a new link needs two words without any; "either": one is enough, as in Moses, which finds more links
           and on English-French makes more errors
    final  then links of the union whose two words are both still free are added, forward ones first

    intersection <= grow-diagonal <= union; with "both" the result depends on the order, which here is that of the
    sentence, neighbours beside and below before diagonal ones. Koehn, Och, Marcu 2003.
    """
    if free not in ("both", "either"):
        raise ValueError(f"grow_diagonal(free={free!r}): expected 'both' or 'either'.")
    forward, backward = frozenset(forward), frozenset(backward)
    either, found = sorted(forward | backward), set(forward & backward)
    sources, targets = {s for s, _ in found}, {t for _, t in found}

    def add(link: Link, enough: int) -> bool:
        if link in found or (link[0] not in sources) + (link[1] not in targets) < enough:
            return False
        found.add(link)
        sources.add(link[0])
        targets.add(link[1])
        return True

    allowed, enough, grown = frozenset(either), 2 if free == "both" else 1, True
    while grown:
        grown = False
        for s, t in either:
            if (s, t) in found:  # links added in this turn too
                near = [(s + down, t + right) for down, right in NEIGHBOURS]
                grown |= sum(add(link, enough) for link in near if link in allowed) > 0
    for direction in (forward, backward) if final else ():
        for link in sorted(direction):
            add(link, 2)
    return frozenset(found)


SYMMETRIC: dict[str, Callable[[Iterable[Link], Iterable[Link]], Links]] = {
    "intersection": intersection,
    "union": union,
    "grow-diagonal": grow_diagonal,
}


def links_from_weights(
    forward: Tensor | np.ndarray,
    backward: Tensor | np.ndarray | None = None,
    threshold: float | None = None,
    join: str = "intersection",
) -> Links:
    """Links of a pair: by argmax, or by threshold where one is given; of two directions joined where there are two.

    forward   (targets, sources): target words attend
    backward  (sources, targets): source words attend, as in a model of the other direction
    join      "intersection", "union" or "grow-diagonal"
    """
    if join not in SYMMETRIC:
        raise ValueError(f"links_from_weights(join={join!r}): expected one of {', '.join(SYMMETRIC)}.")

    def read(weights: Tensor | np.ndarray) -> Links:
        return argmax_links(weights) if threshold is None else threshold_links(weights, threshold)

    if backward is None:
        return read(forward)
    if _matrix(backward).shape != _matrix(forward).shape[::-1]:
        raise ValueError(
            f"links_from_weights: forward is {tuple(forward.shape)} = (targets, sources), backward is "
            f"{tuple(backward.shape)}; expected (sources, targets)."
        )
    return SYMMETRIC[join](read(forward), turned(read(backward)))


def diagonal_links(sources: int, targets: int) -> Links:
    """The baseline that looks at nothing: the target word at (t + 1/2) / targets of its sentence links there."""
    return frozenset(((2 * t + 1) * sources // (2 * targets), t) for t in range(targets)) if sources else frozenset()


def random_links(sources: int, targets: int, draw: np.random.Generator) -> Links:
    """The baseline of chance: each target word is linked to one source word, all equally likely."""
    if sources == 0:
        return frozenset()
    return frozenset((int(s), t) for t, s in enumerate(draw.integers(sources, size=(targets,))))


def _matrix(weights: Tensor | np.ndarray) -> np.ndarray:
    w = weights.detach().to(torch.float64).cpu().numpy() if isinstance(weights, Tensor) else np.asarray(weights, float)
    if w.ndim != 2:
        raise ValueError(
            f"weights of shape {w.shape}: expected (targets, sources), one map of one pair; choose or "
            "average the heads first."
        )
    return w
