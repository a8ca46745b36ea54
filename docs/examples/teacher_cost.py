"""What an indexer's teacher costs beside the attention that it reads: forward and backward of both, on one core."""

import time
from collections.abc import Callable

import torch

from regard import Causal, attend
from regard.nn import LightningIndexer


def seconds(call: Callable[[], object]) -> float:
    """The least processor time of four runs."""
    found = []
    for _ in range(4):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def compared(n: int, heads: int, d: int = 64) -> None:
    q, k, v = (torch.randn(1, heads, n, d, requires_grad=True) for _ in range(3))
    x, indexer = torch.randn(1, n, heads * d), LightningIndexer(heads * d, 4, d=32)
    amap = attend(q.detach(), k.detach(), v.detach(), over=Causal()).map

    def attention() -> object:
        return torch.autograd.grad(attend(q, k, v, over=Causal()).out.sum(), [q, k, v])

    def teacher() -> object:
        return torch.autograd.grad(indexer.divergence(x, amap), list(indexer.parameters()))

    own, taught = seconds(attention), seconds(teacher)
    print(f"{n:,} tokens, {heads} heads: attention {own:.3f} s, its teacher {taught:.3f} s, ratio {taught / own:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for tokens, heads in ((1024, 8), (2048, 8), (2048, 16)):
        compared(tokens, heads)
