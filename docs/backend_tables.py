"""Which backends run which alignment, core, modifier, term and structure, as docs/backends.md lists it: from the forms
that these declare (`kernel_form`) and from what each backend says it runs (`Backend.support`)."""

import regard  # noqa: F401 backends enlist
from regard.core.alignments import ALIGNMENTS, Alignment, Entmax, TopK
from regard.core.lowering.support import Support
from regard.core.registry import backends

COLUMNS: dict[str, Support] = {one.name: one.support for one in backends() if one.support is not None}
HEAD = f"{' | '.join(f'`{name}`' for name in COLUMNS)} |"


def alignments() -> list[Alignment]:
    """One of each: those that are known by a name, and those that a number makes."""
    named = [kind.built_for(4, 4) for kind in dict.fromkeys(ALIGNMENTS.built.values())]
    return [*named, TopK(8), Entmax(1.3), Entmax(3.0), Entmax(1.5, learned=True)]


def runs(backend: str, align: Alignment) -> bool:
    """Whether a backend runs an alignment."""
    form = align.kernel_form()
    return form is not None and form.family in COLUMNS[backend].alignments


def tables() -> str:
    """The alignments, with a column for what reads maps, which takes every form; then cores, modifiers and terms of
    scores, and structures."""
    lines = [f"| alignment | {HEAD} reading maps |", "|---" * (len(COLUMNS) + 2) + "|"]
    for align in alignments():
        form = align.kernel_form()
        cells = ["yes" if runs(name, align) else "" for name in COLUMNS]
        shown = f"`{type(align).__name__}`" + ("" if form is None else f", {form.family}")
        lines.append(f"| {shown} | {' | '.join(cells)} | {'' if form is None else 'yes'} |")
    return "\n".join([*lines, "", *table("core of a score", "cores"), "", *more_tables()])


def more_tables() -> list[str]:
    beside = [*table("beside the core", "modifiers"), *table("beside the core", "terms")[2:]]
    return [*beside, "", *table("structure", "structures")]


def table(title: str, kind: str) -> list[str]:
    """A row for each family of a kind that some backend lists."""
    families = dict.fromkeys(family for support in COLUMNS.values() for family in listed_by(support, kind))
    lines = [f"| {title} | {HEAD}", "|---" * (len(COLUMNS) + 1) + "|"]
    for family in families:
        cells = ["yes" if lists(support, kind, family) else "" for support in COLUMNS.values()]
        lines.append(f"| {family.replace('|', chr(92) + '|')} | {' | '.join(cells)} |")
    return lines


def listed_by(support: Support, kind: str) -> tuple[str, ...]:
    families: tuple[str, ...] = getattr(support, kind)
    return families


def lists(support: Support, kind: str, family: str) -> bool:
    """Whether a backend runs a family: it, or of modifiers one that holds it, is listed."""
    return support.modifies(family) if kind == "modifiers" else family in listed_by(support, kind)
