"""Cores: the normal forms of scores. Every score lowers to one of them.

    Dot      s_ij = scale * a_i . b_j
    Pair     s_ij = sum_w readout_w act(a_iw + b_jw)        (or a_iw * b_jw); readout a vector, a matrix, or none
    OpaqueCore   a user's own score, called on pairs of slices

A core computes any tile of scores and its vector-Jacobian product, which is all that a backend needs.
Tensors are flattened: a (g, n, w), b (g, m, w), with g = batch x heads. A tile is (g, r, c), or (g, F, r, c) where
weights are feature-wise. Keys are a slice, or an index (r, c) with separate keys for each query (edges); `ids`
(r, c) are then the edge ids, for edge keys.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..activations import apply_activation, derivative, derivative_from_output_, output_suffices
from ..errors import check_scores
from .kernel_forms import DOT, CoreForm, activation_form
from .serialization import Spec

Index = slice | Tensor
PAIR_BUDGET = 1 << 18  # elements of a pair tile: 1 MiB in fp32, fits the cache of a core


class Grads:
    """Gradients of a plan's tensors, accumulated tile by tile."""

    def __init__(self) -> None:
        self._sums: dict[int, Tensor] = {}

    def of(self, tensor: Tensor) -> Tensor:
        """The accumulator for a tensor, initially zero; add to it in place."""
        total = self._sums.get(id(tensor))
        if total is None:
            low = tensor.dtype in (torch.float16, torch.bfloat16)  # accumulators are fp32 or better
            total = self._sums[id(tensor)] = torch.zeros_like(tensor, dtype=torch.float32 if low else None)
        return total

    def get(self, tensor: Tensor) -> Tensor | None:
        return self._sums.get(id(tensor))


def gathered(cols: Index) -> bool:
    return isinstance(cols, Tensor) and cols.ndim == 2


def add_rows(total: Tensor, slab: slice, index: Index, value: Tensor) -> None:
    """total[slab, index] += value, without atomics. index (k,) or (r, c); value (g, k, ...) or (g, r, c, ...)."""
    if isinstance(index, slice):
        total[slab, index] += value
        return
    flat = index.reshape(-1)
    value = value.reshape(value.shape[0], flat.shape[0], *total.shape[2:]).to(total.dtype)
    if total.device.type == "cpu":
        total[slab].index_add_(1, flat, value)
    else:  # index_add_ is atomic on CUDA; an accumulating index_put_ sorts, so its order is fixed
        heads = torch.arange(slab.start, slab.stop, device=total.device)[:, None]
        total.index_put_((heads, flat[None, :].expand(heads.shape[0], -1)), value, accumulate=True)


@dataclass(frozen=True, eq=False)
class EdgePart(Spec):
    """Edge keys (or values), joined with those of the source: b_j + x_e, or b_j * x_e with join="mul".

    x (g, E, w), a row for each edge id.
    """

    formerly = ("Part",)

    x: Tensor
    join: str = "add"

    def take(self, slab: slice, ids: Tensor) -> Tensor:
        """(g, r, c, w); padding repeats the row's first edge, so that an edge's NaN reaches its target only."""
        return self.x[slab][:, self._rows(ids)]

    @staticmethod
    def _rows(ids: Tensor) -> Tensor:
        return ids.where(ids >= 0, ids[:, :1]).clamp_min(0)

    def on(self, b: Tensor, slab: slice, ids: Tensor) -> Tensor:
        """b (g, r, c, w) joined with the edge part."""
        return b + self.take(slab, ids) if self.join == "add" else b * self.take(slab, ids)

    def vjp(self, b: Tensor, slab: slice, ids: Tensor, d: Tensor, grads: Grads) -> Tensor:
        """The gradient of b, from the gradient of the result of `on`."""
        add_rows(grads.of(self.x), slab, self._rows(ids), d if self.join == "add" else d * b)
        return d if self.join == "add" else d * self.take(slab, ids)


