"""The page about one's own data is walked as its reader walks it: files are written, commands are run."""

import re

import pytest

pytest.importorskip("sqlalchemy", reason="the page runs a study: pip install 'regard[studies]'")
pytest.importorskip("torch_geometric", reason="the page saves PyG objects: pip install torch_geometric")
from tests.docs.test_tutorials import DOCS, make_pictures

PAGE = DOCS / "your_data.md"


@pytest.mark.slow
def test_every_file_and_command_of_the_page_works_as_it_is_written():
    make_pictures.check(PAGE)


def test_the_sentence_about_a_wrong_file_is_the_one_that_is_said(tmp_path, monkeypatch):
    from regard.data import read_texts

    wrong, sentence = re.search(r"```csv\n(.*?)```\n+```text\nregard: (.*?)\n```", PAGE.read_text(), re.DOTALL).groups()
    (tmp_path / "wrong.csv").write_text(wrong)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_texts("wrong.csv")
