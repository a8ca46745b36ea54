"""One run of an experiment: train a model from a seed and evaluate it; repeated by `regard train` and by trials."""

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


def build_model(experiment: Experiment, task: Task, attention: str, seed: int) -> nn.Module:
    """A new model, initialised from the seed. The global random state is restored."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = experiment.model(task, attention)
        return model if attention in experiment.own else apply_spec(model, parse_attention(attention))


def run_variant(experiment: Experiment, task: Task, attention: str, seed: int, trainer: Trainer) -> VariantRun:
    model = build_model(experiment, task, attention, seed)
    trained = trainer.fit(model, experiment.objective(), task.train, task.val, seed)
    return VariantRun(model, trained, experiment.measure(model.to(trainer.device), task, trainer.device))


def apply_spec(model: nn.Module, spec: AttentionSpec) -> nn.Module:
    """Apply the parts of an attention name that concern the whole model: its query model, and frozen parameters."""
    if spec.query:
        if type(model) is not TaskModel or model.attention is None:
            raise ValueError(
                f"query={spec.query}: in this task the queries come from the model itself (decoder states, "
                "patches); leave out query=."
            )
        dim = int(getattr(model.query, "dim", 0) or getattr(model.features, "dim", 0))
        others = {"summary": queries.Summary, "mean": queries.Mean}
        model.query = queries.Learned(dim) if spec.query == "learned" else others[spec.query]()
    if spec.frozen:
        attention = getattr(model, "attention", None)
        parts = [part for part in (attention,) if part is not None]
        if isinstance(getattr(model, "query", None), queries.Learned):
            parts.append(model.query)
        frozen = [p for part in parts for p in part.parameters()]
        if not frozen:
            raise ValueError(
                f"attention '{spec}': the score {spec.score!r} has no parameters and the query comes "
                "from the input, so there is nothing to freeze; use additive or general."
            )
        for p in frozen:
            p.requires_grad_(False)
    return model
