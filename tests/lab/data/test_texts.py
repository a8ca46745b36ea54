"""Labelled texts by name and from files."""

import json

import pytest

from regard.data.readers.labelled_text import spread
from regard.lab.data.texts import texts


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_csv_and_jsonl_with_the_same_rows_are_the_same_texts(tmp_path):
    rows = [{"text": "a good film", "label": "pos", "rationale": [[1, 2]]}, {"text": 'bad, "very" bad', "label": "neg"}]
    lines = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    table = 'text,label,rationale\na good film,pos,"[[1, 2]]"\n"bad, ""very"" bad",neg,\n'
    table = written(tmp_path, "a.csv", "\ufeff" + table)
    one, two = texts(lines), texts(table)
    assert one == two
    assert one.names == ("neg", "pos")
    assert [x.label for x in one.texts] == [1, 0]
    assert one.texts[0].marks == (False, True, False) and one.texts[1].marks is None
    assert one.texts[1].words == ("bad,", '"very"', "bad")


def test_labels_that_are_numbers_are_those_numbers_and_a_missing_one_is_missing(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": "1"}\n{"text": "c"}')
    found = texts(path)
    assert [x.label for x in found.texts] == [3, 1, None] and found.names == ()


def test_a_rationale_may_be_a_number_for_each_word(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"text": "a b c", "rationale": [0, 1, 1]}')
    assert texts(path).texts[0].marks == (False, True, True)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.jsonl", "", "this file is empty"),
        ("a.jsonl", "{", "line 1: invalid JSON"),
        ("a.jsonl", '["text"]', "line 1: expected one object a line"),
        ("a.jsonl", '{"text": " "}', "at least one word"),
        ("a.jsonl", '{"text": "a b", "rationale": [[1, 3]]}', "is outside of the text of 2 words"),
        ("a.jsonl", '{"text": "a b", "rationale": "all"}', "a rationale is"),
        ("a.csv", "text,label,rationale\na,1,all\n", "line 2: a rationale is written as"),
        ("a.csv", 'text,label\n"a,1\n', "line 2: invalid CSV"),
        ("a.csv", "words,label\na,1\n", "line 1: there is no column 'text'"),
        ("a.txt", "a", "ends in .csv, .tsv, .jsonl"),
    ],
    ids=range(10),
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path, name, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        texts(written(tmp_path, name, text))


def test_a_name_that_is_no_set_and_no_file_says_what_there_is(tmp_path):
    with pytest.raises(ValueError, match="sst, movies, agnews"):
        texts("imdb")
    with pytest.raises(FileNotFoundError, match="no such file"):
        texts(str(tmp_path / "none.csv"))


def test_a_limit_takes_texts_from_everywhere():
    assert spread(10, 4) == [0, 2, 5, 7] and spread(3, 9) == [0, 1, 2] and spread(3) == [0, 1, 2]
