"""The tables of docs/integrations/distributed.md: what each process holds, sends and computes, beside one process.

python docs/make_sharded.py            # 1, 2 and 4 gloo processes of this machine; prints Markdown
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import regard
from regard.integrations.distributed import attend_sharded, shard
from regard.integrations.distributed.exchange import Group

BATCH, HEADS, KV_HEADS, N, WIDTH = 1, 4, 2, 4096, 32
WAYS = (("ring", "zigzag"), ("ring", "contiguous"), ("gather", "zigzag"))


def inputs() -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((HEADS, WIDTH), (KV_HEADS, WIDTH), (KV_HEADS, WIDTH), (HEADS, WIDTH))
    made = [torch.randn(BATCH, heads, N, width, generator=generator) for heads, width in sizes]
    return made[:3], made[3]


def answers(rows: list[Tensor], pull: Tensor, run: Any) -> list[Tensor]:
    """out and the gradients of q, k and v."""
    given = [x.clone().requires_grad_() for x in rows]
    out = run(*given)
    return [out.detach(), *torch.autograd.grad((out * pull).sum(), given)]


def one_process() -> dict[str, list[Tensor]]:
    rows, pull = inputs()
    over = regard.Causal()
    exact = answers([x.double() for x in rows], pull.double(), lambda *x: regard.attend(*x, over=over).out)
    plain = answers(rows, pull, lambda *x: regard.attend(*x, over=over).out)
    return {"exact": exact, "plain": plain}


def work(rank: int, ranks: int, folder: str) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store{ranks}", rank=rank, world_size=ranks, timeout=timedelta(minutes=5)
    )
    torch.set_num_threads(1)
    sent = 0
    counted = Group.pass_on, Group.gather, Group.sum_of_mine

    def pass_on(self: Group, parts: list[Tensor], tag: int = 0) -> Any:
        nonlocal sent
        sent += sum(x.numel() * x.element_size() for x in parts)
        return counted[0](self, parts, tag)

    def gather(self: Group, x: Tensor) -> Any:
        nonlocal sent
        sent += x.numel() * x.element_size() * (self.size - 1)
        return counted[1](self, x)

    def sum_of_mine(self: Group, parts: list[Tensor]) -> Any:
        nonlocal sent
        sent += sum(x.numel() * x.element_size() for x in parts[1:])
        return counted[2](self, parts)

    Group.pass_on, Group.gather, Group.sum_of_mine = pass_on, gather, sum_of_mine  # type: ignore[method-assign]
    rows, pull = inputs()
    truth = torch.load(Path(folder, "truth.pt"))
    found = []
    for way, layout in WAYS:
        mine, part = [shard(x, layout=layout) for x in rows], shard(pull, layout=layout)

        def run(*x: Tensor, way: str = way, layout: str = layout) -> Tensor:
            return attend_sharded(*x, over=regard.Causal(), way=way, layout=layout).out

        answers(mine, part, run)
        dist.barrier()
        sent, began, busy = 0, time.perf_counter(), time.thread_time()
        out = answers(mine, part, run)
        took, busy = time.perf_counter() - began, time.thread_time() - busy
        wrong = max(
            float((one.double() - shard(whole, layout=layout)).abs().max() / whole.abs().max())
            for one, whole in zip(out, truth["exact"], strict=True)
        )
        rows_here = [i for x in [shard(torch.arange(N)[:, None], layout=layout, dim=0)] for i in x[:, 0].tolist()]
        found.append({"took": took, "busy": busy, "sent": sent, "error": wrong, "pairs": sum(i + 1 for i in rows_here)})
    Path(folder, f"{ranks}_{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        truth = one_process()
        torch.save(truth, Path(folder, "truth.pt"))
        alone = max(
            float((a.double() - b).abs().max() / b.abs().max())
            for a, b in zip(truth["plain"], truth["exact"], strict=True)
        )
        print(
            f"{HEADS} heads ({KV_HEADS} of keys), {N:,} positions, width {WIDTH}, fp32, causal; "
            f"torch {torch.__version__}"
        )
        print("| processes | way | layout | pairs, most / mean | CPU s of a process, most | MiB sent by one | error |")
        print("|---|---|---|---|---|---|---|")
        print(f"| 1 | attend | | 1 | | 0 | {alone:.1e} |")
        for ranks in (2, 4):
            command = [sys.executable, __file__, "work", str(ranks), folder]
            started = [subprocess.Popen([*command, str(rank)]) for rank in range(ranks)]
            if any(process.wait(600) for process in started):
                raise SystemExit("a process failed")
            each = [json.loads(Path(folder, f"{ranks}_{rank}.json").read_text()) for rank in range(ranks)]
            for place, (way, layout) in enumerate(WAYS):
                one = [found[place] for found in each]
                pairs = [found["pairs"] for found in one]
                print(
                    f"| {ranks} | {way} | {layout} | {max(pairs) * ranks / sum(pairs):.2f} | "
                    f"{max(found['busy'] for found in one):.2f} | {max(found['sent'] for found in one) / 2**20:.2f} | "
                    f"{max(found['error'] for found in one):.1e} |"
                )


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if sys.argv[1:2] == ["work"]:
        work(int(sys.argv[4]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
