"""The part of a model before a site, run once: what follows it can then be run a thousand times."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.recording import intervene
from regard.recording.interventions.edits import EditedCall
from regard.recording.interventions.interventions import Here, Intervention


class _Mark(Intervention):
    """Changes nothing, and knows that its site was reached."""

    def __init__(self) -> None:
        self.reached = False

    def apply(self, now: EditedCall, here: Here) -> EditedCall:
        self.reached = True
        return now


@contextmanager
def remembered(model: nn.Module, sites: Sequence[str], run: Callable[[], Tensor]) -> Iterator[None]:
    """In this block, the modules that are done before any of `sites` attends answer with what they said to run().

    run() calls the model; the block must call it with the same inputs, in evaluation mode. Weights may change at the
    sites. No gradient leads into what is remembered. A model that does not repeat itself this way bit for bit (it
    draws, or it writes into what a module returned) is run as a whole instead.
    """
    with torch.no_grad():
        plain = run()
    answers = _answers(model, sites, run)
    played = {module: _Played(module, said) for module, said in answers.items()}

    def rewind(module: nn.Module, given: Any) -> None:
        for one in played.values():
            one.at = 0

    begin = model.register_forward_pre_hook(rewind)
    try:
        for one in played.values():
            one.start()
        with torch.no_grad():
            same = torch.equal(run(), plain)
        if not same:
            for one in played.values():
                one.stop()
        yield
    finally:
        begin.remove()
        for one in played.values():
            one.stop()


def _answers(model: nn.Module, sites: Sequence[str], run: Callable[[], Tensor]) -> dict[nn.Module, list[Any]]:
    """What each module returned, call by call, before a site was reached; not those inside of another one of them."""
    mark, done, starts = _Mark(), list[tuple[nn.Module, Any]](), list[int]()

    def enter(module: nn.Module, given: Any) -> None:
        starts.append(len(done))

    def leave(module: nn.Module, given: Any, out: Any) -> None:
        start = starts.pop()
        if not mark.reached:
            del done[start:]
            done.append((module, out))

    inner = [module for module in model.modules() if module is not model]
    hooks = [module.register_forward_pre_hook(enter) for module in inner]
    hooks += [module.register_forward_hook(leave) for module in inner]
    try:
        with torch.no_grad(), intervene(model, dict.fromkeys(sites, mark)):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    found: dict[nn.Module, list[Any]] = {}
    for module, out in done:
        found.setdefault(module, []).append(out)
    return found


class _Played:
    """A module whose first calls are answered from memory."""

    def __init__(self, module: nn.Module, said: list[Any]):
        self.module, self.said, self.at = module, said, 0
        self.forward, self.own = module.forward, module.__dict__.get("forward")

    def start(self) -> None:
        self.module.forward = self.answer

    def stop(self) -> None:
        self.module.__dict__.pop("forward", None)
        if self.own is not None:
            self.module.forward = self.own

    def answer(self, *given: Any, **named: Any) -> Any:
        self.at += 1
        return self.said[self.at - 1] if self.at <= len(self.said) else self.forward(*given, **named)
