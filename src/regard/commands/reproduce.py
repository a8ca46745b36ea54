"""regard reproduce: published judgements of attention, made again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from .bars import telling
from .listing import Listing
from .telling import Device, extra, stop, told

app = typer.Typer(
    cls=Listing,
    help="Make published judgements of attention again, over seeds.",
    epilog="Example:  regard reproduce sst --seeds 8 --out sst-again",
    no_args_is_help=True,
)


@app.callback()
def main() -> None:
    pass


@app.command()
def sst(
    out: Annotated[Path, typer.Option(help="A folder for what was measured; stopped runs go on.")] = Path("sst-again"),
    seeds: Annotated[int, typer.Option(min=1, help="How often each model is trained.")] = 8,
    steps: Annotated[
        str, typer.Option(help="all, or some of weights, uniform, dot, random, seeds, guides, adversary, with commas.")
    ] = "all",
    every: Annotated[int, typer.Option(min=1, help="4: the adversary judges one test sentence in 4.")] = 1,
    device: Device = "cpu",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """A BiLSTM on SST, judged as two papers judged it.

    The papers are Jain & Wallace 2019 and Wiegreffe & Pinter 2019.
    Needs the folder REGARD_DATA and MiniLM.

    Example:  regard reproduce sst --seeds 8 --out sst-again
    """
    if out.exists() and not out.is_dir():
        stop(f"--out {out} is a file; name a folder.")
    with extra("judge"), told():
        from regard.judging.finding import to_json
        from regard.judging.retrained.published import STEPS, reproduce
        from regard.recording.files.writing import write_whole

        chosen = STEPS if steps == "all" else tuple(one.strip() for one in steps.split(","))
        with telling() as tell:
            found = reproduce(out, seeds=seeds, steps=chosen, every=every, device=device, hear=tell)
        text = to_json(found)
        write_whole(out / "findings.json", [text.encode()])
        if json:
            typer.echo(text)
            return
        table = Table(title=f"SST over {seeds} seeds")
        for column in ("what", "value", "interval", "published", "beside it"):
            table.add_column(column)
        for one in found:
            beside = ", ".join(f"{name} {value:.3g}" for name, value in one.baselines.items()
                               if name != "published" and value is not None)  # fmt: skip
            ends = "-" if one.interval is None else f"{one.interval[0]:.3f} to {one.interval[1]:.3f}"
            told_before = one.baselines.get("published")
            table.add_row(one.name, "undefined" if one.value is None else f"{one.value:.3f}", ends,
                          "-" if told_before is None else f"{told_before:g}", beside)  # fmt: skip
        Console().print(table)
