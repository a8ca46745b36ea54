"""Training objectives: the loss, and the metric by which the best epoch is selected."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batch import Batch
from regard.data.vocabulary import PAD

from ..model_output import Answer
from .attention_losses import score_function_loss, supervised

Scores = dict[str, tuple[float, float]]


class Objective(nn.Module, ABC):
    """A loss for each row, summed; means are over all devices and micro-batches.

    supervise, form   weight and form of the attention supervision loss (`attention_losses.supervised`)
    entropy           entropy bonus of sampling (`attention_losses.score_function_loss`)

    For stochastic models (hard, reinforced attention) the score-function loss is added automatically; its baseline is
    a moving average of the loss.
    """

    selects_by, higher = "loss", False

    def __init__(self, supervise: float = 0.0, form: str = "cross_entropy", entropy: float = 0.0):
        super().__init__()
        self.supervise, self.form, self.entropy = supervise, form, entropy
        self.register_buffer("usual", torch.full((), float("nan")))
        self.usual: Tensor  # the moving average; the name is in state_dicts

    @abstractmethod
    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses (B, r), 0 on padding, and the mask of rows that are not padding (B, r)."""

    def count(self, batch: Batch) -> float:
        """The number of rows of a batch, by which its summed loss is divided."""
        return float(len(batch))

    def forward(self, answer: Answer, batch: Batch) -> Tensor:
        losses, real = self.rows(answer, batch)
        total = losses.sum()
        if answer.samples and self.training:
            baseline = torch.where(self.usual.isnan(), losses.detach().sum() / real.sum(), self.usual)
            reward = score_function_loss(losses, answer.samples, real, baseline, answer.fed, self.entropy).sum()
            total = total + reward - reward.detach()  # only its gradient: the value of the loss is unchanged
            with torch.no_grad():
                self.usual.copy_(0.95 * baseline + 0.05 * losses.detach().sum() / real.sum())
        if self.supervise and batch.gold is not None and answer.maps:  # a model without attention has no maps
            total = total + self.supervise * supervised(answer.weights(grad=True), batch.gold, self.form).sum()
        return total

    def scores(self, answer: Answer, batch: Batch) -> Scores:
        """Sum and count of each metric, which add up over batches."""
        losses, real = self.rows(answer, batch)
        return {"loss": (float(losses.sum()), float(real.sum()))}


class Classification(Objective):
    """Cross-entropy of classes; the best epoch is that of the highest validation accuracy."""

    selects_by, higher = "accuracy", True

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = F.cross_entropy(answer.out, batch.target, reduction="none")[:, None]
        return losses, torch.ones_like(losses, dtype=torch.bool)

    def scores(self, answer: Answer, batch: Batch) -> Scores:
        right = (answer.out.argmax(-1) == batch.target).sum()
        return super().scores(answer, batch) | {"accuracy": (float(right), float(len(batch)))}


class Ranking(Classification):
    """Cross-entropy of two classes, the positive one weighted by `balance`; selected by the area under the ROC curve.

    balance   weight of a positive example relative to a negative one; the ratio of their counts balances the classes

    AUC is computed over the pairs within a batch: validate with all examples in one (`Trainer.together`).
    """

    selects_by = "auc"

    def __init__(self, balance: float = 1.0):
        super().__init__()
        self.balance = balance

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        losses, real = super().rows(answer, batch)
        return torch.where(batch.target[:, None] == 1, losses * self.balance, losses), real

    def scores(self, answer: Answer, batch: Batch) -> Scores:
        odds = (answer.out[:, 1] - answer.out[:, 0]).double()
        apart = odds[batch.target == 1][:, None] - odds[batch.target == 0][None, :]
        right = float((apart > 0).sum()) + 0.5 * float((apart == 0).sum())
        return super().scores(answer, batch) | {"auc": (right, float(apart.numel()))}


class AttentionSupervision(Objective):
    """The loss on attention alone (`attention_losses.supervised`); predictions do not count."""

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        if batch.gold is None:
            raise ValueError("AttentionSupervision() needs gold weights, and this batch has none: set Example.gold.")
        losses = supervised(answer.weights(grad=True), batch.gold, self.form)[:, None]
        return losses, torch.ones_like(losses, dtype=torch.bool)


class Regression(Objective):
    """Squared error of a scalar."""

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = (answer.out - batch.target).square()[:, None]
        return losses, torch.ones_like(losses, dtype=torch.bool)


class Restoration(Objective):
    """Squared error of pixels, averaged over an image."""

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = (answer.out - batch.target).square().flatten(1).mean(1, keepdim=True)
        return losses, torch.ones_like(losses, dtype=torch.bool)


class Sequences(Objective):
    """Cross-entropy of each word of a target; smoothing: label smoothing."""

    def __init__(
        self, smoothing: float = 0.0, supervise: float = 0.0, form: str = "cross_entropy", entropy: float = 0.0
    ):
        super().__init__(supervise, form, entropy)
        self.smoothing = smoothing

    def count(self, batch: Batch) -> float:
        assert batch.target_lengths is not None
        return float(batch.target_lengths.sum())

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = F.cross_entropy(
            answer.out.flatten(0, 1),
            batch.target.flatten(),
            reduction="none",
            ignore_index=PAD,
            label_smoothing=self.smoothing if self.training else 0.0,
        )
        return losses.view_as(batch.target), batch.target != PAD

    def scores(self, answer: Answer, batch: Batch) -> Scores:
        losses, real = self.rows(answer, batch)
        right = ((answer.out.argmax(-1) == batch.target) & real).sum()
        count = float(real.sum())
        return {"loss": (float(losses.sum()), count), "accuracy": (float(right), count)}
