"""regard bench: Regard beside its peers and the limits of the machine."""

from typing import Annotated

import typer

from .telling import extra

app = typer.Typer(help="Measure Regard beside its peers and the limits of the machine.", no_args_is_help=True)


@app.command()
def core(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The core: sdpa beside bare SDPA, additive memory, sparse alignments beside entmax, a pyramid.

    Example:  regard bench core --json > core.json
    """
    with extra("test"):
        from regard.bench import core as measure

        measure.main(json=json)


@app.command()
def graph(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure torch_geometric too.")] = True,
) -> None:
    """Graph layers: GATConv, GATv2Conv and TransformerConv beside torch_geometric and the gather bound.

    Example:  regard bench graph --json > graph.json
    """
    from regard.bench import graph as measure

    measure.main(json=json, peers=peers)


@app.command("record")
def bench_record(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Recording beside not recording, and beside the slow path that writes every weight out.

    Example:  regard bench record --json > record.json
    """
    with extra("models"):
        from regard.bench import record as measure

        measure.main(json=json)
