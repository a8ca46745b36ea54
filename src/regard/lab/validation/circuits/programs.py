"""Eight programs: previous token, copy, induction, histogram, double histogram, sort, parentheses depth, most frequent.

Counting is done as RASP does it: a head looks at every match and at the first token, which alone carries a flag; the
weight on it is 1 / (1 + count), and a table reads the count off it.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from .program import Edge, LookupTable, Program, Selection

LENGTH, VOCABULARY = 9, 6  # the first token is a start sign, of the last number


def programs() -> list[Program]:
    """All of them."""
    return [
        previous_token(),
        copy_first(),
        induction(),
        histogram(),
        double_histogram(),
        sort(),
        depth(),
        most_frequent(),
    ]


def _letters(random: torch.Generator, count: int = VOCABULARY) -> Tensor:
    return torch.cat([torch.tensor([count]), torch.randint(0, count, (LENGTH - 1,), generator=random)])


def _one_hot(count: int = VOCABULARY) -> Tensor:
    """Tokens; the start sign is none of them."""
    return torch.cat([torch.eye(count), torch.zeros(1, count)])


def _flag(count: int = VOCABULARY) -> Tensor:
    return torch.eye(count + 1)[:, -1:]


def head_edges(name: str, query: str, key: str, value: str) -> set[Edge]:
    """Who writes what a head needs."""
    return {(query, f"{name}.q"), (key, f"{name}.k"), (value, f"{name}.v")}


def _shift(back: int = 1) -> Tensor:
    """Position i looks for i - back; the first ones for the start."""
    made = torch.zeros(LENGTH, LENGTH)
    for i in range(LENGTH):
        made[i, max(0, i - back)] = 1.0
    return made


def _counts(reads: list[str], width: int, column: int, most: int = LENGTH) -> LookupTable:
    """From 1 / (1 + c) to a one-hot c: bumps around each value, each of three hinges."""
    inner, bias, outer = [], [], torch.zeros(most, 3 * most)
    for c in range(most):
        middle = 1.0 / (1 + c)
        half = 0.5 * (middle - 1.0 / (2 + c))
        for hinge, (edge, slope) in enumerate(((middle - half, 1.0), (middle, -2.0), (middle + half, 1.0))):
            row = torch.zeros(width)
            row[column] = 1.0
            inner.append(row)
            bias.append(-edge)
            outer[c, 3 * c + hinge] = slope / half
    return LookupTable(reads, torch.stack(inner), torch.tensor(bias), outer, "count")


def previous_token() -> Program:
    return Program(
        "previous token",
        {"token": VOCABULARY, "place": LENGTH, "seen": VOCABULARY},
        {"token": _one_hot()},
        {"place": torch.eye(LENGTH)},
        [(Selection("place", "place", _shift(), "token", "seen"), None)],
        "seen",
        head_edges("0.0", "places", "places", "embed"),
        _letters,
        lambda ids: torch.cat([torch.tensor([-1, -1]), ids[1:-1]]),
    )


def copy_first() -> Program:
    match = torch.zeros(LENGTH, LENGTH)
    match[:, 1] = 1.0
    return Program(
        "copy",
        {"token": VOCABULARY, "place": LENGTH, "seen": VOCABULARY},
        {"token": _one_hot()},
        {"place": torch.eye(LENGTH)},
        [(Selection("place", "place", match, "token", "seen"), None)],
        "seen",
        head_edges("0.0", "places", "places", "embed"),
        _letters,
        lambda ids: ids[1].repeat(LENGTH),
    )


def induction() -> Program:
    def answer(ids: Tensor) -> Tensor:
        made = []
        for i in range(len(ids)):
            after = {int(ids[j]) for j in range(1, i + 1) if ids[j - 1] == ids[i]}
            made.append(after.pop() if len(after) == 1 and i else -1)
        return torch.tensor(made)

    def sample(random: torch.Generator) -> Tensor:
        half = torch.randperm(VOCABULARY, generator=random)[: (LENGTH - 1) // 2]
        return torch.cat([torch.tensor([VOCABULARY]), half, half])

    eye = torch.eye(VOCABULARY)
    return Program(
        "induction",
        {"token": VOCABULARY, "place": LENGTH, "before": VOCABULARY, "seen": VOCABULARY},
        {"token": _one_hot()},
        {"place": torch.eye(LENGTH)},
        [
            (Selection("place", "place", _shift(), "token", "before"), None),
            (Selection("token", "before", eye, "token", "seen"), None),
        ],
        "seen",
        head_edges("0.0", "places", "places", "embed") | head_edges("1.0", "embed", "0.0", "embed"),
        sample,
        answer,
        causal=True,
    )


def _counting(name: str, tokens: dict[str, Tensor], match: Tensor, truth: set[Edge], **more: object) -> Program:
    size = len(match)
    return Program(
        name,
        {"token": size, "flag": 1, "place": LENGTH, "share": 1, "count": LENGTH},
        tokens,
        {"place": torch.eye(LENGTH)},
        [(Selection("token", "token", match, "flag", "share"), _counts(["share"], 1, 0))],
        "count",
        truth,
        **more,  # type: ignore[arg-type]
    )


def _counted() -> tuple[dict[str, Tensor], Tensor]:
    """Tokens and a start sign that everyone matches: its letter is the last of the space."""
    size = VOCABULARY + 1
    match = torch.eye(size)
    match[:, -1] = 1.0
    return {"token": torch.eye(size), "flag": _flag()}, match


def _histogram_of(ids: Tensor) -> Tensor:
    made = (ids[:, None] == ids[None]).sum(1)
    made[0] = -1
    return made


def histogram() -> Program:
    tokens, match = _counted()
    return _counting(
        "histogram", tokens, match, head_edges("0.0", "embed", "embed", "embed"), sample=_letters, answer=_histogram_of
    )


def double_histogram() -> Program:
    tokens, match = _counted()
    made = _counting("double histogram", tokens, match, set(), sample=_letters, answer=_double)
    made.spaces |= {"share2": 1, "count2": LENGTH, "start": LENGTH}
    # counts meet counts; the start sign, whose own count is written as none, is met by its flag
    made.spaces["meet"] = 1
    made.token["meet"] = _flag()
    made.token["count"] = torch.zeros(VOCABULARY + 1, LENGTH)
    made.token["count"][-1] = 1.0  # everyone's count meets the start sign
    second = _counts(["share2"], 1, 0)
    second.out = "count2"
    made.layers.append((Selection("count", "count", torch.eye(LENGTH), "flag", "share2"), second))
    made.reads = "count2"
    made.truth = head_edges("0.0", "embed", "embed", "embed") | {
        ("mlp 0", "1.0.q"),
        ("mlp 0", "1.0.k"),
        ("embed", "1.0.k"),
        ("embed", "1.0.v"),
    }
    return made


def _double(ids: Tensor) -> Tensor:
    counts = _histogram_of(ids)
    made = (counts[:, None] == counts[None]).sum(1)
    made[0] = -1
    return made


def sort() -> Program:
    """Distinct tokens: the rank of each is how many are smaller; position i looks for rank i - 1."""
    count = LENGTH + 3
    size = count + 1
    match = torch.zeros(size, size)
    for a in range(count):
        match[a, :a] = 1.0
        match[a, -1] = 1.0
    wanted = torch.zeros(LENGTH, LENGTH)
    for i in range(1, LENGTH):
        wanted[i, i - 1] = 1.0

    def sample(random: torch.Generator) -> Tensor:
        return torch.cat([torch.tensor([count]), torch.randperm(count, generator=random)[: LENGTH - 1]])

    def answer(ids: Tensor) -> Tensor:
        return torch.cat([torch.tensor([-1]), ids[1:].sort().values])

    return Program(
        "sort",
        {"token": size, "flag": 1, "place": LENGTH, "share": 1, "count": LENGTH, "seen": size},
        {"token": torch.eye(size), "flag": _flag(count)},
        {"place": torch.eye(LENGTH)},
        [
            (Selection("token", "token", match, "flag", "share"), _counts(["share"], 1, 0)),
            (Selection("place", "count", wanted, "token", "seen"), None),
        ],
        "seen",
        head_edges("0.0", "embed", "embed", "embed") | head_edges("1.0", "places", "mlp 0", "embed"),
        sample,
        answer,
    )


def depth() -> Program:
    """Everyone looks at all tokens so far alike: the average of +1 and -1, times the place, is the depth."""
    deepest = (LENGTH - 1) // 2
    inner: list[Tensor] = []
    bias: list[float] = []
    outer = torch.zeros(deepest + 1, 3 * LENGTH * (deepest + 1))
    for place in range(LENGTH):
        for level in range(deepest + 1):
            middle, half = level / (place + 1), 0.5 / (place + 1)
            for edge, slope in ((middle - half, 1.0), (middle, -2.0), (middle + half, 1.0)):
                row = torch.zeros(1 + LENGTH)
                row[0], row[1 + place] = 1.0, 4.0
                outer[level, len(inner)] = slope / half
                inner.append(row)
                bias.append(-4.0 - edge)
    table = LookupTable(["mean", "place"], torch.stack(inner), torch.tensor(bias), outer, "depth")

    def sample(random: torch.Generator) -> Tensor:
        made, open_ = [2], 0
        for left in range(LENGTH - 1, 0, -1):
            must = open_ == 0, open_ == left
            one = 0 if must[0] else 1 if must[1] else int(torch.randint(0, 2, (1,), generator=random))
            open_ += 1 - 2 * one
            made.append(one)
        return torch.tensor(made)

    sign = torch.tensor([[1.0], [-1.0], [0.0]])

    def answer(ids: Tensor) -> Tensor:
        return sign[ids, 0].cumsum(0).long()

    return Program(
        "parentheses depth",
        {"sign": 1, "place": LENGTH, "mean": 1, "depth": deepest + 1},
        {"sign": sign},
        {"place": torch.eye(LENGTH)},
        [(Selection("place", "place", torch.zeros(LENGTH, LENGTH), "sign", "mean"), table)],
        "depth",
        {("embed", "0.0.v")},
        sample,
        answer,
        causal=True,
    )


def most_frequent() -> Program:
    """Tokens are counted; then everyone looks at the tokens with the largest count."""
    tokens, match = _counted()
    made = _counting("most frequent", tokens, match, set(), sample=_letters, answer=_mode)
    made.spaces["seen"] = VOCABULARY + 1
    larger = torch.arange(LENGTH).float().repeat(LENGTH, 1) / 2
    made.layers.append((Selection("place", "count", larger, "token", "seen"), None))
    made.reads, made.readout = "seen", torch.eye(VOCABULARY + 1)[:VOCABULARY]
    made.truth = head_edges("0.0", "embed", "embed", "embed") | head_edges("1.0", "places", "mlp 0", "embed")
    return made


def _mode(ids: Tensor) -> Tensor:
    counts = F.one_hot(ids[1:], VOCABULARY).sum(0)
    best = counts.max()
    one = int(counts.argmax()) if int((counts == best).sum()) == 1 else -1
    return torch.full((LENGTH,), one)
