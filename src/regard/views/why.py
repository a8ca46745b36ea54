"""A score by what wrote it: as a figure for a paper, as a table in a terminal, in a notebook."""

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.recording import Why

UP, DOWN = "#2563eb", "#c2410c"  # raises the score, lowers it


def why_figure(why: "Why", k: int = 10, ax: Any = None, save: Any = None) -> Any:
    """Bars of the k strongest writers of query and key, and the parts of their pairs between them."""
    import matplotlib
    from matplotlib import pyplot as plt

    from .charts import INK, SOFT
    from .plotting import PAPER, save_figure

    with matplotlib.rc_context(PAPER):
        if ax is None:
            figure, axes = plt.subplots(
                1, 3, figsize=(7.2, 0.9 + 0.19 * k), width_ratios=(1, 1.1, 1), layout="constrained"
            )
        else:
            figure, axes = ax[0].figure, ax
        for panel, side in zip((axes[0], axes[2]), ("query", "key"), strict=True):
            shares = why.by_writer(side, k)[::-1]
            values = [share.value for share in shares]
            panel.barh(range(len(values)), values, color=[UP if v > 0 else DOWN for v in values], height=0.7)
            panel.set_yticks(range(len(values)), [_short(share.name) for share in shares], fontsize=6.5)
            panel.axvline(0, color=SOFT, linewidth=0.6)
            panel.set_title(f"written into the {side}", fontsize=7.5)
            panel.tick_params(axis="x", labelsize=6.5)
            panel.spines[["top", "right", "left"]].set_visible(False)
        middle = axes[1]
        names = [[w for share in why.by_writer(side, k) if (w := share.writer)] for side in ("query", "key")]
        index = [[all_.index(w) for w in some] for all_, some in zip((why.queries, why.keys), names, strict=True)]
        block = why.parts[index[0]][:, index[1]].numpy()
        most = float(abs(block).max()) or 1.0
        middle.imshow(block, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        middle.set_xticks(range(len(names[1])), [_short(w.label) for w in names[1]], rotation=90, fontsize=6)
        middle.set_yticks(range(len(names[0])), [_short(w.label) for w in names[0]], fontsize=6)
        middle.set_title("query writer x key writer", fontsize=7.5)
        figure.suptitle(_title(why), fontsize=8, color=INK)
        if save is not None:
            save_figure(figure, save)
        elif ax is None:
            plt.close(figure)
    return figure


def why_table(why: "Why", k: int = 8) -> Any:
    """The sentence, a rich table of both sides, and one of the strongest pairs: 80 columns wide."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def bar(value: float, most: float) -> Text:
        return Text("█" * max(1, round(8 * abs(value) / most)) if value else "", "blue" if value > 0 else "red")

    def table(*names: str) -> Table:
        made = Table(box=None, header_style="bold")
        for name in names:
            made.add_column(name, justify="right" if not name else "left", no_wrap=True)
            made.add_column("", justify="right", no_wrap=True)
            made.add_column("", no_wrap=True, min_width=8)
        return made

    sides = [why.by_writer(side, k) for side in ("query", "key")]
    most = max([abs(share.value) for shares in sides for share in shares] or [1.0]) or 1.0
    both = table("query from", "key from")
    for row in range(max(len(side) for side in sides)):
        cells: list[Text] = []
        for shares in sides:
            if row < len(shares):
                share = shares[row]
                cells += [Text(_short(share.name)), Text(f"{share.value:+.2f}"), bar(share.value, most)]
            else:
                cells += [Text(), Text(), Text()]
        both.add_row(*cells)
    pairs, parts = why.strongest(k), table("query x key")
    largest = max([abs(pair.value) for pair in pairs] or [1.0]) or 1.0
    for pair in pairs:
        name = f"{_short(pair.query.label)} x {_short(pair.key.label)}"
        parts.add_row(Text(name), Text(f"{pair.value:+.2f}"), bar(pair.value, largest))
    return Group(Text(why.sentence), Text(), both, Text(), parts)


def why_html(why: "Why", k: int = 8) -> str:
    """For a notebook: the sentence and bars of both sides; no script."""
    sides = []
    for side in ("query", "key"):
        shares = why.by_writer(side, k)
        most = max([abs(share.value) for share in shares] or [1.0]) or 1.0
        rows = "".join(_html_row(share.name, share.value, most) for share in shares)
        sides.append(f'<table style="display:inline-table;margin-right:2em"><caption>{side}</caption>{rows}</table>')
    return f"<div><p>{escape(why.sentence)}</p>{''.join(sides)}</div>"


def _html_row(name: str, value: float, most: float) -> str:
    bar = f"width:{100 * abs(value) / most:.0f}%;background:{UP if value > 0 else DOWN}"
    return (
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:right">{value:+.2f}</td>'
        '<td style="min-width:8em;text-align:left">'
        f'<span style="display:inline-block;height:.7em;{bar}"></span></td></tr>'
    )


def _title(why: "Why") -> str:
    where = ""
    if len(why.cells) == 1:
        i, j = why.cell
        where = f": {why.token(i, 'query')} to {why.token(j)}"
    over = f" over {why.against}" if why.against else ""
    return f"head {why.layer}.{why.head}{where}, score {why.score:.2f}{over}"


def _short(name: str, width: int = 18) -> str:
    return name if len(name) <= width else f"{name[:6]}…{name[-(width - 7) :]}"
