"""The token ids that a model is given, tracked by forward hooks, and a description of the model."""

import os
from threading import get_ident
from typing import Any

from ..axes import Run, axis_of_ids


class TokenTracker:
    """Tracks the ids that a model is given, from call to call of a generation, by hooks on the model alone."""

    def __init__(self, model: Any, tokenizer: Any):
        self.tokenizer = tokenizer
        self.runs: list[dict[str, list[list[int]]]] = []
        self.thread = get_ident()
        self.error: Exception | None = None  # the first of the ids that could not be read
        self.handles = [
            module.register_forward_pre_hook(self._hook(side), with_kwargs=True)
            for side, module in self._parts(model).items()
        ]

    @staticmethod
    def _parts(model: Any) -> dict[str, Any]:
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            return {"source": model.get_encoder(), "target": model.get_decoder()}
        return {"source": model}

    def _hook(self, side: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if get_ident() != self.thread:  # a replica of the model runs elsewhere
                return
            try:
                self._read(side, args, kwargs)
            except Exception as error:  # the run goes on without names
                self.error = self.error or error

        return hook

    def _read(self, side: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None or not hasattr(ids, "ndim") or ids.ndim != 2 or ids.is_floating_point():
            return
        length = getattr(kwargs.get("past_key_values"), "get_seq_length", None)
        before = 0 if length is None else int(length())
        self._next(side, ids.tolist(), before)

    def _next(self, side: str, rows: list[list[int]], before: int) -> None:
        """The next ids of this run's sequences, or the first ids of the next run."""
        now = self.runs[-1] if self.runs else {}
        old = now.get(side)
        if before and old is not None and len(old) == len(rows) and all(len(x) >= before for x in old):
            now[side] = [x[:before] + row for x, row in zip(old, rows, strict=True)]
        elif self.runs and (old is None or [row[: len(x)] for x, row in zip(old, rows, strict=False)] == old):
            now[side] = rows
        else:
            self.runs.append({**{other: ids for other, ids in now.items() if side == "target"}, side: rows})

    @property
    def run(self) -> int:
        return max(0, len(self.runs) - 1)

    def stop(self) -> None:
        while self.handles:
            self.handles.pop().remove()

    def axes(self) -> list[Run]:
        return [
            {side: [axis_of_ids(row, self.tokenizer) for row in rows] for side, rows in run.items()}
            for run in self.runs
        ]


def described(model: Any) -> dict[str, Any]:
    """A model for people: class, name, number of parameters, type. A folder's name stands without its path."""
    if model is None:
        return {}
    made: dict[str, Any] = {"class": type(model).__name__}
    name = getattr(getattr(model, "config", None), "name_or_path", None) or getattr(model, "name_or_path", None)
    if isinstance(name, str) and name:
        made["name"] = name.replace("\\", "/").rstrip("/").rpartition("/")[2] if os.path.isabs(name) else name
    parameters = list(model.parameters())
    made["parameters"] = sum(p.numel() for p in parameters)
    if parameters:
        made["dtype"] = str(parameters[0].dtype).removeprefix("torch.")
    return made
