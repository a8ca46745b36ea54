"""Channel gating: squeeze-excitation, ECA and CBAM. A gate is attention of a channel over a single key, itself."""

import math

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment, Sigmoid
from regard.core.arguments import checked, shown
from regard.core.attend import Attended, attend
from regard.core.scores import QueryFree
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, alignment_for, best, mean, open_keys
from ..call_checks import reads
from ..composed import Composed
from .grid import image, tokens


class Gate(nn.Module):
    """Channel gate: out_c = w_c x_c,  w_c = sigmoid(logit_c): attention over one key, a head for each channel.

    x (..., C, d), logits (..., C)  ->  out (..., C, d); map (..., C, 1, 1)

    Each gate is a head, so that recording captures it; `Uniform` (or softmax over one key) sets all to 1: the ablation.
    """

    def __init__(self, align: "str | Alignment | None" = None):
        super().__init__()
        try:
            self.align = Sigmoid(0.0) if align is None else alignment_for(align, 1, 1)
        except (TypeError, ValueError) as error:
            raise type(error)(f"gate={shown(align)}: {error}") from None

    def forward(self, x: Tensor, logits: Tensor) -> Attended:
        asked = logits[..., None, None]
        attended = attend(asked, torch.ones_like(asked), x.unsqueeze(-2), "dot", self.align, sample=self.training)
        return Attended(attended.out.squeeze(-2), attended.map, attended.sample)


class SqueezeExcitation(nn.Module):
    """Channel gates computed from a global summary of the image.

        z = sum_p align_p(score(x_p)) x_p,   w = sigmoid(W_2 relu(W_1 z)),   out_c = w_c x_c

    image (batch, channels, *grid)  ->  the same; maps: squeeze (batch, 1, 1, positions), gate (batch, channels, 1, 1)

    align   of the squeeze over positions: "uniform" is the mean of the paper; score="query_free" with "softmax" is
            attention pooling (GCNet)
    gate    the alignment of the gate, sigmoid unless given; "uniform" sets every gate to 1

    Also known as: SENet, SE block.
    Hu et al. 2018. In the taxonomy: a self-attentive pooling (singular, single-dimensional), then one weight for each
    feature with a sigmoid alignment over a single key: channels are gated, not compared. Invariant to permuting
    positions.
    """

    @checked
    def __init__(
        self,
        channels: int,
        reduction: int = 16,
        *,
        score: "ScoreLike | None" = None,
        align: "str | Alignment" = "uniform",
        gate: "str | Alignment | None" = None,
    ):
        super().__init__()
        inner = max(1, channels // reduction)
        self.channels = channels
        self.squeeze = Attend(None, channels, QueryFree() if score is None else score, align)
        self.down, self.up = nn.Linear(channels, inner, bias=False), nn.Linear(inner, channels, bias=False)
        self.gate = Gate(gate)

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Composed:
        squeezed = self.squeeze(None, tokens(x, self.channels), over=over)
        logits = self.up(torch.relu(self.down(squeezed.out.squeeze(-2))))
        gated = self.gate(x.flatten(2), logits)
        return Composed(gated.out.reshape(x.shape), {"squeeze": squeezed, "gate": gated})


class EfficientChannelAttention(nn.Module):
    """Channel gates from a 1-D convolution over the channel means.

        w = sigmoid(conv1d(mean_p x_p)),   out_c = w_c x_c

    image (batch, channels, *grid)  ->  the same; map gate (batch, channels, 1, 1)

    kernel   odd; from the number of channels unless given: about (log2 C + 1) / 2

    Also known as: ECA-Net, ECA.
    Wang et al. 2020 (ECA). In the taxonomy: squeeze-excitation whose excitation is local and has `kernel` parameters.
    Channels more than half a kernel apart do not interact.
    """

    @checked
    def __init__(self, channels: int, kernel: int | None = None, *, gate: "str | Alignment | None" = None):
        super().__init__()
        size = kernel or int(abs((math.log2(channels) + 1) / 2)) | 1
        if size % 2 == 0:
            raise ValueError(
                f"EfficientChannelAttention(kernel={kernel}): expected an odd width, so that the filter is centred."
            )
        self.channels = channels
        self.conv = nn.Conv1d(1, 1, size, padding=size // 2, bias=False)
        self.gate = Gate(gate)

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Composed:
        squeezed = mean(tokens(x, self.channels), over)  # (batch, 1, channels)
        gated = self.gate(x.flatten(2), self.conv(squeezed).squeeze(1))
        return Composed(gated.out.reshape(x.shape), {"gate": gated})


class ConvolutionalBlockAttention(nn.Module):
    """Channel gates, then position gates.

        x'_c = x_c sigmoid(MLP(mean_p x) + MLP(max_p x))_c,   out_p = x'_p sigmoid(conv([mean_c x'; max_c x']))_p

    image (batch, channels, height, width)  ->  the same; maps: channels (batch, channels, 1, 1),
    places (batch, height width, 1, 1)

    Also known as: CBAM.
    Woo et al. 2018 (CBAM). In the taxonomy: two gates (sigmoid, one key), of channels and of positions. Unlike a
    softmax over positions, several positions may have weight 1.
    """

    @checked
    def __init__(self, channels: int, reduction: int = 16, kernel: int = 7, *, gate: "str | Alignment | None" = None):
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(
                f"ConvolutionalBlockAttention(kernel={kernel}): expected an odd width, so that the filter is centred."
            )
        inner = max(1, channels // reduction)
        self.channels = channels
        self.down, self.up = nn.Linear(channels, inner, bias=False), nn.Linear(inner, channels, bias=False)
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)
        self.of_channels, self.of_places = Gate(gate), Gate(gate)

    @reads(x=None)
    def forward(self, x: Tensor, over: Structure | None = None) -> Composed:
        flat = tokens(x, self.channels)
        keep = open_keys(flat, over)
        flat = flat.masked_fill(~keep[..., None], 0.0)  # (batch, positions, channels)
        highest = best(flat.transpose(1, 2), keep)
        logits = sum(self.up(torch.relu(self.down(z))) for z in (mean(flat, over).squeeze(-2), highest))
        channels = self.of_channels(flat.transpose(1, 2), logits)
        passed = channels.out.transpose(1, 2)
        if passed.shape[1] == 0:  # an image without pixels: no positions to gate
            return Composed(x, {"channels": channels})
        seen = image(torch.stack([passed.mean(-1), passed.amax(-1)], -1), x)
        places = self.of_places(passed, self.conv(seen).flatten(1))
        return Composed(image(places.out, x), {"channels": channels, "places": places})
