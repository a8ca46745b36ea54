"""regard board: variants ranked over the tasks of studies."""

from pathlib import Path
from typing import Annotated

import typer

from .cli_errors import console, requires_extra, user_errors


def board(
    studies: Annotated[list[Path], typer.Argument(help="Folders of studies, or their results.json.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("board.html"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Rank variants over the tasks of studies, on a page.

    Means with intervals, a critical-difference diagram, costs; every number links to its training runs.

    Example:  regard board graphs-study drugs-study -o board.html
    """
    with requires_extra("studies"), user_errors():
        from ..studies.board import board as ranked
        from ..views.board import save_board
        from .output.board_table import board_table
        from .output.tables import table_console
        from .study import results_in

        found = ranked([results_in(one) for one in studies])
        folders = {name: one for one in studies if one.is_dir() for name in [results_in(one).study]}
        shown = table_console()
        shown.print(board_table(found))
        shown.print(found.says, soft_wrap=True)
        page = save_board(found, out, folders)
    console().print("Open this page:", style="bold")
    typer.echo(page.resolve())
    if show:
        typer.launch(page.resolve().as_uri())
