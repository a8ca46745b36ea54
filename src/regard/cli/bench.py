"""regard bench: Regard compared with its peers and the limits of the machine."""

from pathlib import Path
from typing import Annotated

import typer

from .cli_errors import requires_extra, user_errors
from .output.help import CommandList

app = typer.Typer(
    cls=CommandList,
    help="Benchmarks against peers and hardware limits.",
    epilog="Example:  regard bench graph --json > graph.json",
    no_args_is_help=True,
)


@app.command()
def core(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The core against SDPA and entmax; memory; a pyramid.

    The backend sdpa against bare SDPA, memory of additive attention, sparse
    alignments against entmax, the pyramid of a long map.

    Example:  regard bench core --json > core.json
    """
    with requires_extra("test"):
        from ..lab.bench.core import main

        main(json=json)


@app.command()
def graph(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    peers: Annotated[bool, typer.Option(help="Also measure torch_geometric.")] = True,
) -> None:
    """Graph layers against torch_geometric and the gather bound.

    GATConv, GATv2Conv and TransformerConv, forward and backward.

    Example:  regard bench graph --json > graph.json
    """
    from ..lab.bench.graph import main

    main(json=json, peers=peers)


@app.command()
def dense(
    parts: Annotated[
        str,
        typer.Option(
            help="additive, gaussian, window, modified, sigmoid, entmax, best, shared, features, pyramids; or all."
        ),
    ] = "all",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Dense GPU kernels against torch.compile, SDPA and others.

    Additive against torch.compile, entmax against AdaSplash, windows against
    FlexAttention, others against SDPA; each after a check that both agree.

    Example:  regard bench dense --parts additive,entmax --json > dense.json
    """
    with user_errors():
        from ..lab.bench.dense import main

        main(parts, json)


@app.command("record")
def bench_record(
    parts: Annotated[str, typer.Option(help="overhead, forward; or all.")] = "all",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The overhead of recording, against output_attentions=True.

    Overhead: the first block of a process, layers without attention,
    BERT, a generation. Forward: long inputs, and their memory.

    Example:  regard bench record --parts overhead
    """
    with requires_extra("models"), user_errors():
        from ..lab.bench import record

        record.main(parts, json)


@app.command("monitor")
def bench_monitor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The overhead of a monitor in a training step.

    Layers on SDPA and a BERT with materialised weights: forward, backward
    and update, against plain steps.

    Example:  regard bench monitor --json > monitor.json
    """
    with requires_extra("models"), user_errors():
        from ..lab.bench import monitor

        monitor.main(json)


@app.command()
def view(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    scripts: Annotated[
        Path | None,
        typer.Option(help="A node_modules with d3, jquery and requirejs, which BertViz fetches from a CDN."),
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of a page in seconds.")] = 240,
) -> None:
    """Pages in a browser against BertViz and inspectus.

    Peers that are not installed are skipped.

    Example:  regard bench view --json > view.json
    """
    with requires_extra("test"), user_errors():
        from ..lab.bench.view import main

        main(json=json, scripts=scripts, limit=limit)


@app.command()
def judge(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    sentences: Annotated[int | None, typer.Option(min=1, help="Number of test sentences instead of all 1,821.")] = None,
) -> None:
    """Judging: four tests of Jain & Wallace on SST.

    Needs the folder REGARD_DATA.

    Example:  regard bench judge --json > judge.json
    """
    with requires_extra("test"), user_errors():
        from ..lab.bench.judge import main

        main(json=json, sentences=sentences)


@app.command("study")
def bench_study(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The overhead of a study: no-op trials.

    200 of them, and two workers against one.

    Example:  regard bench study --json > study.json
    """
    with requires_extra("studies"):
        from ..lab.bench.study import main

        main(json=json)
