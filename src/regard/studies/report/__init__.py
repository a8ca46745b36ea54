"""The report of a study as sentences and tables; `regard.views.study` draws it."""

from .formats import csv_text, latex, markdown
from .tables import Sheet, comparison_rows, comparison_sheet, means_rows, means_sheet, tuning_sheet
from .wording import below_trivial, says, unequal

__all__ = [
    "Sheet",
    "below_trivial",
    "comparison_rows",
    "comparison_sheet",
    "csv_text",
    "latex",
    "markdown",
    "means_rows",
    "means_sheet",
    "says",
    "tuning_sheet",
    "unequal",
]
