"""Data-dependent sparsity: each query attends a few blocks of keys, selected by a cheap score."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..arguments import flag, whole
from ..errors import values_are_checked
from ..lowering.tiles import Tile
from .structure import Structure, kind_of


@dataclass(frozen=True, eq=False)
class Selected(Structure):
    """Each query attends its own selection of key blocks.

        (i, j) where floor(j / block) is one of index_i

    Also known as: block-sparse attention, block selection, top-k blocks.
    index (..., H or 1, n, top) integers, the selected blocks of each query, -1 for none; block: keys a block, 1 for
    single keys (as a DeepSeek indexer selects them). Lu et al. 2025 (MoBA). `Selected.top_blocks(q, k, ...)` selects
    as MoBA does. Selecting every block is full attention.
    """

    index: Tensor
    block: int = 1

    def __post_init__(self) -> None:
        whole(self.block, "Selected", "block")

    @staticmethod
    def top_blocks(q: Tensor, k: Tensor, block: int, top: int, *, causal: bool = True) -> "Selected":
        """The blocks whose mean key has the largest dot product with the query, as in MoBA.

        q (..., H, n, d), k (..., H_k, m, d)  ->  index (..., H, n, top)

        causal    always selects the query's own block, and none that begins after the query; if queries and keys
                  differ in number, they are aligned at the end. Combine with Causal(align="end") to mask later keys
                  of the query's own block.

        The selection has no gradient: queries and keys learn through the selected pairs.
        """
        block, top = whole(block, "Selected.top_blocks", "block"), whole(top, "Selected.top_blocks", "top")
        flag(causal, "Selected.top_blocks", "causal")
        n, m = q.shape[-2], k.shape[-2]
        with torch.no_grad():
            count = -(-m // block)
            whole_blocks = torch.nn.functional.pad(k.detach().float(), (0, 0, 0, count * block - m))
            sizes = (torch.arange(count, device=k.device) * block - m).neg().clamp_max(block)
            means = whole_blocks.unflatten(-2, (count, block)).sum(-2) / sizes[:, None]
            if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
                means = means.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
            score = q.detach().float() @ means.mT  # (..., H, n, blocks)
            if causal:
                own = (torch.arange(n, device=q.device) + m - n)[:, None] // block
                blocks = torch.arange(count, device=q.device)
                score = score.masked_fill(blocks > own, float("-inf")).masked_fill(blocks == own, float("inf"))
            best = score.topk(min(top, count), -1)
            return Selected(best.indices.masked_fill(best.values == float("-inf"), -1), block)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        index = self.index
        if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool:
            raise TypeError(
                f"Selected(index={kind_of(index)}): expected an integer tensor (..., heads, n, top) of blocks; a bool "
                "mask of pairs becomes Mask(keep=...)."
            )
        sizes = (1,) * (len(lead) + 3 - index.ndim) + tuple(index.shape)
        wanted = (*lead, heads, n)
        if (
            len(sizes) != len(lead) + 3
            or any(a != 1 and a != b for a, b in zip(sizes, wanted, strict=False))
            or sizes[-2] != n
        ):
            raise ValueError(
                f"Selected(index) has shape {tuple(index.shape)}, expected {wanted} = (..., heads, n) and, as the last "
                "axis, the blocks of each query."
            )
        count = -(-m // self.block)
        if values_are_checked(index) and index.numel() and not -1 <= int(index.min()) <= int(index.max()) < count:
            wrong = int(index.max()) if int(index.max()) >= count else int(index.min())
            raise ValueError(
                f"Selected(index) names block {wrong}, but {m} keys in blocks of {self.block} are blocks 0 to "
                f"{count - 1}; -1 stands for none."
            )
        batch = 1
        for size in lead:
            batch *= size
        index = index.reshape(sizes).expand(*lead, *sizes[len(lead) :]).reshape(batch, *sizes[len(lead) :])
        return Selected(index, self.block)

    def allowed(self, tile: Tile) -> Tensor | None:
        batch, heads = self.index.shape[:2]
        item = tile.batch if batch > 1 else torch.zeros_like(tile.batch)
        head = tile.head if heads > 1 else torch.zeros_like(tile.head)
        chosen = self.index[item.squeeze(-1), head.squeeze(-1), tile.query.squeeze(-1)].long()  # (g, r, top)
        count = -(-tile.m // self.block)
        keep = torch.zeros((*chosen.shape[:-1], count + 1), dtype=torch.bool, device=chosen.device)
        keep.scatter_(-1, chosen.where(chosen >= 0, count), True)  # -1 goes to an extra block
        place = (tile.key // self.block).expand(keep.shape[0], keep.shape[1], -1)
        return keep.gather(-1, place)
