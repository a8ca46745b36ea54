"""regard judge: tests of a model's attention, in a report."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from .cli_errors import Device, check_output_folder, console, fail, requires_extra, resumable, user_errors
from .output.progress import progress_bar

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
            help="sst, movies, agnews, enfr, or the path of your texts: a .csv, .tsv or .jsonl with text, label and "
            "optionally rationale, or a folder in ERASER format. A run of regard train has its own data."
        ),
    ] = "",
    tests: Annotated[str, typer.Option(help="all, or a comma-separated list.")] = "all",
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the report; interrupted runs resume.")] = Path(
        "report"
    ),
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of texts, evenly spaced.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same report.")] = 0,
    layer: Annotated[str, typer.Option(help="Layer to judge: a number, mean or rollout.")] = "-1",
    row: Annotated[str, typer.Option(help="Row of its map: 0 ([CLS], or the only one), -1 or mean.")] = "0",
    removal: Annotated[
        Removal, typer.Option(help="How units are removed; usual: masked in transformers, else deleted.")
    ] = Removal.usual,
    device: Device = "cpu",
    size: Annotated[int, typer.Option(min=1, help="Texts in a batch.")] = 64,
    again: Annotated[bool, typer.Option("--again", help="Ignore results in the folder and judge again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON too.")] = False,
) -> None:
    """Can attention weights explain the model's predictions?

    Tests with baselines, in one report: a page, JSON, rationales. The model
    is a run of `regard train TASK --out`, or a transformer. Word alignments
    are judged by `regard judge align`.

    Example:  regard judge runs --data sst --limit 300 -o report
              regard judge align --gold gold.txt --hypothesis mine.txt
    """
    check_output_folder(out)
    if out.suffix in (".html", ".json", ".jsonl") and not out.exists():
        fail(f"--out {out}: name a folder, such as {out.stem}/. Its report.html is one file that can be sent alone.")
    with requires_extra("judge"), user_errors(), resumable(saved=not again):
        from ..judging.adapters.attention_selector import AttentionSelector
        from ..judging.judge import judge as run
        from ..judging.suite import chosen
        from .inputs.judge_inputs import ready

        chosen(tests)  # report unknown names before loading anything
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
            goes_on = f" `{adapter.remedy}` resumes it; then judge again." if adapter.remedy else ""
            console(stderr=True).print(f"Half-trained. {report.caution}{goes_on}", style="yellow", soft_wrap=True)
        if json:
            typer.echo(report.json())
            return
        _tell(report, console())
        typer.echo((out / "report.html").resolve())


def _tell(report: "Report", shown: Console) -> None:
    """Prints the answer, cautions, the findings by verdict, and what was not tested."""
    from rich.table import Table
    from rich.text import Text

    from ..judging.report import beside, standing
    from ..judging.summary import QUESTION, TERMS
    from ..judging.validity import weakness
    from ..views.report import GROUPS, number

    summary = report.summary
    shown.print(Text(f"{QUESTION} {summary.answer}", style="bold"))
    for caution in summary.cautions:
        if caution != f"Half-trained. {report.caution}":  # already on stderr, with the command to type
            shown.print(Text(caution, style="yellow"))
    for kind, title, _ in GROUPS:
        some = [one for one in summary.verdicts if one.how == kind]
        if not some:
            continue
        table = Table("test", "what", "value", "interval", "beside", box=None, header_style="dim", title=title)
        table.title_justify, table.title_style = "left", "bold"
        for one in some:
            found = one.finding
            interval = "" if found.interval is None else " to ".join(map(number, found.interval))
            other = found.baselines.get(standing(found)[0] or "")
            name = found.name + (" (a weak measure)" if weakness(found.name) else "")
            table.add_row(
                one.test.name,
                name,
                number(found.value),
                interval,
                f"{beside(found)} {'' if other is None else number(other)}",
            )
        shown.print(table)
    if summary.not_tested:
        shown.print(Text("What was not tested, and why", style="bold"))
    for name, why in summary.left_out.items():
        shown.print(f" {name}: {why}")
    if summary.not_asked:
        shown.print(f" Not requested: {', '.join(summary.not_asked)}.")
    shown.print(Text("Terms", style="bold"))
    for name, meaning in TERMS.items():
        shown.print(Text.assemble((f" {name}", "italic"), f"  {meaning}"))


def _number(given: str) -> int | str:
    return int(given) if given.lstrip("-").isdecimal() else given
