"""Which kernels run which alignment and which activation, as docs/backends.md lists it: from what alignments and cores
say of themselves (`kernel_form`) and from the families that each backend says it runs."""

from regard.backends.triton.dense import backend as dense
from regard.backends.triton.edges import backend as edges
from regard.backends.triton.features import backend as features
from regard.core.alignments import ALIGNMENTS, Alignment, Entmax, TopK

COLUMNS = {"triton-dense": dense, "triton-features": features, "triton-edges": edges}


def alignments() -> list[Alignment]:
    """One of each: those that are known by a name, and those that a number makes."""
    named = [kind.built_for(4, 4) for kind in dict.fromkeys(ALIGNMENTS.built.values())]
    return [*named, TopK(8), Entmax(1.3), Entmax(3.0), Entmax(1.5, learned=True)]


def runs(backend: str, align: Alignment) -> bool:
    """Whether the kernels of a backend run an alignment."""
    form = align.kernel_form()
    return form is not None and form.family in COLUMNS[backend].ALIGNMENTS


def tables() -> str:
    """A row for each alignment, a column for each backend, and one for what reads maps: that takes every form."""
    lines = [f"| alignment | {' | '.join(f'`{name}`' for name in COLUMNS)} | reading maps |", "|---" * 5 + "|"]
    for align in alignments():
        form = align.kernel_form()
        cells = ["yes" if runs(name, align) else "" for name in COLUMNS]
        shown = f"`{type(align).__name__}`" + ("" if form is None else f", {form.family}")
        lines.append(f"| {shown} | {' | '.join(cells)} | {'' if form is None else 'yes'} |")
    return "\n".join(lines)
