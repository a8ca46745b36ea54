"""regard bench: Regard beside its peers and the limits of the machine."""

from pathlib import Path
from typing import Annotated

import typer

from .cli_errors import requires_extra, user_errors
from .help import CommandList

app = typer.Typer(
    cls=CommandList,
    help="Measure Regard beside its peers and the machine's limits.",
    epilog="Example:  regard bench graph --json > graph.json",
    no_args_is_help=True,
)


@app.command()
def core(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The core beside SDPA and entmax, its memory, a pyramid.

    The backend sdpa beside bare SDPA, additive memory, sparse alignments
    beside entmax, a pyramid of a long map.

    Example:  regard bench core --json > core.json
    """
    with requires_extra("test"):
        from ..lab.bench import core as measure

        measure.main(json=json)


@app.command()
def graph(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure torch_geometric too.")] = True,
) -> None:
    """Graph layers beside torch_geometric and the gather bound.

    GATConv, GATv2Conv and TransformerConv, forward and backward.

    Example:  regard bench graph --json > graph.json
    """
    from ..lab.bench import graph as measure

    measure.main(json=json, peers=peers)


@app.command()
def dense(
    parts: Annotated[
        str,
        typer.Option(help="additive, gaussian, window, sigmoid, entmax, best, shared, features, pyramids; or all."),
    ] = "all",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Dense kernels of a GPU beside what peers run there.

    Additive beside torch.compile, entmax beside AdaSplash, windows beside
    FlexAttention, others beside SDPA; each after it was seen to agree.

    Example:  regard bench dense --parts additive,entmax --json > dense.json
    """
    with user_errors():
        from ..lab.bench import dense as measure

        measure.main(parts, json)


@app.command("record")
def bench_record(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Recording beside not recording, and beside writing weights out.

    Example:  regard bench record --json > record.json
    """
    with requires_extra("models"):
        from ..lab.bench import record as measure

        measure.main(json=json)


@app.command()
def view(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    scripts: Annotated[
        Path | None, typer.Option(help="A node_modules with d3, jquery and requirejs, which BertViz fetches elsewhere.")
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that a page may take.")] = 240,
) -> None:
    """Pages in a browser beside BertViz's and inspectus'.

    A peer that is not installed is left out, and said so.

    Example:  regard bench view --json > view.json
    """
    with requires_extra("test"), user_errors():
        from ..lab.bench import view as measure

        measure.main(json=json, scripts=scripts, limit=limit)


@app.command()
def judge(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    sentences: Annotated[int | None, typer.Option(min=1, help="So many test sentences instead of all 1,821.")] = None,
) -> None:
    """Judging: four tests of Jain & Wallace on SST.

    Needs the folder REGARD_DATA.

    Example:  regard bench judge --json > judge.json
    """
    with requires_extra("test"), user_errors():
        from ..lab.bench import judge as measure

        measure.main(json=json, sentences=sentences)


@app.command("study")
def bench_study(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """What a study itself costs: trials that do nothing.

    200 of them, and two workers beside one.

    Example:  regard bench study --json > study.json
    """
    with requires_extra("studies"):
        from ..lab.bench import study as measure

        measure.main(json=json)
