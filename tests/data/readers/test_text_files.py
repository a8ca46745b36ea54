"""Texts of one's own: what is read, and what is said about a file that is wrong."""

import gzip
import json

import pytest

from regard.data import read_reading_times, read_texts
from regard.data.readers import rows, user_file
from regard.data.readers.pharaoh import aligned_as
from regard.data.text_task import text_task


def written(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_tsv_jsonl_and_packed_files_with_the_same_rows_are_the_same_texts(tmp_path):
    line = {"text": "so, so fine", "label": "pos", "split": "train", "rationale": [[2, 3]], "id": 7}
    table = 'Text,label,split,rationale,id\n"so, so fine",pos,train,"[[2, 3]]",7\n'
    tabs = "text\tlabel\tsplit\trationale\tid\nso, so fine\tpos\ttrain\t[0, 0, 1]\t7\n"
    files = [
        written(tmp_path, "a.jsonl", json.dumps(line)),
        written(tmp_path, "a.csv", "\ufeff" + table.replace("\n", "\r\n")),
        written(tmp_path, "a.tsv", tabs),
        written(tmp_path, "a.csv.gz", gzip.compress(table.encode())),
        written(
            tmp_path,
            "b/a.jsonl",
            json.dumps({**line, "text": None} | {"tokens": line["text"].split()}).replace('"text": null, ', ""),
        ),
    ]
    found = [read_texts(path) for path in files]
    assert all(one == found[0] for one in found)
    assert found[0].texts[0].marks == (False, False, True) and found[0].texts[0].part == "train"


def test_a_text_may_go_over_several_lines_and_errors_name_the_line_on_which_a_row_begins(tmp_path):
    good = 'text,label\n"two\nlines",a\n"one ""word""",b\n'
    assert read_texts(written(tmp_path, "a.csv", good)).texts[0].words == ("two", "lines")
    with pytest.raises(ValueError, match=r"a\.csv, line 5: 3 fields, but the header has 2"):
        read_texts(written(tmp_path, "a.csv", good + "a, b,c\n"))


WRONG_TEXTS = {
    "empty file": ("a.csv", "", "this file is empty"),
    "blank lines": ("a.csv", "\n \n", "this file is empty"),
    "header alone": ("a.csv", "text,label\n", "a header, but no row"),
    "missing column": ("a.csv", "review,label\nfine,1\n", "line 1: there is no column 'text'"),
    "no header": ("a.csv", "fine film,1\n", "the first line names the columns, such as text"),
    "semicolons": (
        "a.csv",
        "text;label\nfine;1\n",
        "line 1: columns of a .csv are separated by commas, not ';'",
    ),
    "column twice": ("a.csv", "text,label,label\nfine,1,1\n", "line 1: the column 'label' occurs twice"),
    "comma without quotes": (
        "a.csv",
        "text,label\nfine, film,1\n",
        "quote a text with a comma in double quotes",
    ),
    "quote not closed": ("a.csv", 'text,label\nok,1\n"fine,1\n', "line 3: invalid CSV"),
    "empty text": ("a.csv", "text,label\nfine,1\n ,0\n", "line 3: the text is empty"),
    "not UTF-8": (
        "a.csv",
        "text,label\nfine,1\ncafé,0\n".encode("latin-1"),
        "line 3: this is not UTF-8; convert it: iconv",
    ),
    "UTF-16": ("a.csv", "text,label\nfine,1\n".encode("utf-16"), "iconv -f UTF-16"),
    "zero byte": ("a.csv", "text,label\nfi\0ne,1\n", "line 2: there is a zero byte"),
    "unknown split": ("a.csv", "text,label,split\nfine,1,trainn\n", "line 2: split is 'trainn', expected one of train"),
    "split missing": ("a.csv", "text,label,split\nfine,1,train\nbad,0,\n", "line 3: split is missing"),
    "damaged gzip": ("a.csv.gz", b"\x1f\x8bnot", "cannot be unpacked"),
    "other ending": ("a.xlsx", "PK", r"ends in \.csv, \.tsv, \.jsonl"),
    "bad JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a" "label": 1}', "line 2: invalid JSON"),
    "deep JSON": ("a.jsonl", "[" * 100_000, "line 1: invalid JSON"),
    "JSON list": ("a.jsonl", '["fine", 1]', "line 1: expected one object a line"),
    "no text": ("a.jsonl", '{"review": "fine"}', "line 1: there is no text: .* it has review"),
    "text no string": ("a.jsonl", '{"text": 3}', "line 1: there is no text"),
    "label a list": ("a.jsonl", '{"text": "a", "label": ["x"]}', r"line 1: label is \['x'\], expected a name"),
    "label below 0": ("a.jsonl", '{"text": "a", "label": -1}', "line 1: label is -1"),
    "tokens no list": ("a.jsonl", '{"tokens": "fine film"}', "line 1: tokens is a list of words"),
    "span too long": (
        "a.jsonl",
        '{"text": "a b", "rationale": [[1, 3]]}',
        r"line 1: the span \[1, 3\) is outside of the text of 2",
    ),
    "span turned": ("a.jsonl", '{"text": "a b", "rationale": [[1, 1]]}', r"the span \[1, 1\)"),
    "span of text": ("a.jsonl", '{"text": "a b", "rationale": [["a", 1]]}', "a rationale is"),
    "marks too few": ("a.jsonl", '{"text": "a b c", "rationale": [0, 1]}', "line 1: 2 marks for 3 words"),
    "rationale no JSON": ("a.csv", "text,rationale\nfine,all\n", "line 2: a rationale is written as"),
    "pickle": ("a.pt", b"\x80\x04", "pickles are refused, since they can run code.*save_graph"),
}


