"""A monitor in the trainers that people have: transformers' and Lightning's."""

import csv

import pytest
import torch
from torch import nn


def tiny_llama(attention="regard:entmax15"):
    pytest.importorskip("transformers", "5", reason="transformers 5 is not installed")
    from transformers import LlamaConfig, LlamaForCausalLM

    import regard.integrations.transformers  # noqa: F401 registers the names

    torch.manual_seed(0)
    sizes = {"vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM._from_config(LlamaConfig(intermediate_size=16, **sizes), attn_implementation=attention)


ROWS = [{"input_ids": [1, i % 12 + 2, 5, i % 12 + 2], "labels": [1, i % 12 + 2, 5, i % 12 + 2]} for i in range(32)]
SITES = ["model.layers.0.self_attn", "model.layers.1.self_attn"]


def trained(model, folder, callbacks, **options):
    from transformers import Trainer, TrainingArguments

    settings = {"max_steps": 6, "save_strategy": "no", "use_cpu": True, "report_to": [], "disable_tqdm": True} | options
    trainer = Trainer(
        model,
        TrainingArguments(str(folder), **settings),
        train_dataset=ROWS,
        eval_dataset=ROWS[:4],
        callbacks=callbacks,
    )
    trainer.train()
    return [x.detach().clone() for x in model.parameters()]


def test_transformers_trainer(tmp_path):
    model = tiny_llama()
    from regard.integrations.transformers_trainer import TrainerMonitor

    expected = trained(tiny_llama(), tmp_path / "plain", [])
    callback = TrainerMonitor(every=3, rows=8, log=tmp_path / "a.csv", table=False)
    again = {"gradient_accumulation_steps": 2, "eval_strategy": "steps", "eval_steps": 3}
    found = trained(model, tmp_path / "watched", [callback])
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert [(x.step, list(x.sites)) for x in callback.monitor.history] == [(0, SITES), (3, SITES)]
    with (tmp_path / "a.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * 2 * 2
    trained(model, tmp_path / "more", [callback], **again)  # the same callback in another training
    assert [(x.step, list(x.sites)) for x in callback.monitor.history] == [(0, SITES), (3, SITES)]


@pytest.mark.slow
def test_transformers_trainer_reports_where_it_reports_to(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    model = tiny_llama("sdpa")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from regard.integrations.transformers_trainer import TrainerMonitor

    trained(model, tmp_path, [TrainerMonitor(every=3, table=False)], report_to=["tensorboard"])
    events = EventAccumulator(str(tmp_path / "runs" / "attention"))
    events.Reload()
    assert [x.step for x in events.Scalars(f"attention/{SITES[0]}/entropy")] == [0, 3]


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from regard.integrations.lightning import LightningMonitor

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def training_step(self, batch, _):
            x = batch[0]
            return self.attention(x, x, x)[0].square().mean()

        def validation_step(self, batch, _):
            self.attention(batch[0], batch[0], batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(24, 5, 8)), batch_size=2)
    callback = LightningMonitor(every=2, rows=8, log=tmp_path / "a.csv", table=False)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        accumulate_grad_batches=3,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), data, data)
    assert [(x.step, list(x.sites)) for x in callback.monitor.history] == [(0, ["attention"]), (2, ["attention"])]
    assert callback.monitor.latest.sites["attention"].gradient.sum() == pytest.approx(1)
