"""regard claims: four claims about graph attention, tested."""

from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from .cli_errors import check_output_folder, requires_extra, user_errors
from .output.progress import progress_bar


class Which(StrEnum):
    """The claims that `regard claims` tests."""

    adaptive = "adaptive"
    interpret = "interpret"
    range = "range"
    hetero = "hetero"
    all = "all"


def claims(
    which: Annotated[
        Which, typer.Argument(show_choices=False, help="adaptive, interpret, range, hetero, or all.")
    ] = Which.all,
    small: Annotated[bool, typer.Option("--small", help="A small setting for a CPU: minutes.")] = False,
    seeds: Annotated[int, typer.Option(min=2, help="Training runs of each network.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for JSON, tables and a figure of each claim.")
    ] = None,
) -> None:
    """Four claims about graph attention, each tested.

    Adaptive weights, interpretability, long range and over-smoothing,
    heterogeneity: each is measured against baselines without attention.
    With --small each takes two to three minutes on one core. Parts that need
    data are skipped unless REGARD_DATA names their folder.

    Example:  regard claims adaptive --small -o claims
    """
    check_output_folder(out)
    with requires_extra("test"), user_errors():
        from ..lab.claims import CLAIMS
        from ..lab.claims.figures import claim_figure, claim_markdown, claim_sheets
        from ..views.page import write_file
        from .output.tables import table_console, table_of, with_whole_cells

        names = list(CLAIMS) if which is Which.all else [which.value]
        found = []
        with progress_bar() as report:
            for name in names:
                claim = CLAIMS[name](small, seeds, lambda said, *far, name=name: report(f"{name}: {said}", *far))
                found.append(claim)
                if out is not None:  # at once, since the next claim may be interrupted
                    out.mkdir(parents=True, exist_ok=True)
                    write_file(dumps(claim.as_dict(), indent=1, allow_nan=False), out / f"{name}.json")
                    write_file(claim_markdown(claim), out / f"{name}.md")
                    claim_figure(claim, out / f"{name}.png")
        if json:
            typer.echo(dumps([claim.as_dict() for claim in found], indent=1, allow_nan=False))
            return
        shown = table_console()
        for claim in found:
            shown.print(Text.assemble("\n", (claim.name, "bold"), f": claim: {claim.says}"))
            for sheet in claim_sheets(claim):
                for part in with_whole_cells(sheet, shown.width):
                    shown.print(table_of(part, shown.width))
                    shown.print()
            for sentence in filter(None, (*claim.answer, claim.caution)):
                shown.print(f"- {sentence}")
            for sentence in claim.left_out:
                shown.print(f"- skipped: {sentence}")
        if out is not None:
            typer.echo(f"Written to {out}: {', '.join(f'{name}.json, .md, .png' for name in names)}.")
