"""Co-attention between two inputs as the attention part of a task model."""

from dataclasses import replace
from typing import Any

from ..data.batch import Batch
from .model_output import Answer
from .task_model import TaskModel


class TwoInputs(TaskModel):
    """Each input has a feature model, and a co-attention module of regard.nn combines them.

        F_1 = features(first),   F_2 = query(second),   c = attention(F_1, F_2),   y = output(c)

    attention: ParallelCoAttention, AlternatingCoAttention, InteractiveCoAttention, ... or any module called as
    attention(first, second, over_first=, over_second=) that returns Composed with out (B, d). Answer.maps are its steps
    in order. The query model of the general framework is a second feature model here.
    """

    def forward(self, batch: Batch) -> Answer:
        if batch.second is None or batch.second_lengths is None:
            raise ValueError("TwoInputs() needs a second input, and this batch has none.")
        first = self.features(batch)
        second = self.query(replace(batch, inputs=batch.second, lengths=batch.second_lengths))
        look: Any = self.attention
        ran = look(first.values, second.values, over_first=first.over, over_second=second.over)
        out = self.output(ran.out[:, None], second.values, first, batch)
        samples = tuple(step.sample for step in ran.steps.values() if step.sample is not None)
        return Answer(out, tuple(ran.maps.values()), (*first.maps, *second.maps), samples)
