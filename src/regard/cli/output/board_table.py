"""A board as a terminal table."""

from rich.table import Table
from rich.text import Text

from regard.studies.board import Board
from regard.studies.report.wording import number


def board_table(found: Board) -> Table:
    """Variants by their mean rank; the best of each task in bold."""
    table = Table(box=None, header_style="bold")
    table.add_column("variant")
    table.add_column("mean rank", justify="right")
    for task in found.tasks:
        table.add_column(f"{task.label}\n{task.measure.says}", justify="right")
    table.add_column("core-hours", justify="right")
    for variant in found.variants:
        rank = found.mean_rank(variant)
        cells: list[Text] = []
        for place, task in enumerate(found.tasks):
            cell = found.of(variant, place)
            text = "" if cell is None else number(cell.value, task.measure)
            cells.append(Text(text, style="bold" if cell is not None and cell.rank < 2 else ""))
        table.add_row(variant, "" if rank is None else f"{rank:.2f}", *cells, f"{found.cost[variant]:.2g}")
    return table
