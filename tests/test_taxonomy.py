"""The list of mechanisms: nothing public is missing, and every entry imports and is complete."""

import inspect
import json

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import nn
from regard.cli.app import app
from regard.cli.taxonomy import _names
from regard.core.compositions import COMPOSITIONS
from regard.core.modifiers import Modifier
from regard.nn import graph
from regard.taxonomy import ALIASES, OPTIONS, find, mechanisms

LISTED = {one.where for one in mechanisms()}
BASES = {"Score", "Alignment", "Structure", "Modifier"}
PARTS = {
    "Cache",
    "Composed",
    "WalkEncoding",
    "DegreeEncoding",
    "PathEncoding",
    "GraphConv",
    "TypedMap",
    "PagedCache",
    "Replacement",
    "MultiheadAttention",
}  # of others, no mechanisms
NO_PAPER = {"laplace", "edge_bias", "uniform", "full", "padding", "mask", "segments", "edges"}
every = pytest.mark.parametrize("one", mechanisms(), ids=lambda one: one.name)


def run(*arguments):
    return CliRunner().invoke(app, ["taxonomy", *arguments])


def test_every_public_score_alignment_structure_and_modifier_is_listed():
    kinds = (regard.Score, regard.Alignment, regard.Structure, Modifier, regard.Rotary)
    public = [name for name in regard.__all__ if name not in BASES]
    missing = [
        name
        for name in public
        if isinstance(getattr(regard, name), type)
        and issubclass(getattr(regard, name), kinds)
        and f"regard.{name}" not in LISTED
    ]
    assert missing == []


def test_every_public_module_is_listed():
    modules = [name for name in nn.__all__ if isinstance(getattr(nn, name), type) and name not in PARTS]
    assert [name for name in modules if f"regard.nn.{name}" not in LISTED] == []
    assert {name for name in graph.__all__ if f"regard.nn.{name}" in LISTED} >= {"GATConv", "HGTConv", "SAGPooling"}


def test_every_name_that_a_call_understands_is_listed():
    names = {one.name for one in mechanisms()}
    assert set(regard.scores.SCORES.built) | set(regard.alignments.ALIGNMENTS.built) <= names


def test_names_are_unique():
    names = [one.name for one in mechanisms()]
    assert len(names) == len(set(names))


@every
def test_an_entry_imports_and_is_complete(one):
    assert isinstance(one.kind, type)
    assert one.says.endswith(".") or ":" in one.says
    assert one.formula
    assert one.short
    assert bool(one.papers) is (one.name not in NO_PAPER)


def test_a_pipe_gets_whole_lines_however_narrow_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    said = run().stdout
    assert "…" not in said and all(one.short in said for one in mechanisms() if len(one.short) < 250)


@pytest.mark.parametrize("asked", ["additive", "Additive", "ADDITIVE"])
def test_a_mechanism_is_found_by_name_and_class_whatever_the_case(asked):
    assert find(asked).name == "additive"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("bahdanau", "additive"),
        ("Bahdanau attention", "additive"),
        ("luong", "general"),
        ("bilinear", "general"),
        ("multiplicative", "general"),
        ("concat", "concat"),
        ("rope", "rotary"),
        ("gqa", "multi_head"),
        ("MQA", "multi_head"),
        ("sliding-window", "window"),
        ("t5_bias", "t5_bias"),
        ("relative position bias", "relative_bias"),
        ("attention sink", "sink"),
        ("soft capping", "soft_cap"),
        ("qk_norm", "cosine"),
        ("alpha-entmax", "entmax15"),
        ("set transformer pooling", "attention_pooling"),
        ("causal mask", "causal"),
        ("varlen", "segments"),
        ("cross-attention", "basic"),
        ("virtual node", "global_node"),
    ],
)
def test_a_mechanism_answers_to_the_names_of_the_field(asked, name):
    assert find(asked).name == name


