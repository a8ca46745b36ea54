"""A monitor looks, and changes nothing; steps, alarms and logs."""

import csv
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import regard
from regard.recording import AttentionAlarm, Logger, Watch

LOUD = Watch(logit=1e30)
ATTEND = nn.functional.scaled_dot_product_attention


class Block(nn.Module):
    def __init__(self, written=False):
        super().__init__()
        self.qkv, self.out, self.written = nn.Linear(8, 24), nn.Linear(8, 8), written

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = torch.softmax(q @ k.mT / 2, -1) @ v if self.written else ATTEND(q, k, v)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, written=False, again=False):
        super().__init__()
        torch.manual_seed(0)
        self.blocks, self.again = nn.ModuleList(Block(written) for _ in range(2)), again

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return x


def train(model, steps, parts=1, look=lambda model: None):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        for _ in range(parts):
            loss = model(torch.randn(2, 5, 8)).square().mean()
            loss.backward()
            losses.append(loss.detach())
        optimiser.step()
        optimiser.zero_grad()
        look(model)
    return torch.stack(losses)


def quiet(model=None, **options):
    return regard.Monitor(model, table=False, **({"every": 2, "rows": 4} | options))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_a_run_that_is_watched_has_the_same_bits(written, again):
    plain, watched = Model(written, again), Model(written, again)
    expected = train(plain, 5)
    with quiet(watched, every=1) as monitor:
        found = train(watched, 5)
    assert torch.equal(found, expected)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert [x.step for x in monitor.history] == [0, 1, 2, 3, 4]


def test_random_numbers_of_the_run_are_untouched():
    model = Model()
    with quiet(model, every=1):
        train(model, 2)
        state = torch.get_rng_state()
    other = Model()
    train(other, 2)
    assert torch.equal(state, torch.get_rng_state())


def test_steps_of_the_models_optimiser_are_counted_and_no_others():
    model, other = Model(), nn.Linear(2, 2)
    beside = torch.optim.SGD(other.parameters(), lr=0.1)
    with quiet(model, every=3) as monitor:
        train(model, 7, look=lambda _: beside.step())
    assert [x.step for x in monitor.history] == [0, 3, 6]


def test_a_loop_without_an_optimiser_says_when_a_step_is_over():
    model = Model()
    with quiet(model) as monitor:
        for _ in range(3):
            model(torch.randn(1, 4, 8)).sum().backward()
            monitor.step()
    assert [x.step for x in monitor.history] == [0, 2]


@pytest.mark.parametrize("again, parts", [(True, 1), (False, 3), (True, 3)])
def test_what_runs_again_in_a_step_is_seen_once(again, parts):
    model = Model(again=again)
    with quiet(model) as monitor:
        train(model, 3, parts)
    assert [list(x.sites) for x in monitor.history] == [["blocks.0", "blocks.1"]] * 2
    assert monitor.latest.sites["blocks.0"].gradient.isfinite().all()


def test_evaluation_is_not_looked_at_unless_asked():
    for asked in (False, True):
        model = Model().eval()
        with warnings.catch_warnings(), quiet(model, evaluation=asked) as monitor:
            warnings.simplefilter("ignore")
            train(model, 1)
        assert bool(monitor.history) == asked


def test_compiled_models_are_seen_and_their_eager_code_runs_at_these_steps():
    model = Model()
    compiled = torch.compile(model, backend="eager")
    with quiet(model) as monitor:
        train(compiled, 3)
    assert [list(x.sites) for x in monitor.history] == [["blocks.0", "blocks.1"]] * 2


def test_nothing_is_listened_to_after_the_block_nor_after_an_error():
    from regard.recording.capture.function_mode import active_mode

    with pytest.raises(ZeroDivisionError), quiet(Model()):
        raise ZeroDivisionError
    assert active_mode() is None


def test_a_monitor_that_saw_nothing_says_why():
    with pytest.warns(UserWarning, match="saw no step: no optimiser"), quiet(Model()):
        pass
    model = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="no attention in 2 steps"), quiet(model):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(1, 2)).sum().backward()
            optimiser.step()


def test_exploding_logits_are_told_once_with_the_layers_name():
    model = Model()

    def louder(model):
        with torch.no_grad():
            model.blocks[1].qkv.weight.mul_(4)

    with pytest.warns(AttentionAlarm) as told, quiet(model, every=1, watch=Watch(logit=50.0)) as monitor:
        train(model, 4, look=louder)
    (alarm,) = [x for x in monitor.alarms if (x.kind, x.site) == ("exploding logits", "blocks.1")]
    assert monitor.latest.sites["blocks.1"].max_logit.max() > 50  # it lasts
    assert [str(x.message) for x in told].count(alarm.says) == 1 and alarm.says.startswith("blocks.1, step ")


def test_entropy_collapse_is_told_where_it_was_higher_before():
    model = Model()

    def sharper(model):
        with torch.no_grad():
            model.blocks[0].qkv.weight.mul_(3)

    with pytest.warns(AttentionAlarm, match="blocks.0, step .*entropy collapse"), quiet(model, every=1, watch=LOUD):
        train(model, 5, look=sharper)


