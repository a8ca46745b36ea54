"""regard judge align: links between words against those that people drew."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer.core import TyperCommand

from ..cli_errors import check_output_folder, console, requires_extra, user_errors
from ..output.findings import print_findings
from ..output.help import PlainFlags

if TYPE_CHECKING:
    from ...judging.finding import Finding


def align(
    gold: Annotated[
        Path,
        typer.Option(help="Links that people drew, in Pharaoh's format: a line a pair, i-j sure, ipj possible."),
    ],
    hypothesis: Annotated[Path, typer.Option(help="The links to judge, line by line the same pairs: i-j.")],
    text: Annotated[
        Path | None, typer.Option(help="The pairs themselves, a line a pair: a source ||| a target, words apart.")
    ] = None,
    gold_first: Annotated[int, typer.Option(min=0, max=1, help="How words are counted in --gold: from 0 or 1.")] = 0,
    hypothesis_first: Annotated[int, typer.Option(min=0, max=1, help="The same of --hypothesis.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same intervals.")] = 0,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A folder for findings.json.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead of a table.")] = False,
) -> None:
    """Word alignments: error rate, precision and recall.

    Two files in Pharaoh's format, with intervals, beside the diagonal and
    beside random links. Without --text a sentence is as long as its last link.

    Example:  regard judge align --gold gold.txt --hypothesis mine.txt
    """
    check_output_folder(out)
    with requires_extra("judge"), user_errors():
        from ...core.plural import count_of
        from ...data.readers.pharaoh import aligned_as
        from ...judging.alignment.error_rate import judge_alignment

        links, pairs = aligned_as(gold, hypothesis, text, gold_first, hypothesis_first)
        found = judge_alignment(links, pairs, seed=seed)
        print_findings(found, [_table(found, f"{hypothesis.name}: {count_of(len(pairs), 'pair')}")], json, out)
        if text is None and not json:
            console(stderr=True).print(
                "Without --text a sentence is taken to end with its last link in either file: the diagonal and random "
                "links are drawn for that length.",
                soft_wrap=True,
            )


def _table(findings: "Sequence[Finding]", title: str) -> Table:
    """A row a measure, in percent, with its interval and its baselines."""
    baselines = list(dict.fromkeys(name for one in findings for name in one.baselines))
    table = Table(title=title)
    table.add_column("in %")
    for name in ("value", "interval", *baselines):
        table.add_column(name, justify="right", no_wrap=True)
    for one in findings:
        ends = "" if one.interval is None else f"{one.interval[0]:.1f} to {one.interval[1]:.1f}"
        table.add_row(one.name, _said(one.value), ends, *(_said(one.baselines.get(name)) for name in baselines))
    return table


def _said(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1f}"


_app = typer.Typer(add_completion=False)
_app.command(cls=PlainFlags)(align)


class JudgeCommand(TyperCommand):
    """`regard judge MODEL` judges a model; a first word that is in `commands` is a command of its own. A folder of such
    a name is written ./align."""

    commands = {"align": typer.main.get_command(_app)}  # noqa: RUF012

    def make_context(self, info_name, args, parent=None, **extra):
        chosen = self.commands.get(args[0]) if args else None
        if chosen is None:
            return super().make_context(info_name, args, parent=parent, **extra)
        return chosen.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
