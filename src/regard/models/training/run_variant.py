"""One run of an experiment: a model trained from a seed and measured; what `regard train` repeats and a trial does."""

from dataclasses import dataclass

import torch
from torch import nn

from regard.data.task import Task

from .. import queries
from ..attention_spec import AttentionSpec, parse_attention
from ..task_model import TaskModel
from .experiment import Experiment, Result
from .trainer import Trained, Trainer


@dataclass
class VariantRun:
    """A trained model, its training history and its result on the test data."""

    model: nn.Module
    trained: Trained
    result: Result


def built(experiment: Experiment, task: Task, attention: str, seed: int) -> nn.Module:
    """A fresh network whose first weights follow from the seed. The caller's random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = experiment.model(task, attention)
        return model if attention in experiment.own else settle(model, parse_attention(attention))


def run(experiment: Experiment, task: Task, attention: str, seed: int, trainer: Trainer) -> VariantRun:
    model = built(experiment, task, attention, seed)
    trained = trainer.fit(model, experiment.objective(), task.train, task.val, seed)
    return VariantRun(model, trained, experiment.measure(model.to(trainer.device), task, trainer.device))


def settle(model: nn.Module, spec: AttentionSpec) -> nn.Module:
    """What a name asks of a whole model, put in place: who asks, and what stays as it was drawn."""
    if spec.query:
        if type(model) is not TaskModel or model.attention is None:
            raise ValueError(
                f"query={spec.query}: in this task the question comes from the model's own course (a "
                "decoder's state, each patch); leave query= out."
            )
        dim = int(getattr(model.query, "dim", 0) or getattr(model.features, "dim", 0))
        plain = {"summary": queries.Summary, "mean": queries.Mean}
        model.query = queries.Learned(dim) if spec.query == "learned" else plain[spec.query]()
    if spec.frozen:
        attention = getattr(model, "attention", None)
        parts = [part for part in (attention,) if part is not None]
        if isinstance(getattr(model, "query", None), queries.Learned):
            parts.append(model.query)
        kept = [p for part in parts for p in part.parameters()]
        if not kept:
            raise ValueError(
                f"attention '{spec}': the score {spec.score!r} has no parameters and the question comes "
                "from the input, so there is nothing to freeze; take additive or general."
            )
        for p in kept:
            p.requires_grad_(False)
    return model
