"""A generation, step by step: which row wrote which token.

A token is written by the row before it: the last row of the prompt writes the first, the row of the first writes the
second. The token written last was read by no one; its name is not in the record.
"""

from collections.abc import Sequence
from typing import Any

from ..core.maps.attention_map import AttentionMap


def generation_steps(group: Sequence[AttentionMap], rows: "Sequence[str] | None") -> dict[str, Any]:
    """The row of the first step, and the names of what was written; nothing for a map that is no generation."""
    if len(group) < 2 or not group[0].n or any(amap.n != 1 for amap in group[1:]):
        return {}
    first = group[0].n - 1
    written = [None] * len(group) if rows is None else [*rows[first + 1 :], None]
    return {"steps": {"first": first, "written": written}}
