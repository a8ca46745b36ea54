"""A function of torch that a model calls, and which of its arguments are weights."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from ...missed import Missed
from ..inplace import written_by
from ..module_stack import modules_running
from .arguments import Place, tensors_in
from .function_names import readable
from .late_division import Waiting
from .trace import Trace, run_on_copies

if TYPE_CHECKING:
    from ..function_mode import RecordingMode


class Followed(NamedTuple):
    """An argument that is weights."""

    place: Place
    tensor: Tensor
    trace: Trace

    @property
    def same(self) -> bool:
        """Whether what is followed is the model's own tensor: nothing was dropped out."""
        return self.trace.weights is self.tensor


class TracerStep:
    """func(*args, **kwargs), of the model. name: as `torch_name` says it; weights: the arguments that are followed."""

    def __init__(
        self,
        mode: "RecordingMode",
        name: str,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        live: Any = None,
    ):
        self.mode, self.name, self.func, self.args, self.kwargs = mode, name, func, args, kwargs
        self.weights: list[Followed] = []
        if live is not None and len(live):
            self.weights = [
                Followed(place, x, trace)
                for place, x in tensors_in(args, kwargs)
                if place[0] != "out" and (trace := live.get(x)) is not None
            ]

    def run(self) -> Any:
        """The model's own function, once."""
        return self.mode.run()

    @property
    def operator(self) -> str:
        return readable(self.func)

    @cached_property
    def written(self) -> Tensor | None:
        """The tensor that it changes in place."""
        return written_by(self.func, self.args, self.kwargs)

    @cached_property
    def tensors(self) -> list[Tensor]:
        return [x for _, x in tensors_in(self.args, self.kwargs)]

    @property
    def beside(self) -> list[Tensor]:
        """The tensors that are no weights."""
        return [x for x in self.tensors if not any(x is one.tensor for one in self.weights)]

    def shadow(self, out: Any, before: Tensor | None = None) -> Any:
        """What it makes of the weights from before dropout; `before` is what it wrote into."""
        others = {one.place: one.trace.weights for one in self.weights if not one.same}
        return run_on_copies(self.func, self.args, self.kwargs, others, before) if others else out

    def waits(self, reason: str) -> Waiting:
        """An entry that is told in the end, unless something becomes of it."""
        modules = tuple(reversed([*modules_running()]))
        return Waiting(Missed.here(self.operator, reason), modules, tuple(self.mode.listeners))

    def miss(self, reason: str) -> None:
        self.mode.miss(self.operator, reason)

    def other(self, reason: str) -> None:
        self.mode.other(self.operator, reason)

    def report(self, trace: Trace, reason: str, operator: str | None = None) -> None:
        """Weights met values in a way that gives no map."""
        operator = self.operator if operator is None else operator
        if trace.of_parameters:
            text = f"{trace.how} over outputs of a layer (experts, classes, codes), not over tokens"
            self.mode.other(operator, text)
        else:
            self.mode.miss(operator, f"{trace.how}: {reason}")
