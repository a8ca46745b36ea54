"""What the processes of test_distributed do: attention over shards beside attention in one process."""

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from processes import answer
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.testing import assert_close

import regard
from regard import Causal, Full, Mask, Padding, Segments, Window, attend
from regard.core.errors import Refused
from regard.integrations.distributed import ShardedAttention, attend_sharded, shard, unshard
from regard.scores import Additive, ScaledDot


def structures(n: int, m: int, batch: int, rng: random.Random) -> list[Any]:
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    lengths = torch.randint(0, m + 1, (batch,), generator=generator)
    keep = torch.rand(batch, 1, n, m, generator=generator) < 0.6
    found = [None, Full(), Padding(lengths), Mask(keep=keep), Mask(keep=keep[..., :1, :])]
    if n == m:
        ids = torch.sort(torch.randint(0, 4, (n,), generator=generator)).values
        found += [
            Causal(),
            Window(5, 3),
            Window(4, 0),
            Causal() & Padding(lengths),
            Segments(ids),
            Causal() & Segments(ids),
        ]
    else:
        found += [Causal("end"), Causal("start"), Window(6, 2, align="end")]
    return found


def grown(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def differential(rank: int, world: int, count: int, first_seed: int) -> list[str]:
    """Random calls: out and all gradients of this process' part beside those of one process."""
    done = []
    for seed in range(first_seed, first_seed + count):
        rng = random.Random(seed)
        pieces = 2 * world
        n = pieces * rng.randint(1, 5)
        m = n if rng.random() < 0.6 else pieces * rng.randint(1, 5)
        batch, kv_heads, groups = rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 3)
        d, d_v = rng.choice([4, 7, 8]), rng.choice([4, 6])
        dtype = rng.choice([torch.float64, torch.float32, torch.bfloat16])
        over = rng.choice(structures(n, m, batch, rng))
        align = rng.choice(["softmax", "softmax", "sigmoid", "relu", "uniform", "entmax15", "sparsemax", "top"])
        align = regard.alignments.Sigmoid(bias=-1.5) if align == "sigmoid" and rng.random() < 0.5 else align
        align = regard.alignments.TopK(2) if align == "top" else align
        layout, way = rng.choice(["zigzag", "contiguous"]), rng.choice(["auto", "ring", "gather"])
        q = grown((batch, kv_heads * groups, n, d), dtype, seed)
        k, v = grown((batch, kv_heads, m, d), dtype, seed + 1), grown((batch, kv_heads, m, d_v), dtype, seed + 2)
        pull = grown((batch, kv_heads * groups, n, d_v), dtype, seed + 3)
        said = f"seed {seed}: {tuple(q.shape)} {tuple(k.shape)} {dtype} {over} {align} {layout} {way}"
        whole = [x.clone().requires_grad_() for x in (q, k, v)]
        expected = attend(*whole, align=align, over=over).out
        wanted = torch.autograd.grad((expected * pull).sum(), whole, allow_unused=True)
        parts = [shard(x, layout=layout).requires_grad_() for x in (q, k, v)]
        try:
            found = attend_sharded(*parts, align=align, over=over, layout=layout, way=way)
        except Refused as error:
            assert (way == "ring" and "depend" in str(error)) or "divides" in str(error), said
            done.append("refused")
            continue
        grads = torch.autograd.grad((found.out * shard(pull, layout=layout)).sum(), parts, allow_unused=True)
        exact = _exact(q, k, v, align, over, pull) if dtype is torch.bfloat16 else None
        everything = [(found.out, expected), *zip(grads, wanted, strict=True)]
        for place, (ours, theirs) in enumerate(everything):
            theirs = torch.zeros_like([expected, *whole][place]) if theirs is None else theirs
            ours = torch.zeros_like([found.out, *parts][place]) if ours is None else ours
            if exact is None:
                bound = 1e-10 if dtype is torch.float64 else 2e-5
                assert_close(
                    ours, shard(theirs, layout=layout), rtol=bound, atol=bound, msg=lambda e, said=said: f"{said}\n{e}"
                )
            else:  # at most twice the error of one process in this precision, and two units of its last place
                error = (ours.double() - shard(exact[place], layout=layout)).abs().max()
                bar = 2 * (theirs.double() - exact[place]).abs().max() + 2 * 2**-8 * exact[place].abs().max()
                assert error <= bar, f"{said}: {place} {error} > {bar}"
        if found.log_mass is not None and align == "softmax":
            scores = (q.double() @ k.double().repeat_interleave(groups, 1).transpose(-1, -2)) / d**0.5
            keep = attend(q, k, v, over=over).map.allowed(slice(0, n), slice(0, m)).reshape(scores.shape) > 0
            mass = scores.masked_fill(~keep, float("-inf")).logsumexp(-1)
            assert_close(found.log_mass.double(), shard(mass, layout=layout, dim=-1), rtol=1e-2, atol=2e-2)
        done.append(found.way.split(":")[0])
    return done


def _exact(q: Tensor, k: Tensor, v: Tensor, align: Any, over: Any, pull: Tensor) -> list[Tensor]:
    whole = [x.double().requires_grad_() for x in (q, k, v)]
    out = attend(*whole, align=align, over=over).out
    grads = torch.autograd.grad((out * pull.double()).sum(), whole, allow_unused=True)
    return [out.detach(), *(torch.zeros_like(x) if g is None else g for g, x in zip(grads, whole, strict=True))]


