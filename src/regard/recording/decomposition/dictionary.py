"""FeatureDictionary: a user's own directions as writers: a sparse autoencoder's decoder, or probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import Refused

from .evaluation import Evaluation, Key, WrittenParts
from .selection import Selection, take
from .tape import Node
from .writers import Writer


@dataclass(eq=False)
class FeatureDictionary:
    """Directions of the residual stream, or of what a module gives, that are writers in place of what wrote before.

        x_t = sum_f a_tf d_f + bias + rest_t

    directions  d (F, width): rows of a decoder, or probe directions
    encode      x (tokens, width) -> a (tokens, F), float; a sparse autoencoder's encoder. Unless given, the projection
                onto the span of the directions (least squares), which is what probe directions mean
    at          the module whose output is taken apart ("model.layers.5", "model.layers.5.mlp"); unless given, the
                stream that the site reads
    bias        (width,) of the decoder
    names       of features; their numbers unless given

    What the features do not tell is a writer too, the rest: parts sum to the score as before, whatever the dictionary
    is worth. Features that are zero at all tokens asked for are left out.
    """

    directions: Tensor
    encode: Callable[[Tensor], Tensor] | None = None
    at: str | None = None
    bias: Tensor | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.directions.ndim != 2:
            raise ValueError(f"FeatureDictionary(directions) is {tuple(self.directions.shape)}, expected (F, width).")
        if self.names is not None and len(self.names) != len(self.directions):
            raise ValueError(
                f"FeatureDictionary(names) has {len(self.names)} names for {len(self.directions)} directions."
            )
        if self.bias is not None and self.bias.shape != self.directions.shape[1:]:
            raise ValueError(
                f"FeatureDictionary(bias) is {tuple(self.bias.shape)}, expected ({self.directions.shape[1]},)."
            )

    @property
    def place(self) -> str:
        return self.at or "the stream"

    def activations(self, x: Tensor) -> Tensor:
        """a (tokens, F), float64."""
        width = self.directions.shape[1]
        if x.shape[-1] != width:
            raise ValueError(
                f"FeatureDictionary(directions) has width {width}, and {self.place} has {x.shape[-1]}: name the module "
                "whose output the dictionary was made for with at=."
            )
        d = self.directions.double()
        if self.encode is None:
            centred = x if self.bias is None else x - self.bias.double()
            return torch.linalg.lstsq(d.mT, centred.mT, driver="gelsd").solution.mT
        a = self.encode(x.to(self.directions.dtype))
        if a.shape != (len(x), len(d)):
            raise ValueError(
                f"FeatureDictionary(encode) gave {tuple(a.shape)} for {len(x)} tokens, expected ({len(x)}, {len(d)})."
            )
        return a.double()

    def parts(self, x: Tensor) -> tuple[list[int], Tensor]:
        """(which features, their parts): (A + 1, tokens, width), the last is the rest; with a bias one more before."""
        a = self.activations(x)
        alive = a.abs().amax(0).nonzero().flatten()
        made = a[:, alive].mT[..., None] * self.directions.double()[alive][:, None]
        if self.bias is not None:
            made = torch.cat([made, self.bias.double().expand(1, len(x), -1)])
        return alive.tolist(), torch.cat([made, (x - made.sum(0))[None]])

    def node(self, run: Any, call: Any, side: str) -> Node:
        """Where the dictionary stands in a run."""
        if self.at is None:
            return run.stream(call, side)
        found = run.outputs.get(self.at)
        if found is None:
            raise Refused(
                f"FeatureDictionary(at={self.at!r}): the model has no module of that name whose output could be "
                f"followed; it has {', '.join(list(run.outputs)[:6])}, ..."
            )
        return found


def given_by(
    features: Sequence[FeatureDictionary], run: Any, call: Any, side: str
) -> tuple[dict[Node, Callable[[Selection], WrittenParts]], dict[Key, Writer]]:
    """What an `Evaluation` is to take at the dictionaries' places, and the writers that it will meet there."""
    named: dict[Key, Writer] = {}
    given: dict[Node, Callable[[Selection], WrittenParts]] = {}
    for number, one in enumerate(features):
        node = one.node(run, call, side)
        given[node] = _taken(one, number, node, run, named)
    return given, named


def _taken(
    one: FeatureDictionary, number: int, node: Node, run: Any, named: dict[Key, Writer]
) -> Callable[[Selection], WrittenParts]:
    layer = sum(call.out is not None and call.out.index < node.index for call in run.tape.calls.values()) - 1
    label = f"dictionary {number}"

    def given(chosen: Selection) -> WrittenParts:
        whole: Selection = (*chosen[:-1], None)
        x = Evaluation(run.tape).parts(node, whole).x.double().sum(0)
        alive, made = one.parts(x.reshape(-1, x.shape[-1]))
        keys: list[Key] = []
        for f in alive:
            keys.append((label, f))
            named[label, f] = Writer("feature", layer, f, str(f) if one.names is None else one.names[f])
        if one.bias is not None:
            keys.append((f"{label} bias", -1))
            named[keys[-1]] = Writer("bias", -1, -1, f"dictionary at {one.place}")
        keys.append((f"{label} rest", -1))
        named[keys[-1]] = Writer("rest", layer, -1, one.place)
        made = (
            take(made.reshape(len(made), *x.shape), chosen, 1) if chosen[-1] is not None else made.reshape(-1, *x.shape)
        )
        return WrittenParts(tuple(keys), made)

    return given
