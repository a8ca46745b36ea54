"""The command `regard`."""

from pathlib import Path
from typing import Annotated

import typer

from . import (
    bench,
    board,
    claims,
    interrupts,
    judge,
    people,
    record_view,
    reproduce,
    study,
    study_alignments,
    study_drugs,
    tasks,
    taxonomy,
    validate,
    why,
)
from .cli_errors import Command, console, fail, requires_extra
from .judging.align import JudgeCommand
from .output.help import CommandList

interrupts.end_on_interrupt()  # until a command begins: see Command

app = Command(
    cls=CommandList,
    help="Build, run, see and judge attention. More on a command: --help or -h.",
    epilog="Examples:  regard demo  ·  regard look minilm 'Some text.'  ·  regard taxonomy",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands, which inherit it
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"regard {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the page; created if needed.")] = Path(
        "regard-demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each network.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 15,
) -> None:
    """Attention computed, drawn and tested, on one offline page.

    Takes a minute and a half on two free cores; shows progress over six parts.

    Example:  regard demo --out /tmp/regard-demo
    """
    shown = console()
    with requires_extra("demo"):
        from ..lab.demo import records, run
    try:
        page = run(out, seeds=seeds, epochs=epochs, console=shown)
    except OSError as problem:
        fail(str(problem))
    shown.print("Open this page:", style="bold")
    typer.echo(page.resolve())
    shown.print("Open the records, and intervene:", style="bold")
    typer.echo(records.command(out))


study.app.command()(study_alignments.alignments)
study.app.command()(study_drugs.drugs)

# The four verbs, in the order in which `regard --help` lists them.
app.command(rich_help_panel="Build")(taxonomy.taxonomy)
app.add_typer(tasks.app, name="train", rich_help_panel="Build")
app.command("record", rich_help_panel="Run")(record_view.record)
app.add_typer(bench.app, name="bench", rich_help_panel="Run")
app.command(rich_help_panel="See")(demo)
app.command(rich_help_panel="See")(record_view.look)
app.command(rich_help_panel="See")(record_view.serve)
app.command(rich_help_panel="See")(record_view.show)
app.command(rich_help_panel="See")(record_view.info)
app.command(rich_help_panel="See")(why.why)
app.command(rich_help_panel="See")(why.heads)
app.command(cls=JudgeCommand, rich_help_panel="Judge")(judge.judge)
app.add_typer(study.app, name="study", rich_help_panel="Judge")
app.command(rich_help_panel="Judge")(board.board)
app.command(rich_help_panel="Judge")(claims.claims)
app.add_typer(people.app, name="people", rich_help_panel="Judge")
app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Judge")
app.add_typer(validate.app, name="validate", rich_help_panel="Judge")
