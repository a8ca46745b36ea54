"""regard judge: a model's attention put to the tests, and a report that anyone can open."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from .cli_errors import Device, check_output_folder, console, fail, requires_extra, resumable, user_errors
from .progress import progress_bar

if TYPE_CHECKING:
    from ..judging.report import Report


class Removal(StrEnum):
    """How a unit is removed from an input."""

    usual = "usual"
    delete = "delete"
    mask = "mask"


def judge(
    model: Annotated[
        str, typer.Argument(help="A folder of regard train --out or of transformers, an installed package, a hub name.")
    ],
    data: Annotated[
        str,
        typer.Option(
            help="sst, movies, agnews, enfr, or a .csv or .jsonl file with text, label and, if any, rationale; a run "
            "of regard train has its own."
        ),
    ] = "",
    tests: Annotated[str, typer.Option(help="all, or names with commas between them.")] = "all",
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder for the report; stopped runs go on.")] = Path(
        "report"
    ),
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many texts, spread over all of them.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same report.")] = 0,
    layer: Annotated[str, typer.Option(help="Which layer is judged: a number, mean or rollout.")] = "-1",
    row: Annotated[str, typer.Option(help="Which row of it: 0 ([CLS], or the only one), -1 or mean.")] = "0",
    removal: Annotated[
        Removal, typer.Option(help="How a unit is taken away; usual: masked in transformers, deleted elsewhere.")
    ] = Removal.usual,
    device: Device = "cpu",
    size: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 64,
    again: Annotated[bool, typer.Option("--again", help="Judge anew what the folder has already.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON too.")] = False,
) -> None:
    """May its attention be used as a reason for what a model says?

    Tests beside their baselines, in one report: a page, JSON, rationales.
    The model is one of `regard train TASK --out`, or a transformer.

    Example:  regard judge runs --data sst --limit 300 -o report
    """
    check_output_folder(out)
    if out.suffix in (".html", ".json", ".jsonl") and not out.exists():
        fail(f"--out {out}: name a folder, such as {out.stem}/. Its report.html is one file that can be sent alone.")
    with requires_extra("judge"), user_errors(), resumable(saved=not again):
        from ..judging.adapters.attention_selector import AttentionSelector
        from ..judging.judge import judge as run
        from ..judging.suite import chosen
        from .inputs.judge_inputs import ready

        chosen(tests)  # a wrong name is told before anything is loaded
        selector = AttentionSelector(layer=_number(layer), row=_number(row))
        with progress_bar() as show_progress:
            adapter, name = ready(
                model,
                data,
                limit=limit,
                selector=selector,
                device=device,
                size=size,
                removal="" if removal is Removal.usual else removal.value,
            )
            now: tuple[str, int, int | None] = ("loading", 0, None)

            def on_progress(done: int, of: int, test: str) -> None:
                nonlocal now
                now = (test, done, of)
                show_progress(*now)

            adapter.on_progress = lambda done, of: show_progress(*now, f"{done}/{of} texts")
            report = run(
                adapter,
                tests=tests,
                seed=seed,
                folder=out,
                again=again,
                on_progress=on_progress,
                about={"model": name, "data": Path(data).name or "its own test part"},
            )
            show_progress("drawing")
            report.save(out)
        if report.caution:
            goes_on = f" `{adapter.remedy}` goes on with it; then judge again." if adapter.remedy else ""
            console(stderr=True).print(f"Half-trained. {report.caution}{goes_on}", style="yellow", soft_wrap=True)
        if json:
            typer.echo(report.json())
            return
        _tell(report, console())
        typer.echo((out / "report.html").resolve())


def _tell(report: "Report", shown: Console) -> None:
    """The headlines as a table; what was left out under it."""
    from rich.table import Table

    from ..judging.report import beside, standing
    from ..views.report import number

    table = Table("test", "what", "value", "interval", "beside", box=None, header_style="bold")
    for test, one in report.headlines():
        interval = "" if one.interval is None else " to ".join(map(number, one.interval))
        other = one.baselines.get(standing(one)[0] or "")
        table.add_row(
            test.name, one.name, number(one.value), interval, f"{beside(one)} {'' if other is None else number(other)}"
        )
    shown.print(table)
    for name, why in report.left_out.items():
        shown.print(f"{name} was left out: {why}")


def _number(given: str) -> int | str:
    return int(given) if given.lstrip("-").isdecimal() else given