@dataclass(frozen=True, eq=False)
class DotCore(Spec):
    """s_ij = scale * a_i . b_j"""

    formerly = ("Dot",)

    a: Tensor
    b: Tensor
    scale: float = 1.0
    edge: EdgePart | None = None

    @property
    def features(self) -> int | None:
        return None

    most_rows = 1 << 30

    def kernel_form(self) -> CoreForm:
        return CoreForm(DOT)

    def scores(self, slab: slice, rows: Index, cols: Index, ids: Tensor | None = None) -> Tensor:
        a = self.a[slab, rows]
        a = a * self.scale if self.scale != 1.0 else a
        if gathered(cols):
            return torch.einsum("grd,grcd->grc", a, joined_keys(self, slab, cols, ids))
        return a @ self.b[slab, cols].transpose(-1, -2)

    def vjp(self, slab: slice, rows: Index, cols: Index, ds: Tensor, grads: Grads, ids: Tensor | None = None) -> None:
        a, b = self.a[slab, rows], joined_keys(self, slab, cols, ids)
        ds = ds * self.scale if self.scale != 1.0 else ds
        if gathered(cols):
            add_rows(grads.of(self.a), slab, rows, torch.einsum("grc,grcd->grd", ds, b))
            keys_vjp(self, slab, cols, ids, ds[..., None] * a[:, :, None, :], grads)
        else:
            add_rows(grads.of(self.a), slab, rows, ds @ b)
            add_rows(grads.of(self.b), slab, cols, ds.transpose(-1, -2) @ a)

    def __str__(self) -> str:
        return f"dot(width {self.a.shape[-1]}, scale {self.scale:.4g}{', a part on each edge' if self.edge else ''})"


