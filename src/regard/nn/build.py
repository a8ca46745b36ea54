"""Builds scores and alignments with parameters from their names, as `nn.Attention(score="additive")` does."""

from ..core.alignments import ALIGNMENTS, Alignment, alignment_of
from ..core.scores import SCORES, Score


def build_score(name: str, d_q: int, d_k: int, heads: int = 1) -> Score:
    """The score of that name for queries of width d_q and keys of width d_k, with parameters of its own for each head.

    Where `attend` takes a name for the parameter-free form ("additive": W = I), this is the learned one:
    Additive(d_q, d_k, heads=heads). Widths of distances are set so that scores of unit-variance vectors vary as
    little as those of scaled dot (Gaussian d_k^(1/4), learned from there; Laplace d_k^(1/2)).
    """
    name = SCORES.own_name(name)
    if name == "location":
        raise ValueError(f'score="location" has a row for each position: pass Location({d_q}, length, heads={heads}).')
    kind = SCORES.built.get(name)
    if kind is None:
        raise SCORES.unknown("score", name, SCORES.built, "a Score object")
    if d_q != d_k and kind.one_width:
        raise ValueError(
            f"score={name!r} compares queries and keys of one width, given d_q={d_q} and d_k={d_k}. "
            '"general" and "additive" take two.'
        )
    return kind.built_for(d_q, d_k, heads)


def build_alignment(name: str, d_q: int, d_k: int, heads: int = 1) -> Alignment:
    """A new alignment of that name; local_predictive and reinforced get their networks."""
    kind = ALIGNMENTS.built.get(ALIGNMENTS.own_name(name))
    return alignment_of(name) if kind is None else kind.built_for(d_q, d_k, heads)  # the first refuses, and says why
