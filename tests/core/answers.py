"""Tables of what is typed and what is answered.

    attend(Q, K, V, over=Causal())
        ValueError: Causal() needs align= … n=3, m=5 … Causal(align="end")

A line of code, then the error and the pieces that its message must hold.
"""

import builtins
import textwrap
from typing import Any, NamedTuple

import pytest

import regard


class Answer(NamedTuple):
    code: str
    kind: type[Exception]
    pieces: list[str]


def answers(table: str) -> list[Answer]:
    lines = [x for x in textwrap.dedent(table).splitlines() if x.strip() and not x.startswith("#")]
    found = []
    for code, said in zip(lines[::2], lines[1::2], strict=True):
        kind, pieces = said.strip().split(": ", 1)
        found.append(Answer(code, getattr(builtins, kind, None) or getattr(regard, kind), pieces.split(" … ")))
    return found


def assert_answered(answer: Answer, names: dict[str, Any]) -> None:
    with pytest.raises(answer.kind) as caught:
        eval(answer.code, names)
    message = str(caught.value)
    missing = [piece for piece in answer.pieces if piece not in message]
    assert not missing, f"{missing} not in: {message}"
    assert message.rstrip().endswith((".", ")"))  # a sentence, or a line of code to type
