"""The trainer: the same bits whether it was stopped or not, whole or in parts, on one process or on two."""

import csv
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.data import Example, cipher, retrieval
from regard.data.batch import collate
from regard.models import builders
from regard.models.training import checkpoint, devices
from regard.models.training.objectives import Classification, Regression, Sequences
from regard.models.training.trainer import Trainer, Training

SOURCE = Path(__file__).parents[3] / "src"


def setting(attention="additive", dropout=0.2):
    task = cipher(words=10, shortest=2, longest=6, train=40, val=12, test=4)
    torch.manual_seed(0)
    model = builders.translator(len(task.words), len(task.target_words), attention, 8, 8, "parallel", dropout)
    return task, model


def fitted(training, attention="additive", dropout=0.2, **options):
    task, model = setting(attention, dropout)
    found = Trainer(training, **options).fit(model, Sequences(), task.train, task.val, seed=3)
    return model, found


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


FOUR = Training(epochs=4, batch=8, rate=1e-2, warmup=3, schedule="root", patience=9)


@pytest.mark.parametrize("attention", ["additive", "hard"])
def test_training_that_was_stopped_and_gone_on_with_is_bitwise_the_same(tmp_path, attention):
    whole, at_once = fitted(FOUR, attention)
    fitted(replace(FOUR, epochs=2), attention, folder=tmp_path)
    torch.rand(7)  # whatever happens in between
    model, in_two = fitted(FOUR, attention, folder=tmp_path)
    assert in_two.losses == at_once.losses and len(at_once.losses) == 20
    assert in_two.history == at_once.history and in_two.kept == at_once.kept
    assert same(model, whole)


