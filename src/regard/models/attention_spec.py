"""The specification of an attention and its grammar, shared by `regard train --attention` and by studies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches

from ..core.alignments import ALIGNMENTS as _ALIGNMENTS
from ..core.alignments import Alignment, Entmax, TopK
from ..core.arguments.synonyms import ALIGNMENTS_ALSO, SCORES_ALSO, spelled
from ..core.scores import SCORES as _SCORES

SCORES, ALIGNMENTS = _SCORES.built, _ALIGNMENTS.built  # by name, with parameters of their own
WHOLE = ("none", "mean")  # no score and alignment
QUERIES = ("learned", "summary", "mean")
SIZED: dict[str, tuple[Callable[[str], Alignment], str]] = {  # with a number: top_k=8, entmax=1.3
    "top_k": (lambda number: TopK(int(number)), "a whole number of keys a row, such as top_k=8"),
    "entmax": (lambda number: Entmax(float(number)), "a number above 1, such as entmax=1.3"),
}


@dataclass(frozen=True)
class AttentionSpec:
    """An attention as a score, an alignment and its options.

    score, align   "additive" and "softmax" unless given; score is "none" or "mean" for no attention; some
                   alignments take a number: "top_k=8", "entmax=1.3"
    heads          more than 1: projections and heads (nn.Attention)
    hops           more than 1: each hop updates the query (nn.MultiHopAttention)
    features       feature-wise weights instead of one weight for each value
    frozen         the parameters of the attention and of a learned query keep their initial values
    query          replaces the task's own query: learned, summary (last states), mean (of the features)
    """

    score: str = "additive"
    align: str = "softmax"
    heads: int = 1
    hops: int = 1
    features: bool = False
    frozen: bool = False
    query: str = ""

    def __post_init__(self) -> None:
        for name in ("heads", "hops"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"attention with {name}={size!r}: expected a whole number, 1 or more.")
        if self.score not in (*SCORES, *WHOLE):
            raise ValueError(f"score {self.score!r} is unknown: {_near(self.score, SCORES)}")
        if self.align.partition("=")[0] in SIZED:
            self.alignment  # noqa: B018 built once, so that a wrong number is refused early
        elif self.align not in ALIGNMENTS:
            raise ValueError(f"alignment {self.align!r} is unknown: {_near(self.align, (*ALIGNMENTS, *SIZED))}")
        if self.query not in ("", *QUERIES):
            raise ValueError(f"query {self.query!r} is unknown: {_near(self.query, QUERIES)}")
        plain = all(getattr(self, one.name) == one.default for one in fields(self)[1:])
        if self.score in WHOLE and not plain:
            raise ValueError(
                f"attention {self.score!r} is no attention: it takes no alignment, heads, hops, features, "
                "query or frozen."
            )
        if (self.heads > 1) + (self.hops > 1) + self.features > 1:
            raise ValueError("heads, hops and features cannot be combined: use one of them.")
        if self.features and not SCORES[self.score].takes_features():
            by_feature = ", ".join(name for name, score in SCORES.items() if score.takes_features())
            raise ValueError(
                f"features: the score {self.score!r} is not feature-wise; scores that can be are {by_feature}."
            )

    @property
    def alignment(self) -> "str | Alignment":
        """The `align` argument of modules: the name, or the object built with the number."""
        name, _, number = self.align.partition("=")
        if name not in SIZED:
            return self.align
        make, expected = SIZED[name]
        try:
            return make(number)
        except ValueError:
            raise ValueError(f"alignment {self.align!r}: expected {expected}.") from None

    def __str__(self) -> str:
        """The shortest name that parses to this specification: 'additive', 'dot+entmax15 heads=4 frozen'."""
        said = [self.score if self.align == "softmax" else f"{self.score}+{self.align}"]
        if self.score == "additive" and self.align != "softmax":
            said = [self.align]
        for one in fields(self)[2:]:
            value = getattr(self, one.name)
            if value != one.default:
                said.append(one.name if value is True else f"{one.name}={value}")
        return " ".join(said)


def parse_attention(name: str) -> AttentionSpec:
    """The specification that a name describes.

    a score             additive, dot, scaled_dot, general, cosine, ...: with softmax
    an alignment        uniform, hard, sparsemax, local, ...: with the additive score
    score+alignment     general+local_predictive, dot+entmax15, dot+top_k=8
    none, mean          no attention: the summary of the features (last states), or their mean
    further words       heads=4, hops=2, features, frozen, query=mean
    """
    first, *words = name.split() or [""]
    score, _, align = first.partition("+")
    score, align = SCORES_ALSO.get(spelled(score), score), ALIGNMENTS_ALSO.get(spelled(align), align)
    if not align and (score in ALIGNMENTS or score.partition("=")[0] in SIZED):
        score, align = "additive", score
    known = (*ALIGNMENTS, *SIZED)
    if score not in (*SCORES, *WHOLE) or (align and align.partition("=")[0] not in known):
        wrong = align if score in SCORES else score
        close = get_close_matches(wrong.partition("=")[0], [*SCORES, *known, *WHOLE], n=3)
        near = f" Did you mean {', '.join(close)}?" if close else ""
        raise ValueError(
            f"attention {name!r}: expected none, mean, a score ({', '.join(SCORES)}), an alignment "
            f"({', '.join(ALIGNMENTS)}, top_k=8, entmax=1.3), or both joined by +, such as "
            f"general+local_predictive.{near}"
        )
    options: dict[str, int | bool | str] = {}
    for word in words:
        key, given, value = word.partition("=")
        if key in ("heads", "hops") and value.isdecimal():
            options[key] = int(value)
        elif key in ("features", "frozen") and not given:
            options[key] = True
        elif key == "query" and value:
            options[key] = value
        else:
            raise ValueError(
                f"attention {name!r}: {word!r} is unknown; after the name come heads=4, hops=2, "
                f"features, frozen, query={'|'.join(QUERIES)}."
            )
    return AttentionSpec(score, align or "softmax", **options)  # type: ignore[arg-type]


def _near(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=3, cutoff=0.6)
    return f"did you mean {', '.join(close)}?" if close else f"expected one of {', '.join(names)}."
