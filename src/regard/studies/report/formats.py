"""Sheets as Markdown and LaTeX, rows as CSV."""

import csv
import io
import math

from .tables import Rows, Sheet

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "|": r"\textbar{}",
    '"': "''",
}


def markdown(sheet: Sheet) -> str:
    """A table of GitHub's Markdown; bars and line breaks in names are escaped."""
    lines = [
        _line(sheet.columns),
        "|" + "|".join("---" if at < sheet.named else "---:" for at in range(len(sheet.columns))) + "|",
        *(_line(row) for row in sheet.rows),
    ]
    return "\n".join(lines) + "\n"


def latex(sheet: Sheet) -> str:
    """A tabular for the booktabs package, with LaTeX's special characters escaped."""
    form = "l" * sheet.named + "r" * (len(sheet.columns) - sheet.named)
    rows = []
    for at, row in enumerate(sheet.rows):
        rows += [r"\midrule"] * (at in sheet.ruled) + [_cells(row)]
    return "\n".join(
        [
            f"% {' '.join(sheet.title.split())}",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            _cells(sheet.columns),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """Text for LaTeX."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def csv_text(rows: Rows) -> str:
    """Full precision; undefined values are empty. Names that a spreadsheet would evaluate as a formula are quoted."""
    out = io.StringIO()
    made = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    made.writeheader()
    made.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _plain(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return ""
    if isinstance(value, str) and value[:1] in tuple("=+-@\t\r"):
        return "'" + value
    return value


def _line(cells: tuple[str, ...]) -> str:
    inside = (" ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return "| " + " | ".join(inside) + " |"


def _cells(cells: tuple[str, ...]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"
