"""A pattern of sites that fits nothing is said, with what to type."""

import warnings

import pytest
import torch
from tests import small_models

from regard import record
from regard.recording.pretrained import record_run


def run(**options):
    model = small_models.model()
    with torch.no_grad(), record(model, **options) as rec:
        model(torch.tensor([[2, 4, 5, 3]]))
    return rec


@pytest.mark.parametrize("keep", ["qk", "stats"])
def test_a_pattern_that_fits_nothing_warns_and_names_the_nearest_sites(keep):
    said = (
        r"No attention was recorded: sites='encoder\.layer\.7\.\*' fits no site; attention ran at 2 sites, the nearest "
        r"of them 'encoder\.layer\.[01]\.attention\.self'"
    )
    with pytest.warns(UserWarning, match=said):
        assert not run(sites="encoder.layer.7.*", keep=keep).maps


def test_one_that_fits_says_nothing_nor_does_a_block_in_which_nothing_was_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run(sites="*.1.*").maps) == 1
        with record():
            pass


def test_where_nothing_ran_that_is_said():
    said = r"'foo\*' fits no site; no attention of this model ran in the block"
    with pytest.warns(UserWarning, match=said), record(small_models.model(), sites="foo*"):
        pass


def test_an_error_in_the_block_is_all_that_is_said():
    with warnings.catch_warnings(), pytest.raises(ZeroDivisionError):
        warnings.simplefilter("error")
        with record(small_models.model(), sites="foo*"):
            raise ZeroDivisionError


def test_the_command_stops_with_the_same_sentence():
    with pytest.raises(ValueError, match=r"sites='foo' fits no site; .* ran at 2 sites, the nearest of them 'encoder"):
        record_run(small_models.model(), small_models.tokenizer(), "a cat", "small", sites="foo")


def test_a_text_that_is_cut_is_said_and_kept_in_the_file(tmp_path):
    import regard

    said = []
    text = " ".join(["a cat sat."] * 6)
    rec, _ = record_run(small_models.model(), small_models.tokenizer(), text, "small", keep="stats", tell=said.append)
    assert said == ["The text was cut: the first 12 of 26 tokens, the model reads no more."]
    assert regard.load(rec.save(tmp_path / "run.regard")).about["read"] == "the first 12 of 26 tokens"
