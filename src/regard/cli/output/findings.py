"""Output of findings: tables or JSON on stdout, and JSON in the folder of --out."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from ..cli_errors import console

if TYPE_CHECKING:
    from regard.judging.finding import Finding


def print_findings(findings: "Sequence[Finding]", tables: Iterable[Table], json: bool, out: Path | None) -> None:
    """Print tables or JSON; write out/findings.json if a folder is given."""
    from regard.judging.finding import to_json
    from regard.recording.io.writing import write_whole

    text = to_json(findings)
    if out is not None:  # before printing, so that a closed pipe loses nothing
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
