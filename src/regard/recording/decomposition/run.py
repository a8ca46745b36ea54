"""TracedRun: one run of a model, taken apart on demand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

from regard.core.errors import Refused

from . import rules
from .dictionary import FeatureDictionary, given_by
from .evaluation import Evaluation, WrittenParts
from .selection import Selection, narrowed, take
from .stream import leaves_of, stream_before
from .tape import AttentionCall, Node, OperatorTape
from .writers import Writer, writer_of

WHOLES = 256  # queries and keys that are held for the next question
BEGINNINGS = ("embedding", "input", "constant")  # operators that writers begin with
CACHES = ("past_key_values", "cache_params")  # what steps before left behind: the text is run as a whole
NONLINEAR = {
    *("silu", "gelu", "relu", "leaky_relu", "elu", "sigmoid", "tanh", "exp", "softplus", "pow", "_softmax"),
    *("mul", "mm", "bmm", "convolution"),
}
NEXT = "regard.intervene and regard.judge need no decomposition."


@dataclass
class Side:
    """What was written into the queries or the keys of some tokens: x (A, tokens, d), by writer.

    frozen   the normalisations on the way, whose scales are those of the run
    """

    writers: list[Writer]
    x: Tensor
    frozen: list[str] = field(default_factory=list)


class TracedRun:
    """The tape of one run of a model on given inputs, and what is read off it.

    model, args, kwargs   run once, without gradients, in the mode that the model is in
    """

    def __init__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        if getattr(model, "training", False) and any(
            isinstance(m, torch.nn.Dropout) and m.p > 0 for m in model.modules()
        ):
            raise Refused(
                "why() runs the model once more, and in training mode dropout would give another run: model.eval()."
            )
        self.tape = OperatorTape(model, rules)
        self.inputs: dict[str, Node] = {}  # by module: what it read and gave when it last ran
        self.outputs: dict[str, Node] = {}
        kwargs = {name: x for name, x in kwargs.items() if name not in CACHES}
        if "use_cache" in kwargs or hasattr(getattr(model, "config", None), "use_cache"):
            kwargs["use_cache"] = False
        with torch.no_grad(), self.tape:
            for name, x in [*((f"argument {place}", x) for place, x in enumerate(args)), *kwargs.items()]:
                if isinstance(x, Tensor) and x.is_floating_point():
                    self.tape.source(x, name)
            with _module_ends(model, self.tape, self.inputs, self.outputs):
                out = model(*args, **kwargs)
        found = getattr(out, "logits", None)
        found = out if found is None and isinstance(out, Tensor) else found
        self.logits = self.tape.node(found)
        hidden = getattr(out, "last_hidden_state", None)
        self.hidden = self.tape.node(hidden)
        head = unembedding(model)
        if self.hidden is None and head is not None:
            self.hidden = self.inputs.get(next((name for name, m in model.named_modules() if m is head), ""))
        self.logit_values = None if found is None else found.detach()
        self.tape.nodes.clear()
        self.out = out
        self._streams: dict[int, Node] = {}
        self._writers: dict[str, frozenset[int]] = {}
        self._wholes: dict[tuple[str, int, int, int, str], Tensor] = {}
        self.checked: set[tuple[str, int, int]] = set()  # heads whose weights are those of the record

    def call(self, site: str) -> AttentionCall:
        """The attention of a site, if its score is a product of two sums."""
        if site not in self.tape.calls:
            known = ", ".join(list(self.tape.calls)[:6]) or "none that decomposes"
            raise Refused(
                f"One run of the model on the first recorded inputs has no attention at {site!r}; it has {known}. Of a "
                "generation or of several runs in one record, record the text you ask about in one forward pass."
            )
        call = self.tape.calls[site]
        if call.refused:
            raise Refused(f"The score at {site!r} does not decompose: {call.refused}.")
        if call.q is None and call.queries is not None and call.k is None:
            raise Refused(
                f"The score at {site!r} does not decompose: its queries and keys could not be followed back to the "
                "model's input, because something between them ran outside torch's dispatcher (numpy, a custom "
                f"autograd function without operators) or they are constants. {NEXT}"
            )
        return call

    def ends(self, call: AttentionCall) -> tuple[Node, Node]:
        """The nodes of queries and keys."""
        if call.q is not None and call.k is not None:
            return call.q, call.k
        if call.scores is None:
            raise Refused(
                f"The score at {call.site!r} does not decompose: no scores of queries and keys were seen there that "
                f"lead back to the model's input. {NEXT}"
            )
        product = self.product(call)
        return product.args[-2], product.args[-1]

    def product(self, call: AttentionCall) -> Node:
        """The product of queries and keys behind scores that the model wrote out."""
        node = call.scores
        while node is not None and "softmax" not in node.op:
            node = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        node = None if node is None else node.args[0]
        found, waiting = dict[int, Node](), [node] if isinstance(node, Node) else []
        while waiting:
            one = waiting.pop()
            if one.op in ("bmm", "baddbmm") and all(isinstance(x, Node) for x in one.args[-2:]):
                found[one.index] = one
            elif one.op == "tanh" or rules.linear(one):
                waiting += [one.args[0]] if one.op == "tanh" else rules.read(one)
        if len(found) == 1:
            return next(iter(found.values()))
        raise Refused(
            f"The score at {call.site!r} does not decompose: "
            + (
                "it is a sum of several products (disentangled or relative attention), not one of a query and a key. "
                if found
                else "no product of queries and keys was found behind it. "
            )
            + NEXT
        )

    def selections(self, call: AttentionCall, item: int, head: int, tokens: Sequence[int], side: str) -> Selection:
        """Which entries of the queries' or keys' node belong to tokens of a head."""
        node = self.ends(call)[side == "key"]
        place = tuple(tokens)
        if call.q is not None:
            groups = node.shape[1]
            return (item if node.shape[0] > 1 else 0,), (head * groups // call.heads,), place, None
        flat = item * call.heads + head
        first = (flat if node.shape[0] > 1 else 0,)
        made: Selection = (first, None, place) if side == "key" else (first, place, None)
        return made

    def side(
        self,
        call: AttentionCall,
        item: int,
        head: int,
        tokens: Sequence[int],
        side: str,
        features: Sequence[FeatureDictionary] = (),
    ) -> Side:
        """The queries (side="query") or keys of tokens, as sums over writers: (A, tokens, d), in float64."""
        node = self.ends(call)[side == "key"]
        given, named = given_by(features, self, call, side)
        run = Evaluation(self.tape, given=given)
        if features:
            run.cast = _double  # type: ignore[method-assign]
        parts = run.parts(node, self.selections(call, item, head, tokens, side))
        self._check(call, run, side)
        x = parts.x.double()
        if call.q is not None:
            x = x[:, 0, 0]
        else:
            x = x[:, 0].mT if side == "key" else x[:, 0]
        writers = [named[key] if key in named else writer_of(key, run.leaves, self.tape) for key in parts.keys]
        return Side(writers, x, list(dict.fromkeys(f.path or f.op for f in run.frozen.values())))

    def value_parts(self, call: AttentionCall, item: int, head: int, tokens: Sequence[int] | None = None) -> Side:
        """The values of keys (of all, unless told) as sums over writers, (A, tokens, d_v)."""
        node = call.v
        if node is None or len(node.shape) != 4:
            raise Refused(f"The values at {call.site!r} could not be followed back to the model's input.")
        run = Evaluation(self.tape)
        place = None if tokens is None else tuple(tokens)
        at = ((item if node.shape[0] > 1 else 0,), (head * node.shape[1] // call.heads,), place, None)
        parts = run.parts(node, at)
        return Side([writer_of(key, run.leaves, self.tape) for key in parts.keys], parts.x.double()[:, 0, 0])

    def _check(self, call: AttentionCall, run: Evaluation, side: str) -> None:
        """A writer inside the site itself is a nonlinearity between the stream and the queries."""
        for node in run.leaves.values():
            if node.op in BEGINNINGS or (node.layer < 0 and "convolution" in node.op):
                continue
            if node.call is None and node.layer == call.layer - 1 and _inside(node.path, call.site):
                what = {"query": "queries", "key": "keys"}[side]
                raise Refused(
                    f"The score at {call.site!r} does not decompose: its {what} pass through {node.op!r} at "
                    f"{node.path!r}, {_why_not(node.op)}"
                )

    def stream(self, call: AttentionCall, side: str) -> Node:
        """Where writers were last added up before the queries or keys."""
        node = self.ends(call)[side == "key"]
        if node.index not in self._streams:
            self._streams[node.index] = stream_before(node)
        return self._streams[node.index]

    def without(
        self,
        call: AttentionCall,
        item: int,
        head: int,
        token: int,
        side: str,
        writers: Sequence[Writer | Tensor],
        features: Sequence[FeatureDictionary] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Queries (or keys) of a token as they are with one writer's part gone from the stream, scales computed again.

        writers   writers, or vectors of the stream to take away. Returns (1 + K, d), the first with nothing gone; and
        what was taken away.
        """
        node, stream = self.ends(call)[side == "key"], self.stream(call, side)
        taken: list[Tensor] = []

        def given(chosen: Selection) -> WrittenParts:
            own, named = given_by(features, self, call, side)
            run = Evaluation(self.tape, given=own)
            if features:
                run.cast = _double  # type: ignore[method-assign]
            parts = run.parts(stream, chosen)
            names = [named[key] if key in named else writer_of(key, run.leaves, self.tape) for key in parts.keys]
            x = parts.x.double()
            whole = x.sum(0)
            taken.clear()
            for each in writers:
                if isinstance(each, Tensor):
                    taken.append(each.reshape(whole.shape).double())
                else:
                    index = [place for place, name in enumerate(names) if name == each]
                    taken.append(x[index].sum(0))
            return WrittenParts((), torch.stack([whole, *(whole - one for one in taken)]))

        run = Evaluation(self.tape, live=True, given={stream: given})
        run.cast = _double  # type: ignore[method-assign]
        made = run.parts(node, self.selections(call, item, head, [token], side)).x
        if len(made) != 1 + len(writers):  # what was given of the stream was never asked for
            what = {"query": "queries", "key": "keys"}[side]
            raise Refused(
                f"The {what} of head {head} at {call.site!r} are not made of the residual stream that other heads "
                "read: what a writer adds cannot be taken out of them alone."
            )
        return made.reshape(made.shape[0], -1), list(taken)

    def coefficient(
        self, call: AttentionCall, item: int, head: int, i: int, j: int, raw: float
    ) -> tuple[float, float, float]:
        """(c, rest, before): the score is c times the product of query and key plus rest; before its soft cap."""
        if call.q is not None:
            plain = (call.scale or 1.0) * raw
            cap = call.cap
            shown = cap * math.tanh(plain / cap) if cap else plain
            factor = shown / plain if plain else 1.0
            bias = 0.0
            if call.bias is not None:
                b = call.bias
                place = (item, head, i, j)[-b.ndim :]
                bias = float(b[tuple(0 if size == 1 else at for size, at in zip(b.shape, place, strict=True))])
            return (call.scale or 1.0) * factor, bias, plain + bias
        product = self.product(call)
        node: Any = call.scores
        while node is not None and "softmax" not in node.op:
            node = node.args[0]
        assert node is not None
        node = node.args[0]
        given: dict[Node, Any] = {product: lambda chosen: _one(raw, product, chosen)}
        caps = _caps(node, product)
        before = 0.0
        for capped in reversed(caps):
            inner = capped.args[0]
            x = Evaluation(self.tape, given=dict(given)).parts(inner, _cell(inner, item, head, call.heads, i, j)).x
            total = float(x.sum())
            before = total
            ratio = math.tanh(total) / total if total else 1.0
            given[capped] = lambda chosen, x=x, ratio=ratio: WrittenParts(
                (("qk", -1),), (x.sum(0, keepdim=True) * ratio)
            )
        work = Evaluation(self.tape, given=given)
        parts = work.parts(node, _cell(node, item, head, call.heads, i, j))
        if any(self._several(call, work.leaves[key[0]]) for key in parts.keys if isinstance(key[0], int)):
            raise Refused(
                f"The score at {call.site!r} does not decompose: beside the product of query and key it has products "
                f"of them with positions (disentangled or relative attention), so it is a sum of several. {NEXT}"
            )
        own = sum(float(x.sum()) for key, x in zip(parts.keys, parts.x, strict=True) if key[0] == "qk")
        rest = float(parts.x.sum()) - own
        return (own / raw if raw else call.scale or 1.0), rest, (before if caps else own + rest)

    def _several(self, call: AttentionCall, leaf: Node) -> bool:
        """Whether what stands beside the product is made of queries or keys too: no table of positions, and no number
        that all keys of a row share (their maximum)."""
        if leaf.shape[-1] == 1:
            return False
        if call.site not in self._writers:
            self._writers[call.site] = frozenset().union(*(leaves_of(node) for node in self.ends(call)))
        return leaf.op != "embedding" or leaf.index in self._writers[call.site]

    def whole(self, call: AttentionCall, item: int, head: int, token: int, side: str) -> Tensor:
        """The query (or key) of a token as the sum of its parts, (d,)."""
        key = call.site, item, head, token, side
        if key not in self._wholes:
            if len(self._wholes) > WHOLES:
                self._wholes.clear()
            self._wholes[key] = self.side(call, item, head, [token], side).x[:, 0].sum(0)
        return self._wholes[key]


