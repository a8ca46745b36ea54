"""Heads are told by what they do: on compiled programs, whose heads are known, and through the command."""

import io
import json

import pytest
import torch
from rich.console import Console

import regard
from regard.lab.validation.circuits.compiler import Compiled
from regard.lab.validation.circuits.programs import induction
from regard.recording.decomposition.roles import head_roles
from regard.views import why_figure, why_html, why_table


class Reads(torch.nn.Module):
    """input_ids=, as models of transformers are called."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids):
        out = self.inner(input_ids)
        return type("Out", (), {"logits": out})()


def texts(program, count=3):
    random = torch.Generator().manual_seed(0)
    return [program.sample(random)[None] for _ in range(count)]


def test_the_heads_of_an_induction_circuit_are_named_with_their_cause():
    program = induction()
    told = head_roles(Reads(Compiled(program)).eval(), texts(program), best=1)
    by_role = {one.role: one for one in told}
    assert (by_role["previous token"].layer, by_role["previous token"].head) == (0, 0)
    assert by_role["previous token"].score > 0.9
    found = {(one.layer, one.head): one for one in told if one.role == "induction"}
    assert found[1, 0].score > 2 * found[1, 0].chance
    assert found[1, 0].because[1][0].name == "head 0.0"  # the previous token, written by the head below
    assert found[1, 0].because[0][0].name == "embedding"
    assert abs(found[1, 0].silenced) > 0.1


def test_why_is_drawn_as_a_figure_a_table_and_in_a_notebook(tmp_path):
    program = induction()
    model, ids = Compiled(program).eval(), texts(program)[0]
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    rec.label(tokens=[f"<{i}>" for i in range(9)])
    found = regard.why(rec, 1, 0, 6, 3, against="row")
    figure = found.plot(save=tmp_path / "why.svg")
    assert figure.axes[0].get_title() == "written into the query" and (tmp_path / "why.svg").exists()
    assert why_figure(found, 3) is not None
    page = found._repr_html_()
    assert page == why_html(found) and "&lt;6&gt;" in page and "<6>" not in page and "head 0.0" in page
    assert "head 0.0" in str(found)
    for markup in (True, False):
        console = Console(width=80, markup=markup, record=True, file=io.StringIO())
        console.print(why_table(found, 3))
        lines = console.export_text().splitlines()
        assert any(line.rstrip().endswith("█") for line in lines) and max(map(len, lines)) <= 80
        assert not any(mark in line for line in lines for mark in ("…", "[/", "[blue]"))
    assert found.as_dict(2)["key"][0]["name"] == "head 0.0"
    json.dumps(found.as_dict())


@pytest.mark.parametrize("head", ["x", "0"])
def test_the_command_says_how_a_head_is_written(head):
    from typer.testing import CliRunner

    from regard.cli.app import app

    done = CliRunner().invoke(app, ["why", "minilm", "Some text.", "--head", head])
    assert done.exit_code and "expected layer and head" in done.output + (done.stderr or "")


@pytest.mark.parametrize("option", ["--head 0.50", "--head 99.0", "--row 77", "--key 77"])
def test_the_command_says_which_heads_and_tokens_there_are(option, monkeypatch):
    from typer.testing import CliRunner

    from regard.cli.app import app
    from regard.recording import pretrained

    program = induction()
    model, ids = Compiled(program).eval(), texts(program)[0]
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    monkeypatch.setattr(pretrained, "load_model", lambda name: (model, None))
    monkeypatch.setattr(pretrained, "record_run", lambda *given: (rec, None))
    done = CliRunner().invoke(app, ["why", "model", "Some text.", *option.split()])
    assert done.exit_code and "here are" in done.output + (done.stderr or "")
    assert done.exception is None or isinstance(done.exception, SystemExit)
