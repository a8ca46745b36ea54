"""Calls that are right but for one argument, and what may come of them: a sentence, or finite numbers."""

import copy
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from regard import Refused

WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a string": lambda: "wrong",
    "an empty string": lambda: "",
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "-1": lambda: -1,
    "3": lambda: 3,
    "2**70": lambda: 2**70,
    "2.5": lambda: 2.5,
    "-0.5": lambda: -0.5,
    "1e308": lambda: 1e308,
    "1e30": lambda: 1e30,
    "1e-30": lambda: 1e-30,
    "1e-308": lambda: 1e-308,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "-infinity": lambda: float("-inf"),
    "a complex number": lambda: 1j,
    "a list": lambda: [1, 2],
    "an empty tuple": lambda: (),
    "a tuple of strings": lambda: ("a", "b"),
    "a dictionary": lambda: {"a": 1},
    "an object": object,
    "a class": lambda: dict,
    "an array": lambda: np.ones(3),
    "a scalar tensor": lambda: torch.tensor(1.0),
    "a vector": lambda: torch.ones(7),
    "whole numbers": lambda: torch.ones(7, dtype=torch.long),
    "a negative id": lambda: torch.full((2, 3), -1),
    "a far id": lambda: torch.full((2, 3), 99),
    "truths": lambda: torch.ones(3, 5, dtype=torch.bool),
    "complex tensors": lambda: torch.ones(2, 2, 3, 4, dtype=torch.cfloat),
    "three axes": lambda: torch.ones(2, 6, 4),
    "five axes": lambda: torch.ones(1, 2, 2, 3, 4, dtype=torch.float64),
    "another width": lambda: torch.ones(2, 2, 3, 9, dtype=torch.float64),
    "fp16": lambda: torch.ones(2, 2, 3, 4, dtype=torch.float16),
    "nothing": lambda: torch.ones(0),
    "on meta": lambda: torch.ones(2, 2, 3, 4, dtype=torch.float64, device="meta"),
}
ALSO = {  # what else says it: widths and heads by what they are, nodes by the edges that name them
    "d_q": "q of width|",
    "d_k": "k of width|",
    "d": "of width|",
    "bias": "heads=|",
    "x": "edge_index|",
}
NO_NUMBERS = (
    "a string",
    "an empty string",
    "a complex number",
    "a list",
    "an empty tuple",
    "a dictionary",
    "an object",
    "a class",
    "an array",
    "a vector",
    "NaN",
)
SWITCHES = ("None", *NO_NUMBERS, "0", "3", "2.5", "infinity")


class Call(NamedTuple):
    """What is called with what; `use` runs what came of it and gives what must be finite."""

    name: str
    function: Callable[..., Any]
    good: dict[str, Any]
    use: Callable[[Any], Any] = lambda made: made

    def arguments(self) -> list[str]:
        return [x for x, p in inspect.signature(self.function).parameters.items() if p.kind not in (2, 4)]

    def must_refuse(self, argument: str, value: str) -> bool:
        """By the annotation: what is no number where one is wanted, and what is no switch."""
        parameter = inspect.signature(self.function).parameters[argument]
        kind = str(getattr(parameter.annotation, "__name__", parameter.annotation))
        optional = kind.endswith(" | None") or parameter.default is None
        kind = kind.removesuffix(" | None")
        if optional and value == "None":
            return False
        if kind == "bool":
            return value in SWITCHES
        return kind in ("int", "float") and value in (*NO_NUMBERS, "None", "True", "False", "infinity", "2**70")


def finite(found: Any) -> bool:
    tensors = [x for x in tree_leaves(found) if isinstance(x, Tensor) and not x.is_meta]
    return all(bool(x.isfinite().all()) for x in tensors if x.is_floating_point() and x.layout == torch.strided)


def verdict(call: Call, argument: str, value: str) -> str | None:
    """What is wrong with what came of it; None if nothing is."""
    torch.manual_seed(0)
    given = {**copy.deepcopy(call.good), argument: WRONG[value]()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call.use(call.function(**given))
        except (ValueError, TypeError, Refused) as error:
            said = str(error)
            named = re.search(ALSO.get(argument, "") + rf"(?<![A-Za-z]){argument}", said)
            if len(said.split()) < 3 or not named:
                return f"{type(error).__name__} does not name {argument}: {said}"
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    if call.must_refuse(argument, value):
        return f"{value} is taken for {argument}"
    return None if finite(found) else "not finite"


def everything(calls: list[Call]) -> Iterator[tuple[Call, str, str]]:
    for call in calls:
        for argument in call.arguments():
            for value in WRONG:
                yield call, argument, value