@contextmanager
def _module_ends(model: Any, tape: OperatorTape, read: dict[str, Node], gave: dict[str, Node]) -> Iterator[None]:
    """Notes which tensors each module read and gave."""
    names = {id(module): name for name, module in model.named_modules()} if hasattr(model, "named_modules") else {}

    def ran(module: Any, args: Any, out: Any) -> None:
        name = names.get(id(module))
        if not name:
            return
        for found, ends in ((read, args), (gave, out)):
            node = tape.node(ends[0] if isinstance(ends, (tuple, list)) and ends else ends)
            if node is not None:
                found[name] = node

    hook = register_module_forward_hook(ran)
    try:
        yield
    finally:
        hook.remove()


def unembedding(model: Any) -> Any:
    """The module that turns the last hidden state into logits, where the model names it."""
    found = getattr(model, "get_output_embeddings", None)
    try:
        return None if found is None else found()
    except NotImplementedError:
        return None


def _double(x: Tensor) -> Tensor:
    return x if x.is_complex() else x.double()


def _one(raw: float, node: Node, chosen: Selection) -> WrittenParts:
    """A product of one query and one key, with what the operator adds to it."""
    shape = [len(index) if index is not None else size for index, size in zip(chosen, node.shape, strict=True)]
    x = torch.full((1, *shape), raw, dtype=torch.float64)
    if node.op != "baddbmm":
        return WrittenParts((("qk", -1),), x)
    x = x * node.kwargs.get("alpha", 1)
    added, beta = node.args[0], node.kwargs.get("beta", 1)
    if isinstance(added, Node) or not beta:
        return WrittenParts((("qk", -1),), x)
    beside = take(added, narrowed(chosen, added.shape, node.shape)).double().expand(shape)
    return WrittenParts((("qk", -1), ("added", -1)), torch.cat([x, beta * beside[None]]))


