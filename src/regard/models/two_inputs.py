"""Two inputs that look at each other: co-attention as the attention part of a task model."""

from dataclasses import replace
from typing import Any

from ..data.batch import Batch
from .model_output import Answer
from .task_model import TaskModel


class TwoInputs(TaskModel):
    """Both inputs have a feature model, and a composition of regard.nn weighs them together.

        F_1 = features(first),   F_2 = query(second),   c = attention(F_1, F_2),   y = output(c)

    attention: ParallelCoAttention, AlternatingCoAttention, InteractiveCoAttention, ... whatever is called as
    attention(first, second, over_first=, over_second=) and returns Composed with out (B, d). Answer.maps are its steps
    in their order. The query model of the general framework is a second feature model here.
    """

    def forward(self, batch: Batch) -> Answer:
        if batch.second is None or batch.second_lengths is None:
            raise ValueError("TwoInputs() reads a second input, and this batch has none.")
        first = self.features(batch)
        second = self.query(replace(batch, inputs=batch.second, lengths=batch.second_lengths))
        look: Any = self.attention
        ran = look(first.values, second.values, over_first=first.over, over_second=second.over)
        out = self.output(ran.out[:, None], second.values, first, batch)
        samples = tuple(step.sample for step in ran.steps.values() if step.sample is not None)
        return Answer(out, tuple(ran.maps.values()), (*first.maps, *second.maps), samples)