def test_weights_that_are_no_numbers_are_told():
    model = Model()
    with torch.no_grad():
        model.blocks[1].qkv.bias[0] = torch.nan
    with pytest.warns(AttentionAlarm, match=r"blocks.1, step 0: head 0 has weights that are not numbers"), quiet(model):
        train(model, 1)


def test_an_alarm_may_end_the_run():
    model = Model()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AttentionAlarm)
        with pytest.raises(AttentionAlarm), quiet(model, watch=Watch(logit=-1e9)):
            train(model, 1)


def test_the_table_has_a_line_for_each_site(capsys):
    model = Model()
    with regard.Monitor(model, every=2, rows=4):
        train(model, 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Attention, blocks.*: steps 0 -> 2, 2 looked at"
    assert [line.split()[0] for line in lines[1:]] == ["site", "0", "1"]


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_has_a_line_for_each_step_site_and_head(tmp_path):
    model, path = Model(), tmp_path / "new" / "attention.csv"
    with quiet(model, log=path) as monitor:
        train(model, 3)
    rows = read(path)
    assert [(r["step"], r["site"], r["head"]) for r in rows] == [
        (str(step), f"blocks.{block}", str(head)) for step in (0, 2) for block in (0, 1) for head in (0, 1)
    ]
    last = monitor.latest.sites["blocks.1"]
    assert float(rows[-1]["entropy"]) == pytest.approx(float(last.entropy[1]), rel=1e-5)


LOOP = """
import sys, torch, regard
sys.path.insert(0, {here!r})
from test_monitor import Model, train
model = Model()
with regard.Monitor(model, every=1, rows=4, log={path!r}, table=False):
    print("begun", flush=True)
    train(model, 10**9)
"""


def test_lines_survive_a_kill_and_a_torn_one_is_cut_off(tmp_path):
    path = tmp_path / "a.csv"
    code = LOOP.format(here=str(Path(__file__).parent), path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as run:
        run.stdout.readline()
        while not path.exists() or path.read_text().count("\n") < 9:
            assert run.poll() is None
        os.kill(run.pid, signal.SIGKILL)
    whole = read(path)
    assert len(whole) >= 8 and all(None not in row.values() for row in whole)
    with path.open("a") as file:
        file.write("7,blocks.0,0,0.1")  # as a machine that loses power may leave it
    with quiet(Model(), log=path) as monitor:
        train(monitor.model, 1)
    assert len(read(path)) == len(whole) + 4


def test_a_file_of_somebody_elses_is_not_continued(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("epoch,loss\n1,2\n")
    with pytest.raises(ValueError, match="has the columns epoch, loss"):
        regard.Monitor(Model(), log=path)
    assert path.read_text() == "epoch,loss\n1,2\n"


def scalars(folder):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    made = EventAccumulator(str(folder))
    made.Reload()
    return {tag: [(x.step, x.value) for x in made.Scalars(tag)] for tag in made.Tags()["scalars"]}


def test_tensorboard_has_curves_for_each_site(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    model = Model()
    with quiet(model, log=f"tensorboard:{tmp_path}") as monitor:
        train(model, 3)
    curves = scalars(tmp_path)
    assert [step for step, _ in curves["attention/blocks.1/entropy"]] == [0, 2]
    expected = float(monitor.latest.sites["blocks.1"].max_logit.max())
    assert curves["attention/blocks.1/max_logit"][-1][1] == pytest.approx(expected, rel=1e-6)


def test_weights_and_biases_has_the_curves(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    model = Model()
    with wandb.init(project="p", dir=str(tmp_path)) as run:
        with quiet(model, log=run):
            train(model, 3)
        assert run.summary["attention/blocks.1/entropy"] > 0 and run.summary["attention/step"] == 2


def test_mlflow_has_the_curves(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment("attention")
    model = Model()
    with mlflow.start_run() as run, quiet(model, log=mlflow):
        train(model, 3)
    history = mlflow.tracking.MlflowClient().get_metric_history(run.info.run_id, "attention/blocks.1/entropy")
    assert [x.step for x in history] == [0, 2]


def test_several_targets_and_a_curve_for_each_head(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    model = Model()
    logger = Logger(tmp_path / "a.csv", f"tensorboard:{tmp_path}", heads=True)
    with quiet(model, log=logger):
        train(model, 1)
    logger.close()
    assert len(read(tmp_path / "a.csv")) == 4
    assert "attention/blocks.0/entropy/head_1" in scalars(tmp_path)


@pytest.mark.parametrize("log, says", [("a.txt", 'expected a file "name.csv"'), (3, "log= got int")])
def test_a_target_that_is_none_is_refused(log, says):
    with pytest.raises((TypeError, ValueError), match=says):
        regard.Monitor(Model(), log=log)


def test_intervention_is_what_is_seen():
    model = Model()
    with regard.intervene(model, {"blocks.0": regard.interventions.Uniform()}), quiet(model) as monitor:
        train(model, 1)
    assert monitor.latest.sites["blocks.0"].relative.tolist() == pytest.approx([1, 1])
    assert max(monitor.latest.sites["blocks.1"].relative.tolist()) < 1