def _caps(node: Node, product: Node) -> list[Node]:
    """The soft caps between scores and the product, the last one first."""
    found = []
    while node is not product:
        if node.op == "tanh":
            found.append(node)
        before = [node.args[0]] if node.op == "tanh" else rules.read(node)
        node = next(one for one in before if _leads_to(one, product))
    return found


def _leads_to(node: Node, product: Node) -> bool:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one is product:
            return True
        waiting += [one.args[0]] if one.op == "tanh" else rules.read(one) if rules.linear(one) else []
    return False


def _cell(node: Node, item: int, head: int, heads: int, i: int, j: int) -> Selection:
    flat = item * heads + head
    if len(node.shape) == 4:
        return (flat // node.shape[1],), (flat % node.shape[1],), (i,), (j,)
    return (flat,), (i,), (j,)


def _why_not(op: str) -> str:
    """Why an operator between the stream and the queries stops the sum, and what to do."""
    if "dynamic" in op or "quant" in op or "int8" in op or "packed" in op:
        return (
            "an operator on quantised weights, whose rounding of activations is not linear. Ask the same model in "
            "float: load it without quantisation, or dequantise it (model.dequantize() in transformers)."
        )
    if op in NONLINEAR:
        return f"which is not linear in the residual stream. {NEXT}"
    return (
        f"an operator of which no linear rule is known. If it is a fused projection, put the module of torch "
        f"(nn.Linear) in its place and record again; otherwise {NEXT}"
    )


def _inside(path: str, site: str) -> bool:
    own = site.rpartition(":")[0] if site.rpartition(":")[2].isdigit() else site
    return path == own or path.startswith(own + ".")
