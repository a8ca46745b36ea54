"""What was found, as commands leave it: tables or JSON on stdout, and the same JSON in the folder that was named."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from .cli_errors import console

if TYPE_CHECKING:
    from ..judging.finding import Finding


def leave(findings: "Sequence[Finding]", tables: Iterable[Table], json: bool, out: Path | None) -> None:
    """In out/findings.json, where one is named, it replaces what a run before has left."""
    from ..judging.finding import to_json
    from ..recording.io.writing import write_whole

    text = to_json(findings)
    if out is not None:  # before anything is printed: what took long is not lost with a pipe that was closed
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "findings.json", [text.encode()])
    if json:
        typer.echo(text)
    else:
        shown = console()
        for table in tables:
            shown.print(table)
    if out is not None:
        typer.echo(f"Written to {out / 'findings.json'}.", err=json)
