"""Studies: tasks x variants x seeds, run by an engine, kept in a store, compared by statistics."""

from .results import Missing, Results, Row
from .specification import Study

__all__ = ["Missing", "Results", "Row", "Study"]
