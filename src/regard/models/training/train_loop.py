"""The training loop of one process: epochs, validation, selection of the best, a checkpoint after each."""

import csv
import io
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example, collate
from regard.data.task import batches, shares
from regard.recording.io.writing import write_whole

from . import checkpoint
from .objectives import Objective
from .train_config import Trained

if TYPE_CHECKING:
    from .trainer import Trainer


class ModelWithObjective(nn.Module):
    """A model with its objective: batch -> summed loss; the module that DDP wraps."""

    def __init__(self, model: nn.Module, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> Tensor:
        return self.objective(self.model(batch), batch)


class TrainingState:
    """A model, its optimiser, and the progress of its training."""

    def __init__(
        self,
        trainer: "Trainer",
        fabric: Any,
        model: nn.Module,
        objective: Objective,
        train: Sequence[Example],
        val: Sequence[Example],
        seed: int,
    ):
        self.trainer, self.fabric, self.objective = trainer, fabric, objective
        self.train, self.val, self.seed, self.how = train, val, seed, trainer.training
        self.plain = ModelWithObjective(model, objective).to(fabric.device)
        if trainer.optimise is None:
            optimiser: Any = torch.optim.AdamW(self.plain.parameters(), lr=self.how.rate, weight_decay=self.how.decay)
        else:
            optimiser = trainer.optimise(self.plain)
        self.learner, self.optimiser = fabric.setup(self.plain, optimiser)
        self.found, self.best = Trained(), cloned_state(model)
        self.steps = math.ceil(len(train) / self.how.batch)
        self.file = None if trainer.folder is None else Path(trainer.folder) / "last.safetensors"
        self.board = self._board()

    def fit(self) -> Trained:
        self._resume()
        monitor = self.trainer.monitor
        if monitor is not None:
            monitor.model = self.plain.model
            monitor.start(self.found.epochs * self.steps, listen_now=False)
        try:
            return self._fit()
        finally:
            if monitor is not None:
                monitor.finish()

    def _fit(self) -> Trained:
        began, before = time.perf_counter(), self.found.seconds
        while self.found.epochs < self.how.epochs and self.found.waited < self.how.patience:
            epoch = self.found.epochs
            torch.manual_seed(_epoch_seed(self.seed, epoch, self.fabric.global_rank))
            loss = self._epoch(epoch)
            row = {"epoch": float(epoch + 1), "train": loss, **self._validate()}
            self._select(row)
            self.found.seconds = before + time.perf_counter() - began
            self._save()
        self.plain.model.load_state_dict(self.best)
        if self.board is not None:
            self.board.close()
        return self.found

    def _epoch(self, epoch: int) -> float:
        self.learner.train()
        total = torch.zeros(2, dtype=torch.float64)
        for step, chosen in enumerate(batches(self.train, self.how.batch, self.seed, epoch)):
            if self.trainer.monitor is not None:
                self.trainer.monitor.begin_step(epoch * self.steps + step)
            loss, count = self._step(chosen, epoch * self.steps + step)
            if self.trainer.monitor is not None:
                self.trainer.monitor.end_step()
            total += torch.tensor([loss, count], dtype=torch.float64)
            self.found.losses.append(loss / count)
            if self.trainer.on_step is not None and self.fabric.is_global_zero:
                self.trainer.on_step(epoch + 1, step + 1, self.steps, {"loss": loss / count})
        return float(total[0] / total[1])

    def _step(self, chosen: list[int], step: int) -> tuple[float, float]:
        """The summed loss and the row count of one step, over all processes."""
        world, rank = self.fabric.world_size, self.fabric.global_rank
        mine = shares(chosen, world * self.how.accumulate)[rank::world]
        empty = [not part for part in mine]
        parts = [collate([self.train[i] for i in part or chosen[:1]]).to(self.fabric.device) for part in mine]
        counts = [0.0 if none else self.objective.count(part) for part, none in zip(parts, empty, strict=True)]
        count = self._summed(sum(counts))
        for group in self.optimiser.param_groups:
            group["lr"] = self.how.rate_at(step, self.how.epochs * self.steps)
        found = 0.0
        for place, (part, none) in enumerate(zip(parts, empty, strict=True)):
            with self.fabric.no_backward_sync(self.learner, enabled=place + 1 < len(parts)):
                loss = self.learner(part) * (0.0 if none else 1.0)
                self.fabric.backward(loss * (world / count))  # gradients are averaged over processes
                found += float(loss.detach())
        if math.isfinite(self.how.clip):
            self.fabric.clip_gradients(self.learner, self.optimiser, max_norm=self.how.clip, error_if_nonfinite=False)
        self.optimiser.step()
        self.optimiser.zero_grad()
        found = self._summed(found)
        if not math.isfinite(found):
            raise FloatingPointError(
                f"The loss is {found} at step {step + 1}: lower the learning rate ({self.how.rate}) or "
                f"the gradient clipping norm ({self.how.clip})."
            )
        return found, count

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        self.learner.eval()
        sums: dict[str, list[float]] = {}
        groups = batches(self.val, max(self.how.batch, self.trainer.together))
        for chosen in groups[self.fabric.global_rank :: self.fabric.world_size]:
            batch = collate([self.val[i] for i in chosen]).to(self.fabric.device)
            with self.fabric.autocast():
                answer = self.plain.model(batch)
            for name, (value, count) in self.objective.scores(answer, batch).items():
                held = sums.setdefault(name, [0.0, 0.0])
                held[0], held[1] = held[0] + value, held[1] + count
        if self.fabric.world_size > 1:
            names = ["loss", *({self.objective.selects_by} - {"loss"})]
            sums = {name: [self._summed(x) for x in sums.get(name, (0.0, 0.0))] for name in names}
        return {name: value / count for name, (value, count) in sums.items()}

    def _summed(self, x: float) -> float:
        if self.fabric.world_size == 1:
            return x
        held = torch.tensor(x, dtype=torch.float64, device=self.fabric.device)
        return float(self.fabric.all_reduce(held, reduce_op="sum"))

    def _select(self, row: dict[str, float]) -> None:
        name, sign = self.objective.selects_by, 1.0 if self.objective.higher else -1.0
        so_far = self.found.best
        self.found.history.append(row)
        # ties are frequent on small validation sets: the loss breaks them
        early = 0 < self.found.kept < self.trainer.earliest
        if not so_far or early or (sign * row[name], -row["loss"]) > (sign * so_far[name], -so_far["loss"]):
            self.found.kept, self.found.waited = self.found.epochs, 0
            self.best = cloned_state(self.plain.model)
        else:
            self.found.waited += 1
        if self.board is not None:
            for key, value in row.items():
                self.board.add_scalar(key, value, int(row["epoch"]))
        if self.trainer.on_step is not None and self.fabric.is_global_zero:
            self.trainer.on_step(int(row["epoch"]), self.steps, self.steps, row)

    def _save(self) -> None:
        if self.file is not None and self.fabric.is_global_zero:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            optimiser = getattr(self.optimiser, "optimizer", self.optimiser)
            checkpoint.save(self.file, self.plain, optimiser, self.best, self._about() | {"found": asdict(self.found)})
            _write_rows(self.file.with_name("history.csv"), self.found.history)
        self.fabric.barrier()

    def _resume(self) -> None:
        if self.file is None or not self.file.is_file():
            return
        optimiser = getattr(self.optimiser, "optimizer", self.optimiser)
        best, about = checkpoint.load(self.file, self.plain, optimiser)
        if {key: about.get(key) for key in self._about()} != self._about():
            raise ValueError(
                f"{self.file} belongs to another run: it has {_conditions(about)}, this run "
                f"{_conditions(self._about())}. Train into another folder, or delete it."
            )
        self.best = {name: x.to(self.fabric.device) for name, x in best.items()}
        self.found = Trained(**about["found"])

    def _about(self) -> dict[str, Any]:
        """What must be equal to resume a run. The number of epochs may grow unless the schedule depends on it."""
        how = asdict(self.how)
        if self.how.schedule != "cosine":
            how.pop("epochs")
        how.pop("patience")
        return {"seed": self.seed, "train": len(self.train), "training": how}

    def _board(self) -> Any:
        if not self.trainer.board or self.file is None or not self.fabric.is_global_zero:
            return None
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.file.parent))


def _conditions(about: dict[str, Any]) -> str:
    return f"seed {about.get('seed')}, {about.get('train')} examples, {about.get('training')}"


def _epoch_seed(seed: int, epoch: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1, np.uint64)[0] >> 1)


def cloned_state(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def _write_rows(path: Path, rows: list[dict[str, float]]) -> None:
    text = io.StringIO()
    made = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    made.writeheader()
    made.writerows(rows)
    write_whole(path, [text.getvalue().encode()])
