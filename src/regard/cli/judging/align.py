"""regard judge align: word alignments against human ones."""

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
        typer.Option(help="Gold links in Pharaoh's format: a line for each pair, i-j sure, ipj possible."),
    ],
    hypothesis: Annotated[Path, typer.Option(help="Links to judge, i-j, a line for each of the same pairs.")],
    text: Annotated[
        Path | None,
        typer.Option(help="The sentence pairs, one a line: a source ||| a target, words separated by blanks."),
    ] = None,
    gold_first: Annotated[int, typer.Option(min=0, max=1, help="Index of the first word in --gold: 0 or 1.")] = 0,
    hypothesis_first: Annotated[int, typer.Option(min=0, max=1, help="Index of the first word in --hypothesis.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same intervals.")] = 0,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A folder for findings.json.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead of a table.")] = False,
) -> None:
    """Word alignments: error rate, precision and recall.

    Two files in Pharaoh's format, with intervals; baselines: the diagonal and
    random links. Without --text a sentence ends with its last link.

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
                "Without --text a sentence ends with its last link in either file: the diagonal and random "
                "links use that length.",
                soft_wrap=True,
            )


def _table(findings: "Sequence[Finding]", title: str) -> Table:
    """A row for each metric, in percent, with its interval and baselines."""
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
    """`regard judge MODEL` judges a model; a first word in `commands` is a subcommand. Write ./align for a folder of
    that name."""

    commands = {"align": typer.main.get_command(_app)}  # noqa: RUF012

    def make_context(self, info_name, args, parent=None, **extra):
        chosen = self.commands.get(args[0]) if args else None
        if chosen is None:
            return super().make_context(info_name, args, parent=parent, **extra)
        return chosen.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
