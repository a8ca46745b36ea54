"""Attention over a sequence that is sharded across a process group: exact, forward and backward.

from regard.integrations.distributed import attend_sharded, shard

q, k, v = (shard(x, group) for x in (q, k, v))            # each process keeps its part of the sequence
out = attend_sharded(q, k, v, over=Causal(), group=group).out
"""

from .layout import shard, unshard
from .sequence import ShardedAttended, ShardedAttention, attend_sharded

__all__ = ["ShardedAttended", "ShardedAttention", "attend_sharded", "shard", "unshard"]
