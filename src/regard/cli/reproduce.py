"""regard reproduce: reproductions of published tests of attention."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ..core.plural import count_of
from .cli_errors import Device, check_output_folder, fail, requires_extra, resumable, user_errors
from .output.findings import print_findings
from .output.help import CommandList
from .output.progress import progress_bar

if TYPE_CHECKING:
    from ..judging.finding import Finding

app = typer.Typer(
    cls=CommandList,
    help="Reproduce published tests of attention, over seeds.",
    epilog="Example:  regard reproduce sst --seeds 8 --out sst-again",
    no_args_is_help=True,
)


@app.callback()
def main() -> None:
    pass


@app.command()
def sst(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for measurements; interrupted runs resume.")] = Path(
        "sst-again"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each model.")] = 8,
    steps: Annotated[
        str,
        typer.Option(help="all, or a comma-separated list of weights, uniform, dot, random, seeds, guides, adversary."),
    ] = "all",
    every: Annotated[int, typer.Option(min=1, help="4: run the adversary on every 4th test sentence.")] = 1,
    device: Device = "cpu",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """A BiLSTM on SST: Attention is (not) Explanation.

    Jain & Wallace 2019 and Wiegreffe & Pinter 2019. Needs REGARD_DATA and
    MiniLM. The example trains 77 models, 6 to 120 seconds each on one core,
    about an hour in all; --out keeps the measurements of each, so interrupted
    runs resume. All steps with --seeds 1 --every 8 take about ten minutes.

    Example:  regard reproduce sst --seeds 8 --out sst-again
    """
    check_output_folder(out)
    with requires_extra("judge"), user_errors(), resumable():
        from ..lab.reproductions.published import STEPS, reproduce

        chosen = STEPS if steps == "all" else tuple(one.strip() for one in steps.split(","))
        if seeds == 1 and "seeds" in chosen and steps != "all":
            fail("--steps seeds compares seeds with each other: it needs --seeds 2 or more.")
        with progress_bar() as report:
            found = reproduce(out, seeds=seeds, steps=chosen, every=every, device=device, on_progress=report)
        print_findings(found, _tables(found, f"SST over {count_of(seeds, 'seed')}"), json, out)


def _tables(found: "Sequence[Finding]", title: str) -> Iterator[Table]:
    for test in dict.fromkeys(one.test for one in found):
        yield _table([one for one in found if one.test == test], f"{test}: {title}")


def _table(findings: "Sequence[Finding]", title: str) -> Table:
    table = Table(title=title)
    for column in ("what", "value", "interval", "published", "baselines"):
        table.add_column(column)
    for one in findings:
        beside = ", ".join(
            f"{name} {_said(value)}"
            for name, value in one.baselines.items()
            if name != "published" and value is not None
        )
        ends = "-" if one.interval is None else " to ".join(map(_said, one.interval))
        published = one.baselines.get("published")
        table.add_row(
            one.name,
            "undefined" if one.value is None else _said(one.value),
            ends,
            "-" if published is None else f"{published:g}",
            beside,
        )
    return table


def _said(value: float) -> str:
    """Three digits; a number that they show as 0 has no sign."""
    return f"{round(value, 3) + 0.0:.3f}"