def test_a_run_killed_in_the_middle_of_a_write_goes_on_from_the_checkpoint_before(tmp_path):
    """A process is killed while half of the third checkpoint is on the disk."""
    script = tmp_path / "killed.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, signal, sys
        sys.path[:0] = [{str(SOURCE)!r}, {str(Path(__file__).parent)!r}]
        import torch
        torch.set_num_threads(1)
        import regard.recording.io.writing as writing
        from test_trainer import FOUR, fitted
        real, seen = writing.bytes_of, []
        def slow(x):
            seen.append(1)
            if len(seen) > 2.5 * {len(setting()[1].state_dict()) * 4 + 10}:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(x)
        writing.bytes_of = slow
        fitted(FOUR, folder=sys.argv[1])
    """)
    )
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    assert list(folder.glob(".last*.part")), "it was not killed while writing"
    before = checkpoint.CheckpointFile(folder / "last.safetensors").about["about"]["found"]["history"]
    assert 1 <= len(before) < 4
    whole, at_once = fitted(FOUR)
    model, found = fitted(FOUR, folder=folder)
    assert found.losses == at_once.losses and same(model, whole)


def test_a_batch_in_parts_learns_what_the_whole_batch_learns():
    whole, one = fitted(FOUR, dropout=0.0)
    parts, three = fitted(replace(FOUR, accumulate=3), dropout=0.0)
    assert_close(torch.tensor(three.losses), torch.tensor(one.losses), rtol=1e-4, atol=1e-5)
    for a, b in zip(parts.state_dict().values(), whole.state_dict().values(), strict=True):
        assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_without_lightning_one_device_gives_the_same_bits(monkeypatch):
    pytest.importorskip("lightning")
    by_fabric, first = fitted(FOUR)

    def missing():
        raise ModuleNotFoundError("lightning", name="lightning")

    monkeypatch.setattr(devices, "_fabric", missing)
    alone, second = fitted(FOUR)
    assert first.losses == second.losses and same(by_fabric, alone)
    with pytest.raises(ModuleNotFoundError, match=r"regard\[train\]"):
        fitted(FOUR, devices=2)


def test_two_processes_have_the_loss_curve_of_one(tmp_path):
    """DDP over gloo: the same global batches, unequal shares and numbers of words, no dropout."""
    pytest.importorskip("lightning")
    script = tmp_path / "two.py"
    script.write_text(
        textwrap.dedent(f"""
        import json, sys
        sys.path[:0] = [{str(SOURCE)!r}, {str(Path(__file__).parent)!r}]
        import torch
        torch.set_num_threads(1)
        from test_trainer import FOUR, fitted
        from dataclasses import replace
        if __name__ == "__main__":
            model, found = fitted(replace(FOUR, batch=7, epochs=2), dropout=0.0, devices=2)
            weight = model.output.logits.weight.double()
            json.dump([found.losses, found.history, float(weight.sum()), float(weight.norm())], open(sys.argv[1], "w"))
    """)
    )
    out = tmp_path / "found.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(script), str(out)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses, history, total, norm = json.loads(out.read_text())
    model, one = fitted(replace(FOUR, batch=7, epochs=2), dropout=0.0)
    assert_close(torch.tensor(losses), torch.tensor(one.losses), rtol=1e-4, atol=1e-5)
    assert [row["loss"] for row in history] == pytest.approx([row["loss"] for row in one.history], rel=1e-4)
    weight = model.output.logits.weight.double()
    assert (total, norm) == pytest.approx((float(weight.detach().sum()), float(weight.detach().norm())), rel=1e-3)


def test_training_stops_when_validation_no_longer_improves_and_keeps_the_best():
    task = [Example(torch.tensor([[0.0]]), torch.tensor(1.0 if i % 2 else -1.0), id=i) for i in range(8)]

    class Drift(torch.nn.Module):
        """Its answer grows with every step, whatever is learned."""

        def __init__(self):
            super().__init__()
            self.level = torch.nn.Parameter(torch.tensor(0.0))

        def forward(self, batch):
            from regard.models import Answer

            return Answer(self.level.expand(len(batch)))

    class Upward(Regression):
        def rows(self, answer, batch):
            if self.training:
                return -answer.out[:, None], torch.ones(len(batch), 1, dtype=torch.bool)
            return (answer.out - 0.25).square()[:, None], torch.ones(len(batch), 1, dtype=torch.bool)

    model = Drift()
    found = Trainer(Training(epochs=50, batch=8, rate=0.1, patience=3)).fit(model, Upward(), task, task)
    assert found.epochs == found.kept + 3
    assert abs(float(model.level.detach()) - 0.25) < 0.06


def test_history_is_a_table_and_tensorboard_has_it_too(tmp_path):
    pytest.importorskip("tensorboard")
    _, found = fitted(replace(FOUR, epochs=2), folder=tmp_path, board=True)
    rows = list(csv.DictReader((tmp_path / "history.csv").open()))
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in found.history]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([row["loss"] for row in found.history])


def test_a_checkpoint_has_no_pickle_and_any_reader_of_safetensors_opens_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model, _ = fitted(replace(FOUR, epochs=1), folder=tmp_path)
    found = safetensors.load_file(tmp_path / "last.safetensors")
    assert_close(found["best.output.logits.weight"], model.output.logits.weight.detach())


def test_a_checkpoint_of_another_run_is_refused_with_what_to_do(tmp_path):
    fitted(FOUR, folder=tmp_path)
    with pytest.raises(ValueError, match="another folder"):
        fitted(replace(FOUR, rate=0.5), folder=tmp_path)
    with pytest.raises(ValueError, match="a different model"):
        fitted(FOUR, "dot", folder=tmp_path)
    (tmp_path / "last.safetensors").write_bytes(b"not a checkpoint at all")
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        fitted(FOUR, folder=tmp_path)


def test_a_checkpoint_with_one_changed_bit_is_refused(tmp_path):
    fitted(replace(FOUR, epochs=1), folder=tmp_path)
    file = tmp_path / "last.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match="is corrupted"):
        fitted(FOUR, folder=tmp_path)


def test_the_callers_random_numbers_are_left_alone():
    task, model = setting()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Trainer(replace(FOUR, epochs=1)).fit(model, Sequences(), task.train, task.val)
    assert torch.equal(torch.rand(3), expected)


def test_rates_warm_up_and_come_down():
    cosine = Training(rate=1.0, warmup=2, schedule="cosine")
    assert [round(cosine.rate_at(step, 10), 4) for step in (0, 1, 2, 6, 10)] == [0.5, 1.0, 1.0, 0.5, 0.0]
    root = Training(rate=1.0, warmup=4, schedule="root")
    assert root.rate_at(3, 99) == root.rate_at(3, 5) == 1.0 and root.rate_at(15, 99) == 0.5


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"accumulate": 0}, {"schedule": "odd"}])
def test_impossible_training_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Training(**wrong)


def test_a_loss_that_is_no_number_is_told_and_not_learned_from():
    task = retrieval(pairs=2, keys=3, values=2, train=8, val=4, test=2)
    model = builders.retriever(3, 2, dim=4)
    with torch.no_grad():
        model.output.layers[-1].bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="step 1"):
        Trainer(Training(epochs=1)).fit(model, Classification(), task.train, task.val)


def test_a_tiny_set_is_learned_by_heart():
    task, model = setting(dropout=0.0)
    found = Trainer(Training(epochs=120, batch=4, rate=2e-2, patience=120)).fit(
        model, Sequences(), task.train[:4], task.train[:4]
    )
    assert found.best["accuracy"] == 1.0


def test_mixed_precision_keeps_full_weights_and_a_loss_near_that_of_full_precision():
    pytest.importorskip("lightning")
    _, full = fitted(replace(FOUR, epochs=2), dropout=0.0)
    model, mixed = fitted(replace(FOUR, epochs=2), dropout=0.0, precision="bf16-mixed")
    assert all(x.dtype == torch.float32 for x in model.state_dict().values())
    assert mixed.losses != full.losses
    assert_close(torch.tensor(mixed.losses), torch.tensor(full.losses), rtol=0.05, atol=0.05)


def test_an_epoch_before_the_earliest_is_never_kept():
    rising = replace(FOUR, rate=0.0)  # nothing is learned: the first epoch is as good as any
    assert fitted(rising)[1].kept == 1
    assert fitted(rising, earliest=3)[1].kept == 3
    assert fitted(replace(rising, epochs=2), earliest=3)[1].kept == 2  # the last, where there are no more


def test_an_optimiser_of_ones_own_takes_the_steps():
    own = lambda model: torch.optim.SGD(model.parameters(), lr=1.0)  # noqa: E731
    one, two = (
        fitted(replace(FOUR, epochs=1, clip=float("inf"), warmup=0), dropout=0.0, **options)[0]
        for options in ({}, {"optimise": own})
    )
    assert not same(one, two)
    task, by_hand = setting(dropout=0.0)
    still = replace(FOUR, epochs=1, batch=40, rate=0.1, warmup=0, schedule="constant", clip=float("inf"))
    trained, _ = fitted(still, dropout=0.0, optimise=own)
    batch = collate(task.train)
    objective = Sequences()
    (objective(by_hand(batch), batch) / objective.count(batch)).backward()
    for a, b in zip(trained.parameters(), by_hand.parameters(), strict=True):
        assert_close(a, b if b.grad is None else b - 0.1 * b.grad, atol=1e-6, rtol=1e-4)


def test_a_monitored_run_is_bitwise_the_same_and_every_second_step_is_seen():
    plain, at_once = fitted(replace(FOUR, epochs=2))
    monitor = regard.Monitor(every=2, rows=4, table=False)
    model, watched = fitted(replace(FOUR, epochs=2), monitor=monitor)
    assert watched.losses == at_once.losses and same(model, plain)
    assert [x.step for x in monitor.history] == list(range(0, 10, 2))
    assert all(x.sites for x in monitor.history)


def test_a_monitor_on_several_devices_is_refused():
    with pytest.raises(ValueError, match="a monitor works in one process only"):
        fitted(FOUR, monitor=regard.Monitor(), devices=2)
