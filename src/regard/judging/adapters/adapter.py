"""Adapter: what a judge needs of a model and its data, on any model that `regard.record` hears."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.recording import intervene, record
from regard.recording.interventions.interventions import Intervention

from .attention_selector import AttentionSelector
from .inputs import Inputs, Instance, NotApplicable
from .place_profile import PlaceProfile, place_profile, relative_weights

T = TypeVar("T")
Forward = Callable[[nn.Module, Inputs], Any]
Changes = Mapping[str, Intervention]
REMOVALS = ("delete", "mask", "blank")
HOLES = (
    "Adapter(removal='mask'): models of regard.models know lengths and no holes; take units away by "
    "removal='delete', or 'blank' with the number of a word."
)


class Adapter:
    """A model and instances: what it predicts, where it looks, and what happens when units are gone.

    model      any nn.Module; it is run in evaluation mode and left as it was
    instances  `Instance`s, or examples of `regard.data` (words and a class)
    forward    function(model, inputs) -> logits (B, classes), or an object that has .logits or .out; without it:
               model(input_ids=, attention_mask=) of transformers, model(batch) of regard.models, else
               model(tokens, real) with both (B, n). One logit is that of the second of two classes
    selector   which weights are judged (`AttentionSelector`); the first row of the last layer unless told
    removal    how a unit is taken away: "delete", "mask", or "blank" with the number of a token
    vectors    the path of the embedding whose gradients are taken; found by what it is given unless told
    size       instances in a batch; few where texts are long, since each is run once for each of its units
    names      what the classes are called
    trivial    by name, the classes that something trivial, such as a bag of words, gives to the same instances
    """

    gives = "classes"
    called_instances = "texts"  # in sentences about them

    def __init__(
        self,
        model: nn.Module,
        instances: "Sequence[Instance | Example]",
        *,
        forward: Forward | None = None,
        selector: AttentionSelector | None = None,
        removal: str = "delete",
        blank: int | None = None,
        vectors: str | None = None,
        size: int = 64,
        names: Sequence[str] = (),
        trivial: "Mapping[str, Sequence[int]] | None" = None,
    ):
        if not instances:
            raise ValueError("Adapter(instances) is empty: a judge needs at least one.")
        _check_removal(removal, blank)
        if size < 1:
            raise ValueError(f"Adapter(size={size}): expected 1 or more instances in a batch.")
        self.model, self.size, self.removal, self.blank = model, size, removal, blank
        self.instances = [_instance(one) for one in instances]
        self.caution = self.remedy = ""  # of a model that was not trained to its end: that it was not, what to type
        self.on_progress: Callable[[int, int], None] | None = None  # called with (instances done, of how many)
        self.names, self.trivial = tuple(names), dict(trivial or {})
        self.selector, self.forward, self._vectors = (
            selector or AttentionSelector(),
            forward or _ready(model, removal),
            vectors,
        )

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def labels(self) -> list[int | None]:
        return [one.label for one in self.instances]

    @property
    def labelled(self) -> bool:
        return all(label is not None for label in self.labels)

    def content(self, place: int) -> list[Tensor | None]:
        """What an instance holds, for those who ask whether it is still the same."""
        one = self.instances[place]
        return [one.tokens, one.special, one.marks, one.places, *([] if one.reading is None else [one.reading])]

    def called(self, label: int) -> str:
        """The name of a class; its number where it has none."""
        return self.names[label] if label < len(self.names) else str(label)

    def batches(self) -> Iterator[list[int]]:
        """Places of instances, the longest first, as many at a time as a batch has."""
        order = sorted(range(len(self)), key=lambda place: -len(self.instances[place].tokens))
        for start in range(0, len(order), self.size):
            yield order[start : start + self.size]
            if self.on_progress is not None:
                self.on_progress(min(start + self.size, len(order)), len(order))

    def with_selector(self, selector: AttentionSelector) -> "Adapter":
        """The same model and instances with another selector: adapter.with_selector(AttentionSelector(layer=0))."""
        made = copy(self)
        made.selector = selector
        for name in ("sites", "place_profile"):  # what was read by the other selector
            made.__dict__.pop(name, None)
        return made

    def removing(self, removal: str, blank: int | None = None) -> "Adapter":
        """The same where units are taken away in another way: adapter.removing("mask")."""
        _check_removal(removal, blank)
        if removal == "mask" and self.forward is _task_model:
            raise NotApplicable("This model knows lengths and no holes: units can be deleted from it, and not masked.")
        made = copy(self)
        made.removal, made.blank = removal, blank
        return made

    def each(self, measure: Callable[[Inputs], Sequence[T]]) -> list[T]:
        """What measure(inputs) has for each item of a batch, in the order of the instances. Batches go by length."""
        found: list[Any] = [None] * len(self)
        for some in self.batches():
            for place, one in zip(some, measure(self.inputs(some)), strict=True):
                found[place] = one
        return found

    def inputs(self, places: Sequence[int]) -> Inputs:
        return Inputs.of([self.instances[place] for place in places], self.device)

    @cached_property
    def device(self) -> torch.device:
        return next((x.device for x in self.model.parameters()), torch.device("cpu"))

    def logits(self, inputs: Inputs, changes: Changes | None = None) -> Tensor:
        """(B, classes), with gradients where they are on; changes are interventions by site."""
        with evaluating(self.model):
            if changes:
                with intervene(self.model, changes):
                    given = self.forward(self.model, inputs)
            else:
                given = self.forward(self.model, inputs)
        return _logits(given, len(inputs))

    def predict(self, inputs: Inputs, changes: Changes | None = None) -> Tensor:
        """(B, classes): probabilities, in double precision."""
        with torch.no_grad():
            found = self.logits(inputs, changes).double().softmax(-1)
        if changes is None and bool(found.isnan().any()):
            raise ValueError(
                f"The model gives no number (NaN, or an infinite logit) for {int(found.isnan().any(-1).sum())} of "
                f"{len(inputs)} instances of a batch: what it says cannot be judged. Check its weights, and what it is "
                "given: a text without any unit, a precision that overflows."
            )
        return found

    def predict_without(self, inputs: Inputs, gone: Tensor) -> Tensor:
        """The same with units taken away, gone (B, n) bool; NaN for a text of which nothing is left."""
        left = inputs.without(gone, self.removal, self.blank)
        long = (left if self.removal == "delete" else inputs).lengths  # what is masked keeps its place, at the end too
        some = left.real.any(-1)
        if bool(some.all()):
            return self.in_parts(left, long)
        if not bool(some.any()):
            classes = self.predict(inputs.chosen(torch.zeros(1, dtype=torch.long, device=gone.device))).shape[-1]
            return torch.full((len(inputs), classes), torch.nan, dtype=torch.float64, device=gone.device)
        found = self.in_parts(left.chosen(some.nonzero()[:, 0]), long[some])
        made = found.new_full((len(inputs), found.shape[-1]), torch.nan)
        made[some] = found
        return made

    def in_parts(self, inputs: Inputs, long: Tensor | None = None) -> Tensor:
        """Predictions of many items, as many at a time as a batch has; short texts, by their lengths long (B,), are not
        run as long ones."""
        long = inputs.lengths if long is None else long
        order = long.argsort(descending=True, stable=True)
        found = torch.cat(
            [self.predict(inputs.chosen(part).cut(int(long[part[0]]))) for part in order.split(self.size)]
        )
        return found[order.argsort()]

    def maps(self, inputs: Inputs) -> Mapping[str, Any]:
        with torch.no_grad(), record(self.model, sites=self.selector.sites) as rec:
            self.logits(inputs)
        return rec.maps

    def attention(self, inputs: Inputs) -> Tensor:
        """(B, n): the weights that are judged."""
        return self.selector.read(self.maps(inputs), inputs).double()

    @cached_property
    def sites(self) -> list[str]:
        """Every site that fits, in the order in which they run."""
        return list(self.maps(self.inputs([0])))

    @cached_property
    def place_profile(self) -> PlaceProfile:
        """The judged weights by place, summed over the instances."""
        return place_profile(self.each(lambda inputs: relative_weights(self.attention(inputs), inputs)))

    @property
    def judged(self) -> list[str]:
        """The sites whose weights are judged."""
        return self.selector.judged(self.sites)

    @cached_property
    def vectors(self) -> list[nn.Module]:
        """The modules that make vectors of tokens."""
        if self._vectors is not None:
            return [self.model.get_submodule(self._vectors)]
        inputs, found = self.inputs([0]), []

        def keep_vectors(module: nn.Module, given: Any, out: Tensor) -> None:
            if given and isinstance(given[0], Tensor) and torch.equal(given[0].reshape(-1), inputs.tokens[0]):
                found.append(module)

        tables = [module for module in self.model.modules() if isinstance(module, nn.Embedding)]
        hooks = [module.register_forward_hook(keep_vectors) for module in tables]
        try:
            with torch.no_grad():
                self.logits(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        if not found:
            raise NotApplicable(
                f"{type(self.model).__name__} has no nn.Embedding that is given the tokens: name the "
                "module that makes their vectors by Adapter(vectors='path')."
            )
        return found


def _check_removal(removal: str, blank: int | None) -> None:
    if removal not in REMOVALS:
        raise ValueError(f"Adapter(removal={removal!r}): expected one of {', '.join(map(repr, REMOVALS))}.")
    if (removal == "blank") != (blank is not None):
        raise ValueError(
            f"Adapter(removal={removal!r}, blank={blank!r}): a blank is given with removal='blank', and only then."
        )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode in this block; each module is left in the mode that it had."""
    modes = [(module, module.training) for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _instance(one: "Instance | Example") -> Instance:
    if isinstance(one, Instance):
        return one
    if isinstance(one, Example) and one.inputs.ndim == 1 and one.target.ndim == 0:
        marks = None if one.gold is None or one.gold.shape != one.inputs.shape else one.gold > 0
        return Instance(one.inputs, int(one.target), marks=marks, name=str(one.id))
    raise TypeError(
        f"Adapter(instances) has a {type(one).__name__}, expected Instance(tokens, label), or an Example "
        "of regard.data with words (n,) and a class. A text with a label becomes "
        "Instance(torch.tensor(tokenizer(text)['input_ids']), label); regard judge MODEL --data FILE reads a file of "
        "texts."
    )


def _ready(model: nn.Module, removal: str) -> Forward:
    """How a model is called, by what its forward takes."""
    names = inspect.signature(model.forward).parameters
    if "input_ids" in names and "attention_mask" in names:
        return lambda model, inputs: model(input_ids=inputs.tokens, attention_mask=inputs.real.long())
    if list(names) == ["batch"]:
        if removal == "mask":
            raise ValueError(HOLES)
        return _task_model
    return lambda model, inputs: model(inputs.tokens, inputs.real)


def _task_model(model: nn.Module, inputs: Inputs) -> Any:
    count = torch.arange(len(inputs), device=inputs.real.device)
    return model(Batch(inputs.tokens, torch.zeros_like(count), inputs.real.sum(-1), count))


def _logits(given: Any, items: int) -> Tensor:
    for name in ("logits", "out"):
        given = getattr(given, name, given) if not isinstance(given, Tensor) else given
    if not isinstance(given, Tensor) or given.shape[0] != items or given.ndim > 2:
        what = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise ValueError(
            f"The model returned {what}, expected logits ({items}, classes): pass Adapter(forward="
            "function(model, inputs)) that returns them."
        )
    given = given.reshape(items, -1)
    return given if given.shape[1] > 1 else torch.cat([torch.zeros_like(given), given], 1)
