"""Communication between processes, with errors for timeouts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Group:
    """A process group, and this process in it. timeout: seconds that one exchange may take."""

    group: Any
    rank: int
    size: int
    timeout: float = 300.0

    @staticmethod
    def of(group: Any = None, timeout: float = 300.0) -> "Group":
        """group: a ProcessGroup, a DeviceMesh of one dimension, or None for all processes."""
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "No process group: start with torchrun, and call torch.distributed.init_process_group() first. "
                "In one process it is attend(q, k, v)."
            )
        if hasattr(group, "get_group") and hasattr(group, "mesh_dim_names"):
            if group.ndim != 1:
                raise ValueError(
                    f"group= is a DeviceMesh of {group.ndim} dimensions, expected the one over which the sequence is "
                    f"sharded: mesh[{(group.mesh_dim_names or ('sequence',))[-1]!r}]."
                )
            group = group.get_group()
        if group is not None and not isinstance(group, dist.ProcessGroup):
            raise TypeError(f"group= is a {type(group).__name__}, expected a ProcessGroup, a DeviceMesh or None.")
        rank = dist.get_rank(group)
        if rank < 0:
            raise ValueError("This process is not in group=: call attend_sharded only in the processes of the group.")
        return Group(group, rank, dist.get_world_size(group), timeout)

    def peer(self, step: int) -> int:
        """The global rank of the process `step` positions further in the ring."""
        place = (self.rank + step) % self.size
        return place if self.group is None else dist.get_global_rank(self.group, place)

    def pass_on(self, sent: list[Tensor], tag: int = 0) -> "Callable[[], list[Tensor]]":
        """Sends tensors to the next process and receives those of the previous one; call the result to wait."""
        sent = [x.contiguous() for x in sent]
        received = [torch.empty_like(x) for x in sent]
        operations = []
        for place, (out, into) in enumerate(zip(sent, received, strict=True), tag):
            operations.append(dist.P2POp(dist.isend, out, self.peer(1), self.group, place))
            operations.append(dist.P2POp(dist.irecv, into, self.peer(-1), self.group, place))
        works = self._said(lambda: dist.batch_isend_irecv(operations), f"rank {self.peer(-1)}")

        def arrived() -> list[Tensor]:
            for work in works:
                self._wait(work, f"rank {self.peer(-1)} or {self.peer(1)}")
            del sent[:]  # keep them alive until sent
            return received

        return arrived

    def gather(self, x: Tensor) -> list[Tensor]:
        """The tensor of each process."""
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.size)]
        work = self._said(lambda: dist.all_gather(parts, x.contiguous(), self.group, async_op=True), "all")
        self._wait(work, "the other processes")
        return parts

    def sum_of_mine(self, parts: list[Tensor]) -> Tensor:
        """Reduce-scatter: parts[r] belongs to process r; returns the sum of this process' parts."""
        total = torch.stack([part.contiguous() for part in parts])
        mine = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
        reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)  # its name since torch 2.13
        work = self._said(lambda: reduce_scatter(mine, total.flatten(0, 1), group=self.group, async_op=True), "all")
        self._wait(work, "the other processes")
        return mine

    def _wait(self, work: Any, whom: str) -> None:
        self._said(lambda: work.wait(timedelta(seconds=self.timeout)), whom)

    def _said(self, act: Callable[[], Any], whom: str) -> Any:
        try:
            return act()
        except (RuntimeError, ValueError) as error:
            raise TimeoutError(
                f"Process {self.rank} of {self.size} had no answer from {whom} (timeout={self.timeout:g} s): that "
                f"process ended, hangs or called attend_sharded fewer times than this one. ({_first(error)})"
            ) from error


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
