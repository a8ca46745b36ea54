"""The mode that runs the audit: every operator of the dispatcher passes here, below Python and below autograd."""

from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..capture.hidden.custom_operators import custom_operator, visible
from ..capture.module_stack import ModulePaths
from .event import AuditEvent, Line, Start
from .rules import Rules


class Audit(TorchDispatchMode):
    """Marks what normalisations make, follows it, and keeps an event for each time that it meets values.

    events    all of them, in the order in which they ran; see AuditEvent
    failures  operators that could not be followed, with the error: the model's run goes on

    `captured` says, at any moment, whether the recorder is inside a call that it has read.
    """

    supports_higher_order_operators = True  # flex_attention is one

    def __init__(self, model: nn.Module | None = None, captured: Callable[[], bool] = bool) -> None:
        super().__init__()
        self.events: list[AuditEvent] = []
        self.failures: dict[str, str] = {}
        self._thread = get_ident()
        self._paths, self._captured = ModulePaths(model), captured
        self._rules = Rules(self._report, self._start)
        self._captured_starts: set[Start] = set()
        if model is not None:
            self._rules.constants([*model.parameters(), *model.buffers()])

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operator = custom_operator(func)
        if operator is not None:
            with visible(operator, self, lambda: self._thread == get_ident()):
                return func(*args, **kwargs)
        try:
            out = func(*args, **kwargs)
        except RuntimeError:
            if not any(isinstance(x, (bool, int, float, complex)) for x in args[:1]):
                raise
            out = func(torch.scalar_tensor(args[0]), *args[1:], **kwargs)  # a constant of TorchScript comes as a number
        try:
            name = func._schema.name.rpartition("::")[2] if hasattr(func, "_schema") else func.__name__
            self._rules.follow(name, args, kwargs, out)
        except Exception as error:  # the user's run must not end because of the audit
            self.failures.setdefault(str(func), f"{type(error).__name__}: {error}")
        return out

    def silent(self, entries: Iterable[str]) -> list[AuditEvent]:
        """Events without a map and without an entry: pass those of rec.missed and rec.other."""
        entries = list(entries)
        return [event for event in self.events if not event.captured and not any(map(event.is_in, entries))]

    def started(self, start: Start, operator: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        """Weights were made: `out` of `operator`. For those who compare them."""

    def met(self, event: AuditEvent, weights: Tensor | None) -> None:
        """Weights met values; they are given where they were an operand. For those who compare them."""

    def _start(self, start: Start, operator: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        if self._captured():
            self._captured_starts.add(start)
        self.started(start, operator, args, kwargs, out)

    def _report(self, operator: str, starts: frozenset[Start], attention: bool, weights: Tensor | None) -> None:
        site = self._paths.path()
        if site is None:
            return
        made = tuple(sorted(starts, key=lambda start: (start.line.file, start.line.line, start.operator)))
        captured = self._captured() or self._captured_starts.issuperset(starts)
        event = AuditEvent(site, operator, made, attention, captured, Line.running())
        self.events.append(event)
        self.met(event, weights)