@dataclass(frozen=True, eq=False)
class PairCore(Spec):
    """s_ij = sum_w readout_w act(a_iw + b_jw), or act(a_iw * b_jw) with join="mul".

    readout (g, w): scalar weights. (g, w, F): feature-wise, F features. None: feature-wise, each w its own feature.
    A number: equal weights, a plain sum, which torch adds pairwise and so more accurately than a product with ones.
    """

    formerly = ("Pair",)

    a: Tensor
    b: Tensor
    readout: Tensor | float | None
    act: str = "tanh"
    slope: float = 0.0
    join: str = "add"
    edge: EdgePart | None = None

    @property
    def features(self) -> int | None:
        if self.readout is None:
            return self.a.shape[-1]
        if isinstance(self.readout, float):
            return None
        return self.readout.shape[-1] if self.readout.ndim == 3 else None

    def kernel_form(self) -> CoreForm | None:
        """Kernel form of activation, join and readout; None if kernels have no code for the activation."""
        form = activation_form(self.act, self.slope)
        weights = "one" if self.features is None else "each" if self.readout is None else "mixed"
        return None if form is None else form._replace(join=self.join, weights=weights)

    def readout_vectors(self) -> Tensor:
        """(g, w), the readout of scalar scores: a number, or a vector for each head."""
        assert self.readout is not None
        if isinstance(self.readout, Tensor):
            return self.readout
        return torch.full((self.a.shape[0], self.a.shape[2]), self.readout, device=self.a.device)

    @property
    def most_rows(self) -> int:
        """Rows of a block: with as many columns, a tile of PAIR_BUDGET elements is about square."""
        return max(1, int((PAIR_BUDGET / max(1, self.a.shape[-1])) ** 0.5))

    def _joined(self, a: Tensor, b: Tensor) -> Tensor:
        """(g, r, c, w) from a (g, r, w) and b (g, c, w) or (g, r, c, w)."""
        b = b if b.ndim == 4 else b[:, None]
        return a[:, :, None] + b if self.join == "add" else a[:, :, None] * b

    def _read(self, hidden: Tensor, slab: slice) -> Tensor:
        if self.readout is None:
            return hidden.permute(0, 3, 1, 2)
        if isinstance(self.readout, float):
            return hidden.sum(-1) * self.readout
        readout = self.readout[slab]
        if readout.ndim == 2:
            return torch.matmul(hidden.flatten(1, 2), readout[..., None]).view(hidden.shape[:3])
        return torch.matmul(hidden.flatten(1, 2), readout).unflatten(1, hidden.shape[1:3]).permute(0, 3, 1, 2)

    def scores(self, slab: slice, rows: Index, cols: Index, ids: Tensor | None = None) -> Tensor:
        a, b = self.a[slab, rows], joined_keys(self, slab, cols, ids)
        pieces = [
            self._read(apply_activation(self._joined(a, _columns(b, part)), self.act, self.slope), slab)
            for part in self._column_tiles(a, b)
        ]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, -1)

    def _column_tiles(self, a: Tensor, b: Tensor) -> list[slice]:
        if torch.compiler.is_compiling():  # cutting by a length would specialise the graph
            return [slice(None)]
        columns = b.shape[-2]
        step = max(1, PAIR_BUDGET // max(1, a.shape[0] * a.shape[1] * a.shape[2]))
        return [slice(start, min(columns, start + step)) for start in range(0, columns, step)] or [slice(0, 0)]

    def vjp(self, slab: slice, rows: Index, cols: Index, ds: Tensor, grads: Grads, ids: Tensor | None = None) -> None:
        a, b = self.a[slab, rows], joined_keys(self, slab, cols, ids)
        da, db = torch.zeros_like(a), torch.zeros_like(b)
        lean = output_suffices(self.act, self.slope)
        for part in self._column_tiles(a, b):
            b_part, ds_part = _columns(b, part), ds[..., part]
            joined = self._joined(a, b_part)
            hidden = apply_activation(joined if lean else joined.clone(), self.act, self.slope)
            dhidden = self._read_vjp(ds_part, hidden, slab, grads)
            if lean:
                inner = derivative_from_output_(hidden, self.act, self.slope).mul_(dhidden)
            else:
                inner = derivative(joined, hidden, self.act, self.slope).mul_(dhidden)
            if self.join == "mul":
                da += (inner * (b_part if b_part.ndim == 4 else b_part[:, None])).sum(2)
                inner = inner * a[:, :, None]
            else:
                da += inner.sum(2)
            _columns(db, part).add_(inner if gathered(cols) else inner.sum(1))
        if isinstance(self.readout, Tensor) and self.readout.ndim == 2:
            v = self.readout[slab][:, None]
            da, db = da * v, db * (v[:, None] if gathered(cols) else v)
        add_rows(grads.of(self.a), slab, rows, da)
        keys_vjp(self, slab, cols, ids, db, grads)

    def _read_vjp(self, ds: Tensor, hidden: Tensor, slab: slice, grads: Grads) -> Tensor:
        """The gradient of hidden (g, r, c, w), without the factor of a readout (g, w), applied at the end."""
        if self.readout is None:
            return ds.permute(0, 2, 3, 1)
        if isinstance(self.readout, float):
            return ds[..., None] * self.readout
        if self.readout.ndim == 2:
            by_row = torch.matmul(ds.unsqueeze(-2), hidden)  # (g, r, 1, w): short sums, added in pairs after
            grads.of(self.readout)[slab] += by_row.sum((1, 2))
            return ds[..., None]
        grads.of(self.readout)[slab] += torch.einsum("gfrc,grcw->gwf", ds, hidden)
        return torch.einsum("gfrc,gwf->grcw", ds, self.readout[slab])

    def __str__(self) -> str:
        sign = "+" if self.join == "add" else "*"
        read = "each w a feature" if self.readout is None else f"{self.features or 1} out"
        own = ", a part on each edge" if self.edge else ""
        return f"pair {self.act}(a {sign} b) (width {self.a.shape[-1]}, {read}{own})"


def joined_keys(core: "DotCore | PairCore | OpaqueCore", slab: slice, cols: Index, ids: Tensor | None) -> Tensor:
    """The keys of a tile, (g, c, w), or (g, r, c, w) with edge keys joined."""
    b = core.b[slab][:, cols]
    return b if core.edge is None or ids is None else core.edge.on(b, slab, ids)


def keys_vjp(
    core: "DotCore | PairCore | OpaqueCore", slab: slice, cols: Index, ids: Tensor | None, d: Tensor, grads: Grads
) -> None:
    """Backward of `joined_keys`: gradients of the keys and of the edge part."""
    if core.edge is not None and ids is not None:
        d = core.edge.vjp(core.b[slab][:, cols], slab, ids, d, grads)
    add_rows(grads.of(core.b), slab, cols, d)


def _columns(b: Tensor, part: slice) -> Tensor:
    return b[..., part, :]


class OpaqueCore:
    """A user-defined score, called on slices: s = score(q[rows], k[cols]). Gradients by autograd, tile by tile.

    q (g, n, d) and k (g, m, d) are flattened; `heads` restores (batch, heads, ...) so that per-head parameters work.
    """

    def __init__(
        self,
        score: Callable[[Tensor, Tensor], Tensor],
        q: Tensor,
        k: Tensor,
        heads: int,
        features: int | None,
        edge: EdgePart | None = None,
    ):
        self.score, self.a, self.b, self.heads, self.features, self.edge = score, q, k, heads, features, edge
        self.parameters = [p for p in score.parameters() if p.requires_grad] if isinstance(score, nn.Module) else []

    most_rows = 64  # of a block: the memory that a score takes for each pair is unknown

    def scores(self, slab: slice, rows: Index, cols: Index, ids: Tensor | None = None) -> Tensor:
        first, last = slab.start // self.heads * self.heads, -(-slab.stop // self.heads) * self.heads
        s = self._call(self.a[first:last, rows], joined_keys(self, slice(first, last), cols, ids), gathered(cols))
        return s[slab.start - first : slab.stop - first]

    def _call(self, q: Tensor, k: Tensor, own_keys: bool) -> Tensor:
        """One call on whole items of the batch: a slab holds all heads of some items."""
        if own_keys:  # each query with its own keys: the rows become a batch axis, one query each
            q = q.unflatten(0, (-1, self.heads)).transpose(1, 2).unsqueeze(-2)  # (B, r, H, 1, d)
            k = k.unflatten(0, (-1, self.heads)).transpose(1, 2)  # (B, r, H, c, d)
            s = self._checked(q, k).squeeze(-2).transpose(1, 2).flatten(0, 1)  # (g, r, [F,] c)
            return s if s.ndim == 3 else s.transpose(1, 2)
        return self._checked(q.unflatten(0, (-1, self.heads)), k.unflatten(0, (-1, self.heads))).flatten(0, 1)

    def _checked(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.score(q, k)
        check_scores(self.score, s, q, k, self.features)
        return s

    def vjp(self, slab: slice, rows: Index, cols: Index, ds: Tensor, grads: Grads, ids: Tensor | None = None) -> None:
        with torch.enable_grad():
            q = self.a[slab, rows].detach().requires_grad_()
            k = joined_keys(self, slab, cols, ids).detach().requires_grad_()
            s = self._call(q, k, gathered(cols))
            inputs = [q, k, *self.parameters]
            if not s.requires_grad:
                return
            found = torch.autograd.grad(s, inputs, ds.to(s.dtype), allow_unused=True)
        for target, value in zip(self.parameters, found[2:], strict=True):
            if value is not None:
                grads.of(target).add_(value)
        if found[0] is not None:
            add_rows(grads.of(self.a), slab, rows, found[0])
        if found[1] is not None:
            keys_vjp(self, slab, cols, ids, found[1], grads)

    def __str__(self) -> str:
        return f"own score {type(self.score).__name__}"
