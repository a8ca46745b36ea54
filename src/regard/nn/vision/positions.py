"""Attention over the positions of an image or a video: non-local, spatial, temporal."""

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.scores import Score
from regard.core.structures import Structure

from ..attention import Attention
from ..call_checks import reads
from .grid import image, tokens


class NonLocalBlock(nn.Module):
    """Residual attention of every position of an image or a video over all positions.

        out_p = x_p + W_z sum_p' align_p'(theta(x_p) . phi(x_p')) g(x_p')

    image (batch, channels, *grid)  ->  the same; map (batch, 1, positions, positions)

    inner   width of theta, phi and g; half of the channels unless given
    score   "dot" (embedded Gaussian under softmax), or any other

    Also known as: non-local neural network, embedded Gaussian.
    Wang et al. 2018. In the taxonomy: self-attentive queries, singular features. W_z starts at 0, so that the block
    starts as the identity.
    """

    @checked
    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        *,
        score: "str | Score" = "dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        inner = inner or max(1, channels // 2)
        self.channels = channels
        self.attention = Attention(channels, 1, d_k=inner, d_v=inner, score=score, align=align, dropout=dropout)
        nn.init.zeros_(self.attention.out_proj.weight)

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Attended:
        attended = self.attention(tokens(x, self.channels), over=over)
        return Attended(x + image(attended.out, x), attended.map, attended.sample, attended.state)


class _OverVideo(nn.Module):
    """Base of spatial and temporal attention: one attention along one axis."""

    @checked
    def __init__(
        self,
        dim: int,
        heads: int = 1,
        *,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attention = Attention(dim, heads, score=score, align=align, dropout=dropout)


class SpatialAttention(_OverVideo):
    """Self-attention over the positions of each frame.

        out_t = attention(x_t, x_t) for each time t

    video (..., times, places, dim)  ->  the same; map (..., times, heads, places, places)

    The arguments are those of `Attention`. Structures apply to the positions of a frame: Window(1, 1, grid=(h, w)).

    Bertasius et al. 2021 (TimeSformer), its spatial half. In the taxonomy: self-attentive
    queries over positions. Equivariant to permuting frames.
    """

    @reads(video="dim")
    def forward(self, video: Tensor, over: Structure | None = None) -> Attended:
        return self.attention(video, over=over)


class TemporalAttention(_OverVideo):
    """Self-attention over time at each position.

        out_p = attention(x_p, x_p) for each place p

    video (..., times, places, dim)  ->  the same; map (..., places, heads, times, times)

    The arguments are those of `Attention`. Structures apply to time steps: Causal(), or
    Padding(lengths[:, None]).

    Bertasius et al. 2021 (TimeSformer), its temporal half. In the taxonomy:
    self-attentive queries over time steps. Equivariant to permuting positions.
    """

    @reads(video="dim")
    def forward(self, video: Tensor, over: Structure | None = None) -> Attended:
        attended = self.attention(video.transpose(-3, -2), over=over)
        return Attended(attended.out.transpose(-3, -2), attended.map, attended.sample, attended.state)