@pytest.mark.parametrize("wrong", WRONG_TEXTS)
def test_a_wrong_file_of_texts_is_refused_with_its_place_and_what_to_type(tmp_path, wrong):
    name, text, sentence = WRONG_TEXTS[wrong]
    path = written(tmp_path, name, text)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_texts(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_says_where_one_stands(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file; you are in"):
        read_texts(tmp_path / "none.csv")


def test_a_huge_file_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MOST", 3)
    with pytest.raises(ValueError, match="more than 3 lines"):
        read_texts(written(tmp_path, "a.csv", "text\n" + "a\n" * 5))
    with pytest.raises(ValueError, match="larger than the limit of 100 bytes"):
        user_file.text_lines(written(tmp_path, "bomb.csv.gz", gzip.compress(b"a" * 10_000)), limit=100)


def table(tmp_path, rows):
    return written(tmp_path, "a.csv", "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))


def test_parts_are_drawn_by_the_seed_each_class_alike_and_the_same_text_stays_in_one_part(tmp_path):
    rows = [(f"word{i // 2} Word", "ab"[i % 4 > 1]) for i in range(80)]
    path = table(tmp_path, rows)
    one, again, other = (text_task(path, read_texts(path), split) for split in (0, 0, 1))
    ids = [[[x.id for x in part] for part in (t.train, t.val, t.test)] for t in (one, again, other)]
    assert ids[0] == ids[1] != ids[2]
    assert [len(part) for part in ids[0]] == [56, 12, 12]
    for part in (one.train, one.val, one.test):
        assert sum(int(x.target) for x in part) == len(part) / 2
    words = [{" ".join(one.texts[i].words) for i in part} for part in ids[0]]
    assert not words[0] & words[2] and not words[0] & words[1] and not words[1] & words[2]


def test_the_vocabulary_is_that_of_the_training_part_alone(tmp_path):
    rows = "text,label,split\nsome words,a,train\nother words,b,train\nunseen,a,dev\nunheard,b,test\n"
    path = written(tmp_path, "a.csv", rows)
    task = text_task(path, read_texts(path))
    assert set(task.words.words[4:]) == {"some", "other", "words"}
    assert task.test[0].inputs.tolist() == [1] and task.texts[task.test[0].id].words == ("unheard",)


def test_without_a_part_to_choose_by_one_is_drawn_from_training(tmp_path):
    lines = [f"text {i},{'ab'[i % 2]},{'train' if i < 20 else 'test'}\n" for i in range(26)]
    path = written(tmp_path, "a.csv", "text,label,split\n" + "".join(lines))
    task = text_task(path, read_texts(path))
    assert (len(task.train), len(task.val), len(task.test)) == (17, 3, 6)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a", "x"), ("b", "x"), ("c", "x")], r"3 texts of 1 class"),
        ([("a", "x"), ("b", "y")], "two classes and three texts"),
        ([("a", ""), ("b", ""), ("c", "")], "no text has a label: name the column of the classes 'label'"),
        ([(f"t{i}", f"c{i}") for i in range(30)], "30 classes for 30 texts"),
        ([("a", "x"), ("b", ""), ("c", "y")], "line 3: there is no label, and 2 of 3 texts have one"),
    ],
)
def test_what_cannot_be_learned_from_is_said(tmp_path, rows, sentence):
    path = table(tmp_path, rows)
    with pytest.raises(ValueError, match=sentence):
        text_task(path, read_texts(path))


def eraser(tmp_path, **row):
    one = {
        "annotation_id": "d1",
        "classification": "POS",
        "evidences": [[{"docid": "d1", "start_token": 1, "end_token": 3, "text": "fine film"}]],
        "query": "",
    }
    written(tmp_path, "e/docs/d1", "a fine film\n. the end")
    written(tmp_path, "e/docs/d2.txt", "dull")
    rows = [one | row, {"annotation_id": "d2", "classification": "NEG", "evidences": []}]
    written(tmp_path, "e/train.jsonl", "\n".join(map(json.dumps, rows)))
    return tmp_path / "e"


def test_a_folder_in_erasers_form_has_documents_classes_and_rationales(tmp_path):
    found = read_texts(eraser(tmp_path))
    assert found.names == ("NEG", "POS") and [one.part for one in found.texts] == ["train", "train"]
    assert found.texts[0].marks == (False, True, True, False, False, False)
    assert found.texts[1].words == ("dull",) and found.texts[1].marks == (False,)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"evidences": [[{"docid": "d1", "start_token": 5, "end_token": 9}]]},
            "line 1: tokens 5 to 9 are outside of the document",
        ),
        ({"evidences": [[{"docid": "../d1", "start_token": 0, "end_token": 1}]]}, "is outside of docs/"),
        ({"evidences": [[{"docid": "d9", "start_token": 0, "end_token": 1}]]}, "there is no document docs/d9"),
        ({"evidences": [{"docid": "d1"}]}, r"evidences is \[\{"),
        ({"evidences": [[{"docid": d, "start_token": 0, "end_token": 1} for d in ("d1", "d2.txt")]]}, "2 documents"),
        ({"classification": None}, "classification is None"),
    ],
)
def test_a_wrong_row_of_eraser_is_refused_with_its_line(tmp_path, row, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_texts(eraser(tmp_path, **row))


def test_a_folder_without_erasers_files_says_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"expected train\.jsonl, val\.jsonl or test\.jsonl and a folder docs/"):
        read_texts(tmp_path)


