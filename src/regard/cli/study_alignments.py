"""regard study alignments: a model trained with softmax, run and fine-tuned with other alignments."""

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from .cli_errors import check_output_folder, requires_extra, resumable, user_errors
from .output.progress import progress_bar


def alignments(
    model: Annotated[str, typer.Option(help="A causal language model: smollm2, a folder, a hub name.")] = "smollm2",
    align: Annotated[
        list[str] | None, typer.Option(help="An alignment, repeatable: entmax15, top_k=32, softmax,window=128.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Optimiser steps of fine-tuning.")] = 200,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of a sequence.")] = 512,
    sequences: Annotated[int, typer.Option(min=2, help="Number of test sequences for perplexity.")] = 32,
    tuned: Annotated[str, typer.Option(help="attention (its projections) or all.")] = "attention",
    rate: Annotated[float, typer.Option(min=0, help="Learning rate.")] = 3e-4,
    seed: Annotated[int, typer.Option(help="Order of the training sequences.")] = 0,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for measurements; interrupted runs resume.")] = Path(
        "alignments"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Does a pretrained model survive another alignment?

    Perplexity on WikiText-2 with softmax replaced, before and after short
    fine-tuning, against softmax itself. Needs REGARD_DATA. On one core, SmolLM2-135M
    takes 4 to 6 seconds a step of 512 tokens: the defaults take two hours, the
    example fifteen minutes.

    Example:  regard study alignments --steps 24 --sequences 8
    """
    check_output_folder(out)
    with requires_extra("models"), user_errors(), resumable():
        from ..lab.pretrained import ALIGNMENTS, TuneSetting, survive
        from ..lab.pretrained.survival_figure import survival_figure, survival_sheet
        from ..studies.report import markdown
        from ..views.page import write_file
        from .output.tables import table_console, table_of, with_whole_cells

        setting = TuneSetting(model, steps, tokens, sequences, tuned, rate, seed)
        with progress_bar() as report:
            found, unigram = survive(setting, tuple(align or ALIGNMENTS), out, on_progress=report)
        sheet = survival_sheet(found, unigram, setting)
        survival_figure(found, unigram, out / "alignments.png")
        write_file(markdown(sheet), out / "alignments.md")
        if json:
            whole = {"setting": asdict(setting), "unigram": unigram, "found": [asdict(one) for one in found]}
            typer.echo(dumps(whole, indent=1))
            return
        shown = table_console()
        for part in with_whole_cells(sheet, shown.width):
            shown.print(table_of(part, shown.width))
        typer.echo(f"Written to {out}: alignments.png, alignments.md and a file for each alignment.")
