"""TaskModel: the four parts of the general framework, each replaceable."""

from torch import nn

from ..data.batch import Batch
from .attention_factory import apply_attention
from .model_output import Answer, maps_and_samples


class TaskModel(nn.Module):
    """Feature model -> query model -> attention -> output model.

        F = features(batch),   q = query(F),   c = sum_j align(score(q, f_j)) f_j,   y = output(c)

    features(batch) -> Encoded; query(encoded, batch) -> (B, m, d_q); attention(query, features, over=) -> Attended,
    (B, m, d) and its map (nn.Attend, nn.Attention; None: no attention, the summary of the features);
    output(context, query, encoded, batch) -> logits, a number, pixels. forward(batch) -> Answer.

    Brauwers and Frasincar 2021, section 2. Any part may be replaced by that of another task.
    """

    def __init__(self, features: nn.Module, query: nn.Module, attention: nn.Module | None, output: nn.Module):
        super().__init__()
        self.features, self.query, self.attention, self.output = features, query, attention, output

    def forward(self, batch: Batch) -> Answer:
        encoded = self.features(batch)
        asked = self.query(encoded, batch)
        attended = apply_attention(self.attention, asked, encoded)
        maps, samples = maps_and_samples(attended)
        return Answer(self.output(attended.out, asked, encoded, batch), maps, encoded.maps, samples)