def aligned(tmp_path, gold, mine, text=None, **options):
    files = [written(tmp_path, name, some) for name, some in (("gold", gold), ("mine", mine))]
    return aligned_as(*files, None if text is None else written(tmp_path, "text", text), **options)


def test_links_are_sure_or_possible_and_files_may_count_from_one(tmp_path):
    links, pairs = aligned(tmp_path, "1-1 2p2\n\n", "0-0\n1-0\n", "a b ||| c d\ne f ||| g\n", first=1)
    assert links == [frozenset({(0, 0)}), frozenset({(1, 0)})]
    assert pairs[0].sure == {(0, 0)} and pairs[0].possible == {(0, 0), (1, 1)} and not pairs[1].possible


def test_without_the_text_a_sentence_ends_with_its_last_link(tmp_path):
    _, pairs = aligned(tmp_path, "0-0 2-1\n", "0-4\n")
    assert (len(pairs[0].source), len(pairs[0].target)) == (3, 5)


@pytest.mark.parametrize(
    ("gold", "mine", "text", "sentence"),
    [
        ("0-0\n0-0 1:1\n", "0-0\n0-0\n", None, "gold, line 2: '1:1' is no link"),
        ("0-0\n", "0-x\n", None, "mine, line 1: '0-x' is no link"),
        ("0s0\n", "0-0\n", None, "'0s0' is no link: expected source-target, as 0-0 or 0p0"),
        ("0-0\n0-0\n", "0-0\n", None, "mine has 1 lines and .*gold has 2"),
        ("2-0\n", "0-0\n", "a b ||| c\n", "gold, line 1: the link 2-0 points past the end: .*--gold-first 1"),
        ("0-0\n", "0-1\n", "a b ||| c\n", "mine, line 1: the link 0-1 points past the end"),
        ("0-0\n", "0-0\n", "a b\n", "text, line 1: expected a source"),
        ("0-0\n", "0-0\n", "a ||| b\nc ||| d\n", "has 1 lines and .* has 2"),
        ("0-99999999\n", "0-0\n", None, "is no link"),
        ("", "0-0\n", None, "gold: this file is empty"),
    ],
)
def test_wrong_alignments_are_refused_with_their_line(tmp_path, gold, mine, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        aligned(tmp_path, gold, mine, text)


TIMES = "sentence,word,time,reader\n1,A,100,x\n1,cat,300,x\n1,A,50,y\n1,cat,50,y\n2,Dogs,10,x\n"


def test_times_are_shares_of_a_sentence_averaged_over_readers(tmp_path):
    one, two = read_reading_times(written(tmp_path, "t.csv", TIMES))
    assert one.words == ("A", "cat") and one.share.tolist() == [0.375, 0.625] and two.share.tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sentence,word\n1,A\n", "line 1: there is no column 'time'"),
        ("sentence,word,time\n1,A,fast\n", "line 2: time is 'fast', expected a finite number"),
        ("sentence,word,time\n1,A,nan\n", "line 2: time is 'nan'"),
        ("sentence,word,time\n1,A,-3\n", "line 2: time is '-3', expected a finite number, 0 or more"),
        ("sentence,word,time\n1,A cat,3\n", "line 2: word is 'A cat', expected one word"),
        ("sentence,word,time\n,A,3\n", "line 2: sentence is empty"),
        ("sentence,word,time\n1,A,3\n2,B,3\n1,C,3\n", "line 4: sentence '1' began on line 2"),
        ("sentence,word,time\n1,A,0\n1,B,0\n", "line 2: all times of sentence '1' are 0"),
        ("sentence,word,time,reader\n1,A,1,x\n1,B,1,y\n", "line 3: reader 'y' has different words"),
    ],
)
def test_wrong_reading_times_are_refused_with_their_line(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_reading_times(written(tmp_path, "t.csv", text))