def several(rank: int, world: int) -> list[str]:
    """Everything else that needs processes, in one start of them."""
    done = differential(rank, world, int(os.environ.get("REGARD_SHARDED_CASES", "16")), 1000 * world)
    if world == 2:
        learned_score(rank)
        layer(rank)
        refusals()
        sharded_parameters(rank)
        timeouts(rank)  # the last: it leaves the processes apart
    else:
        meshes(rank, world)
    return done


def learned_score(rank: int) -> None:
    """Gradients of a score's parameters: the sum over the processes is that of one process."""
    torch.manual_seed(0)
    score = Additive(4, 4, 4)
    q, k, v = (grown((1, 2, 8, 4), torch.float32, s) for s in range(3))
    wanted = torch.autograd.grad(attend(q, k, v, score).out.square().sum(), list(score.parameters()))
    for way in ("ring", "gather"):
        found = attend_sharded(*(shard(x) for x in (q, k, v)), score, way=way).out
        grads = torch.autograd.grad(found.square().sum(), list(score.parameters()))
        for ours, theirs in zip(grads, wanted, strict=True):
            dist.all_reduce(ours)
            assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def layer(rank: int) -> None:
    """nn.Attention with rotary positions and grouped queries over shards."""
    torch.manual_seed(1)
    attention = regard.nn.Attention(8, 4, kv_heads=2, rotary=True)
    x = grown((2, 12, 8), torch.float32, 5)
    expected = attention(x, over=Causal()).out
    for layout in ("zigzag", "contiguous"):
        found = ShardedAttention(attention, layout=layout)(shard(x, layout=layout), over=Causal())
        assert_close(found, shard(expected, layout=layout), rtol=1e-4, atol=1e-5)
        assert_close(unshard(found, layout=layout), expected, rtol=1e-4, atol=1e-5)


def refusals() -> None:
    q = grown((1, 2, 8, 4), torch.float32, 0)
    for call, words in (
        (lambda: attend_sharded(q, q, q, align="entmax15", way="ring"), "depend on all keys of a row together"),
        (lambda: attend_sharded(q, q, q, ScaledDot() | regard.ALiBi(2)), "ALiBi depends on positions"),
        (lambda: attend_sharded(q, q, q, over=regard.Edges(torch.zeros(2, 1).long())), "cannot be sharded"),
        (lambda: attend_sharded(q[..., :3, :], q, q), "expected an even number"),
        (lambda: shard(torch.zeros(7, 2)), "pad them to 8"),
        (lambda: attend_sharded(q, q, q, way="around"), 'expected "auto"'),
        (lambda: attend_sharded(q, q, q).map, "has no map"),
    ):
        try:
            call()
        except (Refused, ValueError, AttributeError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def meshes(rank: int, world: int) -> None:
    """Two groups of two processes, each with a batch of its own; a mesh says which dimension has the sequence."""
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("data", "sequence"))
    q = grown((1, 2, 8, 4), torch.float64, 7 + rank // 2)
    group = mesh["sequence"]
    found = attend_sharded(*(shard(q, group) for _ in range(3)), over=Causal(), group=group, way="ring")
    assert_close(found.out, shard(attend(q, q, q, over=Causal()).out, group))
    found = attend_sharded(*(shard(q, group) for _ in range(3)), over=Causal(), group=group.get_group(), way="gather")
    assert_close(found.out, shard(attend(q, q, q, over=Causal()).out, group))
    try:
        attend_sharded(q, q, q, group=mesh)
    except ValueError as error:
        assert "mesh['sequence']" in str(error)
    else:
        raise AssertionError("a mesh of two dimensions")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.nn.Attention(8, 2, align="entmax15", score="additive")
        self.conv = regard.nn.GATConv(8, 4, heads=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(self.attention(x[None]).out[0], edge_index)


def sharded_parameters(rank: int) -> None:
    """Under DistributedDataParallel and FSDP (fully_shard) our layers train as one process does on the whole batch."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    graphs = [grown((5, 8), torch.float32, seed) for seed in range(2)]
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])

    def trained(model: nn.Module, mine: list[Tensor]) -> nn.Module:
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimiser.zero_grad()
            sum(model(x, edges).square().mean() for x in mine).div(len(mine)).backward()
            optimiser.step()
        return model

    def made() -> Small:
        torch.manual_seed(2)
        return Small()

    expected = trained(made(), graphs).state_dict()
    by_ddp = trained(DistributedDataParallel(made()), [graphs[rank]]).module.state_dict()
    mesh = init_device_mesh("cpu", (2,))
    model = made()
    fully_shard(model.attention, mesh=mesh)
    fully_shard(model, mesh=mesh)
    by_fsdp = {name: p.full_tensor() for name, p in trained(model, [graphs[rank]]).state_dict().items()}
    for name, value in expected.items():
        assert_close(by_ddp[name], value, rtol=1e-4, atol=1e-5)
        assert_close(by_fsdp[name], value, rtol=1e-4, atol=1e-5)


def timeouts(rank: int) -> None:
    """A process that does not answer is an error that says so, not a wait without end."""
    q, told = grown((1, 1, 4, 4), torch.float32, 0), Path(sys.argv[3], "told")
    if rank == 1:
        while not told.exists():  # it is there, and answers nothing
            time.sleep(0.05)
        return
    for way in ("ring", "gather"):
        try:
            attend_sharded(q, q, q, way=way, timeout=1.5)
        except TimeoutError as error:
            assert "Process 0 of 2 had no answer from" in str(error) and "timeout=1.5 s" in str(error), error
        else:
            raise AssertionError(way)
    told.touch()


if __name__ == "__main__":
    answer(several)
