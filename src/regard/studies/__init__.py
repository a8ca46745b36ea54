"""Studies: tasks x variants x seeds, run by an engine, stored in a database, compared by statistics."""

from typing import TYPE_CHECKING

from .results import Missing, Results, Row

if TYPE_CHECKING:
    from .specification import Study

__all__ = ["Missing", "Results", "Row", "Study"]


def __getattr__(name: str) -> object:
    if name == "Study":  # lazy: cluster nodes that only run trials need no pydantic
        from .specification import Study

        return Study
    raise AttributeError(f"module 'regard.studies' has no attribute {name!r}")
