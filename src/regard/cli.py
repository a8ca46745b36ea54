"""The command `regard`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .commands import bench, claims, judge, people, reproduce, see, study, tasks, taxonomy
from .commands.telling import extra, stop

app = typer.Typer(
    help="Build, run, see and judge attention.",
    epilog="Examples:  regard serve --model minilm    ·    regard look minilm 'Some text.'    ·    regard demo",
    no_args_is_help=True,
    add_completion=False,
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page; made where it does not exist.")] = Path("regard-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 15,
) -> None:
    """See attention computed, drawn and put to the test: about a minute and a half, then one page that works offline.

    Example:  regard demo --out /tmp/regard-demo
    """
    console = Console()
    with extra("demo"):
        from regard.demo import records, run
    try:
        page = run(out, seeds=seeds, epochs=epochs, console=console)
    except OSError as problem:
        stop(str(problem))
    console.print("[bold]Open this page:[/bold]")
    typer.echo(page.resolve())
    console.print("[bold]Look at what was recorded, and change it:[/bold]")
    typer.echo(records.command(out))


app.command()(taxonomy.taxonomy)
app.command()(judge.judge)
app.command()(claims.claims)
app.add_typer(see.app)
app.add_typer(bench.app, name="bench")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(tasks.app, name="train")
app.add_typer(people.app, name="people")
app.add_typer(study.app, name="study")
