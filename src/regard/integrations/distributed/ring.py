"""Ring attention: keys and values circulate, and each process merges its partial results.

    out = sum over blocks b of exp(L_b - L) o_b,   L = log sum exp L_b                     (a row's mass in block b)
    d o_b = exp(L_b - L) d out,   d L_b = exp(L_b - L) <d out, o_b - out>                  (backward, block by block)

Memory of a process: its own part, two parts of keys and values (one in transit), and out. The backward runs the
ring again: scores are recomputed, and gradients of keys and values travel with them back to their owner.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.alignments import Alignment, Sigmoid
from ...core.attend import Attended, attend
from ...core.maps.merge import log_mass
from ...core.scores import Score
from ...core.structures import Structure
from .exchange import Group
from .layout import spans
from .restricted import restricted


@dataclass(frozen=True, eq=False)
class Ring:
    """The constants of a ring pass. n queries and m keys in the whole sequence."""

    where: Group
    layout: str
    score: Score
    align: Alignment
    over: Structure
    n: int
    m: int
    backend: str

    def blocks(self, owner: int, queries: int, keys: int) -> Iterator[tuple[slice, slice, Structure]]:
        """Blocks of local rows and columns of process `owner` with allowed pairs."""
        mine = spans(self.where.rank, self.where.size, queries, self.layout)
        theirs = spans(owner, self.where.size, keys, self.layout)
        for rows, row in mine:
            for cols, col in theirs:
                over = restricted(self.over, self.n, self.m, row, rows.stop - rows.start, col, cols.stop - cols.start)
                if over is not None and rows.stop > rows.start and cols.stop > cols.start:
                    yield rows, cols, over

    def attend(self, q: Tensor, k: Tensor, v: Tensor, over: Structure) -> tuple[Tensor, Tensor]:
        """out (..., H, n, d_v) and the logarithm of the mass of its rows, (..., H, n)."""
        found: Attended = attend(q, k, v, self.score, self.align, over, backend=self.backend)
        return found.out, log_mass(found.map).reshape(found.out.shape[:-1])

    @property
    def adds_up(self) -> bool:
        """Whether keys are independent, so that outputs of blocks add (sigmoid)."""
        return isinstance(self.align, Sigmoid)


class RingAttend(torch.autograd.Function):
    """(out, log_mass) of the local queries over the keys of all processes."""

    @staticmethod
    def forward(ctx: Any, ring: Ring, q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        where, wide = ring.where, torch.promote_types(q.dtype, torch.float32)
        out = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=wide, device=q.device)
        mass = torch.full(q.shape[:-1], float("-inf"), dtype=wide, device=q.device)
        held = [k, v]
        for step in range(where.size):
            arrived = where.pass_on(held) if step + 1 < where.size else None
            for rows, cols, over in ring.blocks((where.rank - step) % where.size, q.shape[-2], k.shape[-2]):
                one, log = ring.attend(q[..., rows, :], held[0][..., cols, :], held[1][..., cols, :], over)
                _add(out[..., rows, :], mass[..., rows], one, log, ring.adds_up)
            if arrived is not None:
                held = arrived()
        done = out.to(q.dtype)
        ctx.ring, ctx.parameters = ring, parameters
        ctx.save_for_backward(q, k, v, out, mass)
        ctx.mark_non_differentiable(mass)
        return done, mass

    @staticmethod
    def backward(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Any, ...]:
        ring, parameters = ctx.ring, ctx.parameters
        q, k, v, out, mass = ctx.saved_tensors
        where, wide = ring.where, out.dtype
        d_out = d_out.to(wide)
        dq = torch.zeros_like(q, dtype=wide)
        of_parameters = [torch.zeros_like(p) for p in parameters]
        held, grads = [k, v], [torch.zeros_like(k, dtype=wide), torch.zeros_like(v, dtype=wide)]
        for step in range(where.size):
            arrived = where.pass_on(held) if step + 1 < where.size else None
            for rows, cols, over in ring.blocks((where.rank - step) % where.size, q.shape[-2], k.shape[-2]):
                pull = _Pull(d_out[..., rows, :], out[..., rows, :], mass[..., rows])
                given = [q[..., rows, :], held[0][..., cols, :], held[1][..., cols, :]]
                found = _gradients(ring, over, given, pull, parameters)
                dq[..., rows, :] += found[0]
                grads[0][..., cols, :] += found[1]
                grads[1][..., cols, :] += found[2]
                for total, one in zip(of_parameters, found[3:], strict=True):
                    total += one
            grads = (
                where.pass_on(grads, tag=2)() if where.size > 1 else grads
            )  # after the last step they are at their owner
            if arrived is not None:
                held = arrived()
        return None, dq.to(q.dtype), grads[0].to(k.dtype), grads[1].to(v.dtype), *of_parameters


@dataclass(frozen=True, eq=False)
class _Pull:
    d_out: Tensor
    out: Tensor
    mass: Tensor


def _add(out: Tensor, mass: Tensor, one: Tensor, log: Tensor, adds_up: bool) -> None:
    """Merges a block into the running result, in place."""
    if adds_up:
        out += one
        mass.copy_(torch.maximum(mass, log.to(mass.dtype)))
        return
    whole = torch.logaddexp(mass, log.to(mass.dtype))
    by = whole.masked_fill(whole == float("-inf"), 0.0)
    out.mul_(torch.exp(mass - by)[..., None]).add_(one.to(out.dtype) * torch.exp(log.to(mass.dtype) - by)[..., None])
    mass.copy_(whole)


def _gradients(
    ring: Ring, over: Structure, given: list[Tensor], pull: _Pull, parameters: tuple[Tensor, ...]
) -> list[Tensor]:
    """Gradients for a block's queries, keys, values and the parameters of the score."""
    with torch.enable_grad():
        q, k, v = inputs = [x.detach().requires_grad_() for x in given]
        one, log = ring.attend(q, k, v, over)
    if ring.adds_up:
        outputs, wanted = [one], [pull.d_out.to(one.dtype)]
    else:
        log_now = log.detach().to(pull.mass.dtype)
        whole = pull.mass.masked_fill(pull.mass == float("-inf"), 0.0)
        share = torch.exp(log_now - whole)[..., None]
        outputs, wanted = [one], [(share * pull.d_out).to(one.dtype)]
        if log.requires_grad:
            d_log = (share * pull.d_out * (one.detach().to(share.dtype) - pull.out)).sum(-1)
            outputs.append(log)
            wanted.append(d_log.to(log.dtype))
    found = torch.autograd.grad(outputs, [*inputs, *parameters], wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, [*inputs, *parameters], strict=True)]


def run_ring(ring: Ring, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """out and log_mass; differentiable in q, k, v and the parameters of the score."""
    parameters = [p for p in ring.score.parameters() if p.requires_grad]
    done: tuple[Tensor, Tensor] = RingAttend.apply(ring, q, k, v, *parameters)
    return done
