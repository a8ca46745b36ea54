"""Demo: the first screen. One sentence, live, one question and what a test of it found."""

import json

from markupsafe import Markup

from regard.views.page import page_data, script

from .page import PageSection, fill
from .pronouns import CHANCE, PAIRS, PronounResults

LEVEL = 0.05


def section(results: PronounResults) -> PageSection:
    """The picture that everyone shows of attention, live, and the test that it is seldom put to."""
    text, ends, nouns = PAIRS[0]
    site, head = results.head
    turns = [
        [float(results.weights[0, sentence, noun, site, head]) for noun in range(2)] for sentence in range(len(ends))
    ]
    return PageSection(
        title="Does attention show what “it” means?",
        lead=verdict(results),
        html=fill(
            "pronouns.html",
            rows=list(zip(ends, nouns, turns, strict=True)),
            nouns=nouns,
            text=text,
            name=head_name(results),
            right=int(results.right()[site, head]),
            best=int(results.right().max()),
            pairs=len(PAIRS),
            heads=results.right().numel(),
            others=[(text, *ends, *nouns) for text, ends, nouns in PAIRS[1:]],
        ),
        hero=fill(
            "pronouns_hero.html",
            maps=[_embedded(rec) for rec in results.shown],
            ends=ends,
            before=text.partition("{")[0],
            chosen=_chosen(results),
            components=Markup(script()),
            name=head_name(results),
        ),
        found=verdict(results),
    )


def head_name(results: PronounResults) -> str:
    """Layer.head, as the page and the command name it."""
    site, head = results.head
    return f"{site}.{head}"


def verdict(results: PronounResults) -> str:
    """The one line: whether the head that makes the picture follows the meaning when one word turns it."""
    from scipy.stats import binom

    (site, head), right, count = results.head, results.right(), len(PAIRS)
    own, best = int(right[site, head]), int(right.max())
    _, ends, nouns = PAIRS[0]
    weights = results.weights[0, :, :, site, head]
    follows = bool(binom.sf(own - 1, count, CHANCE) < LEVEL)
    stays = bool(weights[1, 0] > weights[1, 1])
    turned = f"with “{ends[1]}”, “it” is the {nouns[1]}, and the same head " + (
        f"still gives the {nouns[0]} {float(weights[1, 0]):.2f} of its weight"
        if stays
        else f"gives the {nouns[1]} {float(weights[1, 1]):.2f} of its weight"
    )
    return (
        f"{'Often' if follows else 'No'}: {turned}. In {count} such pairs its choice followed the meaning in {own}; "
        f"the best of {right.numel()} heads did in {best}, tossing a coin would in {CHANCE * count:.0f}."
    )


def _chosen(results: PronounResults) -> dict[str, int]:
    """Where the page opens: the head of the picture, at "it"."""
    site, head = results.head
    rows = list(results.shown[0].maps.values())[site].rows
    assert rows is not None
    names = [name.strip() for name in rows]
    return {"site": site, "head": head, "row": names.index("it"), "column": names.index(PAIRS[0][2][0])}


def _embedded(rec: "object") -> Markup:
    """The maps of a record as scripts that <template> holds and nothing runs."""
    data, blobs = page_data(rec, title="")  # type: ignore[arg-type]
    parts = [f'<script type="text/plain" data-blob="{i}">{blob}</script>' for i, blob in enumerate(blobs)]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup("".join(parts) + f'<script type="application/json" id="regard-data">{text}</script>')
