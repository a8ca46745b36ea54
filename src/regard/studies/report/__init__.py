"""What a study found in sentences and tables; `regard.views.study` draws it."""

from .saying import below_trivial, says, unequal
from .sheets import Sheet, comparison_rows, comparison_sheet, means_rows, means_sheet
from .writing import csv_text, latex, markdown

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
    "unequal",
]
