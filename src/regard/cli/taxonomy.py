"""`regard taxonomy`: every mechanism with its place, formula, paper and class."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from .cli_errors import console, fail

if TYPE_CHECKING:
    from ..taxonomy import Mechanism


def _names(incomplete: str) -> list[str]:
    from ..taxonomy import mechanisms

    found = sorted(one.name for one in mechanisms() if one.name.startswith(incomplete))
    if found:
        return found
    aliases = {alias.lower().replace(" ", "_") for one in mechanisms() for alias in one.aliases}
    return sorted(alias for alias in aliases if alias.startswith(incomplete))


def taxonomy(
    name: Annotated[
        str | None,
        typer.Argument(help="A mechanism, by any name: additive, bahdanau, gqa.", autocompletion=_names),
    ] = None,
    since: Annotated[
        int | None, typer.Option("--since", metavar="YEAR", help="Only what was first published in this year or later.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a tree.")] = False,
) -> None:
    """Every attention mechanism: its place, formula, paper, class.

    Example:  regard taxonomy additive
    """
    from ..taxonomy import find, mechanisms

    try:
        found = mechanisms() if name is None else (find(name),)
    except ValueError as problem:
        fail(str(problem))
    if since is not None:
        found = tuple(one for one in found if one.year is not None and one.year >= since)
        if not found:
            fail(f"no mechanism{'' if name is None else f' {name!r}'} was first published in {since} or later.")
    if json:
        _print_json(found)
    elif name is not None and found:
        _print_one(found[0])
    else:
        _print_tree(found)
        made = sum(bool(one.parts) for one in found)
        console(stderr=True).print(
            f"{len(found)} mechanisms, {made} of them with parts and backends; `regard taxonomy NAME` shows one."
        )


def _add_parts(tree: Tree, found: "list[Mechanism]") -> None:
    """The branch of mechanisms since 2017, with their parts and backends."""
    if not found:
        return
    branch = tree.add(Text("Since 2017: parts and backends", "bold"))
    for one in found:
        line = Text.assemble((one.name, "green"), "  ", (one.parts, "cyan"), no_wrap=True, overflow="ellipsis")
        branch.add(line.append(f"  on {', '.join(one.backends)}", "dim"))


def _print_json(found: "tuple[Mechanism, ...]") -> None:
    from json import dumps

    rows = [
        {
            "name": one.name,
            "place": list(one.place),
            "says": one.says,
            "formula": one.formula,
            "papers": one.papers,
            "year": one.year,
            "aliases": list(one.aliases),
            "parts": one.parts,
            "backends": list(one.backends),
            "class": one.where,
            "page": one.page,
        }
        for one in found
    ]
    typer.echo(dumps(rows, indent=2))


def _print_one(one: "Mechanism") -> None:
    shown = console(soft_wrap=True)
    shown.print(Text(one.name, "bold"))
    shown.print(Text(" > ".join(one.place), "dim"))
    shown.print(Text(f"\n{one.says}\n"))
    shown.print(Text("\n".join(f"    {line}" for line in one.formula.splitlines()), "cyan"))
    also = f"aliases {', '.join(one.aliases)}\n" if one.aliases else ""
    made = f"parts   {one.parts}\nruns on {', '.join(one.backends)}\n" if one.parts else ""
    shown.print(Text(f"\n{also}{made}paper   {'; '.join(one.papers) or '-'}\nclass   {one.where}"))


def _print_tree(found: "tuple[Mechanism, ...]") -> None:
    tree = Tree(Text("attention", "bold"))
    branches: dict[tuple[str, ...], Tree] = {(): tree}
    for place, members in groupby(found, lambda one: one.place):
        for depth in range(1, len(place) + 1):
            if place[:depth] not in branches:
                branches[place[:depth]] = branches[place[: depth - 1]].add(Text(place[depth - 1], "bold"))
        for one in members:
            line = Text.assemble((one.name, "green"), "  ", (one.where, "dim"), no_wrap=True, overflow="ellipsis")
            line.append(f"  {'; '.join(one.papers)}" if one.papers else "").append(f"  {one.short}", "cyan")
            branches[place].add(line)
    _add_parts(tree, [one for one in found if one.parts])
    terminal = console()
    (terminal if terminal.is_terminal else console(width=400)).print(tree)  # a pipe gets whole lines
