"""The answer in words."""

from __future__ import annotations

from typing import Any

HARDLY = 0.01  # a weight below it


def sentence(why: Any) -> str:
    """Where the head looks, with which weight, and the writers whose pairs add most."""
    name = f"Head {why.layer}.{why.head}"
    over = f" over {why.against}" if why.against else ""
    if len(why.cells) == 1:
        i, j = why.cell
        hardly = why.weight is not None and why.weight < HARDLY
        looks = "hardly looks" if hardly else "looks"
        weight = "" if why.weight is None else f" with weight {why.weight:{'.1g' if hardly else '.2f'}}"
        pair = f"from {why.token(i, 'query')} to {why.token(j)}"
        start = f"{name} {looks} {pair}{weight}: score {why.score:.2f}{over}"
    elif why.whole:
        start = f"{name}, all cells{f' of {why.title}' if why.title else ''} weighed by attention: "
        start += f"mean score {why.score:.2f}{over}"
    else:
        rows = len({cell[0] for cell in why.cells})
        start = f"{name}, {len(why.cells)} cells of {rows} row{'s' * (rows != 1)}: mean score {why.score:.2f}{over}"
    sides = []
    for side in ("query", "key"):
        shares = why.by_writer(side, 3)
        sides.append(f"{side} from " + ", ".join(f"{share.name} ({share.value:+.2f})" for share in shares))
    pair = why.strongest(1)[0]
    return (
        f"{start}; {'; '.join(sides)}. "
        f"Strongest pair: {pair.query.label} in the query with {pair.key.label} in the key, {pair.value:+.2f}."
    )
