"""The command `regard`."""

from pathlib import Path
from typing import Annotated

import typer

from . import bench, claims, interrupts, judge, people, record_view, reproduce, study, tasks, taxonomy
from .cli_errors import Command, console, fail, requires_extra
from .help import CommandList

interrupts.end_on_interrupt()  # until a command begins: see Command

app = Command(
    cls=CommandList,
    help="Build, run, see and judge attention. Each command tells more with --help.",
    epilog="Examples:  regard demo  ·  regard look minilm 'Some text.'  ·  regard taxonomy",
    no_args_is_help=True,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"regard {version('regard')}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page; made where it does not exist.")] = Path("regard-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 15,
) -> None:
    """Attention computed, drawn and put to the test, on one page.

    Takes about a minute and a half; the page works offline.

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
    shown.print("Look at what was recorded, and change it:", style="bold")
    typer.echo(records.command(out))


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
app.command(rich_help_panel="Judge")(judge.judge)
app.add_typer(study.app, name="study", rich_help_panel="Judge")
app.command(rich_help_panel="Judge")(claims.claims)
app.add_typer(people.app, name="people", rich_help_panel="Judge")
app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Judge")
