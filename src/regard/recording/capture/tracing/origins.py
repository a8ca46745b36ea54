"""What is known of a tensor before any softmax: which of its axes index parameters, and whether it is a product.

    x @ W            its last axis counts the columns of W: features, classes, experts, codes
    q @ k^T          a product of two activations; its axes count tokens

A softmax over an axis of the first kind weighs experts, classes or codes, and no activations: it is no attention.
"""

from dataclasses import dataclass
from typing import Any
from weakref import ref

from torch import Tensor, nn

from ..inplace import memory
from ..module_stack import modules_running
from .arguments import argument, tensors_in, tensors_out
from .axis_flow import Flow, flows
from .contractions import READERS, Contraction, contraction
from .function_table import BENDS, CONVOLUTIONS, ELEMENTWISE, SAME_AXES, VIEWS, names


@dataclass(frozen=True)
class Origin:
    """features: axes that index parameters. product: of two activations; bent by a function that is not linear.
    outer: a product of features with features of each token; state: the same, summed over tokens. sampled: by
    grid_sample."""

    features: frozenset[int] = frozenset()
    product: bool = False
    constant: bool = False
    outer: bool = False
    state: bool = False
    sampled: bool = False
    bent: bool = False


UNKNOWN = Origin()
CONSTANT = Origin(constant=True)
PASSED_ON = ELEMENTWISE | SAME_AXES | VIEWS | names("getitem stack repeat repeat_interleave roll max min")
DISTANCES = names("cdist cosine_similarity pairwise_distance")  # as good as a product, where both are activations
MADE = frozenset(READERS) | CONVOLUTIONS | DISTANCES | names("embedding grid_sample")