def test_the_shell_completes_other_names_where_no_mechanism_begins_so():
    assert _names("addi") == ["additive"]
    assert _names("bahd") == ["bahdanau_attention"]


def test_an_alias_means_one_mechanism():
    named = [(alias, one.name) for one in mechanisms() for alias in one.aliases]
    assert set(ALIASES) <= {one.name for one in mechanisms()}
    assert [(alias, name, find(alias).name) for alias, name in named if find(alias).name != name] == []


def test_a_docstring_repeats_the_aliases_of_its_class():
    wanted: dict[type, list[str]] = {}
    for one in mechanisms():
        if one.name not in OPTIONS:
            wanted.setdefault(one.kind, []).extend(one.aliases)
    for kind, aliases in wanted.items():
        lines = inspect.cleandoc(kind.__doc__).splitlines()
        found = [line for line in lines if line.startswith("Also known as")]
        assert found == ([f"Also known as: {', '.join(aliases)}."] if aliases else []), kind.__name__


@pytest.mark.parametrize(
    ("asked", "meant"), [("addtive", "additive"), ("softmx", "softmax"), ("multihead", "multi_head")]
)
def test_a_typo_is_answered_with_a_suggestion(asked, meant):
    try:
        found = find(asked).name
    except ValueError as problem:
        found = str(problem)
    assert meant in found


def test_an_unknown_name_points_to_the_list():
    with pytest.raises(ValueError, match="lists them all"):
        find("qqqqqqqq")


def test_the_command_prints_every_mechanism_with_its_class():
    shown = run()
    assert shown.exit_code == 0
    for one in mechanisms():
        assert one.where in shown.stdout
    assert "Feature-related" in shown.stdout


def test_the_command_shows_one():
    shown = run("additive")
    assert shown.exit_code == 0
    for part in (
        "General > Scoring",
        "aliases Bahdanau attention, Luong's concat",
        "v . act(W_q q_i + W_k k_j + b)",
        "Bahdanau et al. 2015",
        "regard.Additive",
    ):
        assert part in shown.stdout


def test_the_command_speaks_json():
    rows = json.loads(run("--json").stdout)
    assert [row["name"] for row in rows] == [one.name for one in mechanisms()]
    assert json.loads(run("softmax", "--json").stdout)[0]["papers"] == ["Bahdanau et al. 2015", "Xu et al. 2015"]
    assert json.loads(run("rope", "--json").stdout)[0]["aliases"] == ["RoPE", "rotary position embedding"]


def test_the_command_refuses_an_unknown_name_in_a_sentence():
    shown = run("addtive")
    assert shown.exit_code == 1
    assert "did you mean additive" in shown.stderr


def test_the_formula_of_an_entry_is_the_one_of_its_class():
    """A formula is read, not copied: what the docstring says is what is shown, and what the class computes."""
    entry = find("dot")
    assert entry.formula.startswith("s_ij = q_i . k_j")
    q, k = torch.randn(2, 3, 4)
    assert torch.allclose(entry.kind()(q, k), q @ k.T)


SINCE = [one for one in mechanisms() if one.parts]


def test_what_came_since_2017_has_parts_and_backends():
    assert len(SINCE) >= 35
    assert set(COMPOSITIONS) == {one.name for one in SINCE}
    assert all(one.year >= 2017 for one in SINCE)
    shown = run("--since", "2017").stdout
    for one in SINCE:
        assert one.backends and one.parts in shown


def test_the_backends_of_a_composition_are_those_that_take_its_call():
    """A backend that is not listed refuses the call here, too; chunked and the reference run all calls of attend."""
    for one in SINCE:
        calls = COMPOSITIONS[one.name].calls
        for made in (call() for call in calls):
            runs = [name for name, why in made.refusals.items() if not why]
            assert set(runs) <= set(one.backends) or len(calls) > 1
        assert not calls or {"chunked", "reference"} - {"linear"} <= set(one.backends)
