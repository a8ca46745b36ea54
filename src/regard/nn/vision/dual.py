"""Dual attention: over positions and over channels (DANet), or gather and distribute (A2-Nets)."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, alignment_for, open_keys
from ..attention import Attention
from ..call_checks import reads
from ..composed import Composed
from .grid import image, tokens


class ChannelAttention(nn.Module):
    """Channel attention, with more weight on dissimilar channels.

        out_c = x_c + gamma sum_c' align_c'(-x_c . x_c') x_c'

    image (batch, channels, *grid)  ->  the same; map (batch, 1, channels, channels)

    Fu et al. 2019 (DANet). In the taxonomy: self-attentive queries, dot score, but the features are channels and their
    width is the number of positions, so alignments with a network of fixed width cannot be used. The paper's
    max - energy is minus energy, since softmax ignores a shift of a row. gamma starts at 0.
    """

    @checked
    def __init__(self, channels: int, *, align: "str | Alignment" = "softmax"):
        super().__init__()
        self.channels, self.align = channels, alignment_for(align, channels, channels)
        self.gamma = nn.Parameter(torch.zeros(()))

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Attended:
        keep = open_keys(tokens(x, self.channels), over)
        rows = x.flatten(2).masked_fill(~keep[:, None], 0.0)[:, None]  # (batch, 1, channels, positions)
        attended = attend(-rows, rows, rows, "dot", self.align, sample=self.training)
        return Attended(x + self.gamma * attended.out[:, 0].reshape(x.shape), attended.map, attended.sample)


class DualAttention(nn.Module):
    """The sum of attention over positions and attention over channels.

        out = (x + gamma_1 attention over places) + (x + gamma_2 attention over channels)

    image (batch, channels, *grid)  ->  the same; maps: places (batch, 1, positions, positions),
    channels (batch, 1, channels, channels)

    Also known as: DANet.
    Fu et al. 2019 (DANet, without its convolutions). In the taxonomy: two singular self-attentions, each over another
    axis of one input. Both gammas start at 0, where it gives 2 x.
    """

    @checked
    def __init__(
        self, channels: int, reduction: int = 8, *, score: ScoreLike = "dot", align: "str | Alignment" = "softmax"
    ):
        super().__init__()
        inner = max(1, channels // reduction)
        self.places = Attention(channels, 1, d_k=inner, d_v=channels, score=score, align=align)  # type: ignore[arg-type]
        self.channels = ChannelAttention(channels, align=align)
        self.gamma = nn.Parameter(torch.zeros(()))

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Composed:
        channels = self.channels(x, over)
        places = self.places(tokens(x, self.channels.channels), over=over)
        out = x + self.gamma * image(places.out, x) + channels.out
        return Composed(out, {"places": places, "channels": channels})


class DoubleAttention(nn.Module):
    """Gathers the image into a few descriptors, then distributes them to each position by attention.

        g_r = sum_p align_p(b_r . x_p) W_a x_p,   out_p = W_o sum_r align_r(v_r . x_p) g_r

    image (batch, channels, *grid)  ->  the same; maps: gather (batch, 1, descriptors, positions),
    distribute (batch, 1, positions, descriptors)

    Chen et al. 2018 (A2-Nets). In the taxonomy: learned queries (as in structured self-attention), then basic queries
    over the descriptors: two hops. The cost is positions x descriptors.
    """

    @checked
    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        descriptors: int = 8,
        *,
        score: ScoreLike = "dot",
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        inner, bound = inner or channels, channels**-0.5
        self.channels = channels
        self.queries, self.keys = (
            nn.Parameter(torch.empty(descriptors, channels).uniform_(-bound, bound)) for _ in range(2)
        )
        self.value, self.out = nn.Linear(channels, inner), nn.Linear(inner, channels)
        self.gather, self.distribute = (Attend(channels, channels, score, align) for _ in range(2))

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Composed:
        places = tokens(x, self.channels)
        queries, keys = (part.to(x.dtype).expand(x.shape[0], -1, -1) for part in (self.queries, self.keys))
        gathered = self.gather(queries, places, self.value(places), over)
        given = self.distribute(places, keys, gathered.out)
        return Composed(image(self.out(given.out), x), {"gather": gathered, "distribute": given})