class Origins:
    """By tensor, held weakly."""

    def __init__(self) -> None:
        self._table: dict[int, tuple[Any, Origin]] = {}
        self._constants: dict[int, tuple[Any, dict[int, int]]] = {}
        self._written: set[int | None] = set()

    def of(self, x: Any) -> Origin:
        found = self._table.get(id(x))
        return found[1] if found is not None and found[0]() is x else UNKNOWN

    def parametric(self, x: Tensor, axis: int | None) -> bool:
        """Whether an axis of scores counts outputs of a layer: not in a product of two activations (Linformer)."""
        origin = self.of(x)
        return origin.constant or (axis in origin.features and not origin.product)

    def known(self, x: Any) -> bool:
        found = self._table.get(id(x))
        return found is not None and found[0]() is x

    def put(self, x: Tensor, origin: Origin) -> None:
        if len(self._table) > 2048:
            self._table = {key: found for key, found in self._table.items() if found[0]() is not None}
        self._table[id(x)] = ref(x), origin

    def constant(self, x: Tensor) -> bool:
        """Whether it is a parameter, a buffer that nobody writes into, or a view of one."""
        if isinstance(x, nn.Parameter) or self.of(x).constant:
            return True
        where = memory(x)
        if where in self._written:
            return False
        outermost = next(reversed([*modules_running()]), None)
        if where is None or outermost is None or x.is_inference():
            return False
        return self._parameters(outermost).get(where) == x._version

    def write(self, x: Tensor) -> None:
        """The model writes into a tensor: a buffer may be a cache of keys, which are activations."""
        if not isinstance(x, nn.Parameter):
            self._written.add(memory(x))

    def _parameters(self, module: nn.Module) -> dict[int, int]:
        """Where the parameters and buffers of a model lie, and how often each was written into."""
        found = self._constants.get(id(module))
        if found is None or found[0]() is not module:
            kept = [*module.parameters(), *module.buffers()]
            places = {where: x._version for x in kept if not x.is_inference() and (where := memory(x)) is not None}
            found = self._constants[id(module)] = ref(module), places
        return found[1]

    def activation(self, x: Tensor) -> bool:
        """Whether it may depend on the input: a tensor of real or complex numbers that is no constant."""
        return (x.is_floating_point() or x.is_complex()) and not self.constant(x)

    def see(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """A function ran: what is known of its output."""
        if name in READERS:
            self._product(name, args, kwargs, out)
        elif name in CONVOLUTIONS:
            weight = argument(args, kwargs, 1, "weight")
            self.put(out, Origin(frozenset({out.ndim - weight.ndim + 1})))
        elif name == "embedding":
            self.put(out, Origin(frozenset({out.ndim - 1})))
        elif name in DISTANCES:
            given = [x for _, x in tensors_in(args, kwargs)]
            if isinstance(out, Tensor) and len(given) > 1 and not any(map(self.constant, given)):
                self.put(out, Origin(product=True))
        elif name == "grid_sample":
            self.put(out, Origin(frozenset({1}), sampled=True))
        else:
            self._carry(name, func, args, kwargs, out)

    def _product(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        if not isinstance(out, Tensor) or out.ndim == 0:
            return
        if name == "linear":
            weight = argument(args, kwargs, 1, "weight")
            if not self.known(weight) or self.of(weight).constant:
                constant = self.constant(args[0]) if args and self.known(args[0]) else False
                rows = self.of(args[0]).features if args else frozenset()
                last = args[0].ndim - 1 if args else -1
                self.put(out, Origin(frozenset({i for i in rows if i != last} | {out.ndim - 1}), constant=constant))
                return
        made = contraction(name, args, kwargs)
        if made is not None and len(made.out) == out.ndim:
            self.put(out, self._of_contraction(made))

    def _of_contraction(self, made: Contraction) -> Origin:
        constant = [self.constant(operand.tensor) for operand in made.operands]
        features, plain = set[Any](), set[Any]()
        for fixed, operand in zip(constant, made.operands, strict=True):
            own = self.of(operand.tensor).features
            for i, letter in enumerate(operand.letters):
                if operand.tensor.shape[i] > 1:
                    (features if fixed or i in own else plain).add(letter)
        several = len(constant) - sum(constant) > 1
        if several:
            features -= plain
        last = made.out[-2:]
        summed = {x for operand in made.operands for x in operand.letters if x not in made.out}
        apart = features.issuperset(last) and not any({*last}.issubset(x.letters) for x in made.operands)
        outer = several and len(last) == 2 and apart and not summed & features
        found = frozenset(i for i, letter in enumerate(made.out) if letter in features)
        alone = outer and not summed
        return Origin(found, product=several, constant=all(constant), outer=alone, state=outer and bool(summed))

    def _carry(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        made = tensors_out(out)
        if not made or not made[0].is_floating_point():
            return
        found = [(place, x) for place, x in tensors_in(args, kwargs) if x.is_floating_point()]
        known = [(place, x, self.of(x)) for place, x in found if self.known(x)]
        if not known:
            if len(found) == 1 and isinstance(found[0][1], nn.Parameter):
                for y in made:
                    self.put(y, CONSTANT)
            return
        parts: list[tuple[Origin, list[Flow], Tensor]] = []
        for place, x, origin in known:
            if origin.features or len(known) > 1:
                flow = flows(name, func, args, kwargs, place, x, out)
                if flow is None or len(flow) != len(made):
                    return
            else:
                flow = [()] * len(made)
            parts.append((origin, flow, x))
        constant = all(origin.constant for origin, _, _ in parts) and len(parts) == len(found)
        product = any(origin.product for origin, _, _ in parts)
        outer, state, sampled, bent = (
            any(getattr(origin, part) for origin, _, _ in parts) for part in ("outer", "state", "sampled", "bent")
        )
        state = state or (outer and name == "cumsum")
        bent = bent or (product and name in BENDS)
        for at, y in enumerate(made):
            features, plain = set[int](), set[int]()
            for origin, flow, x in parts:
                for i, drawn in enumerate(flow[at]):
                    wide = [a for a in drawn if x.shape[a] > 1 or (len(drawn) == 1 and y.shape[i] == 1)]
                    if wide and not origin.constant:
                        (features if all(a in origin.features for a in wide) else plain).add(i)
            self.put(y, Origin(frozenset(features - plain), product, constant, outer, state, sampled, bent))
