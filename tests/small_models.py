"""Small models of transformers with random weights, as save_pretrained leaves them."""

from pathlib import Path

import pytest
import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "sat", "script", "<", "/", ">", "##s", ".", "[MASK]"]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


def tokenizer():
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    places = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(places, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )


def model(kind: str = "BertModel", **sizes):
    """One of transformers' classes; weights are drawn wide, so that attention is not uniform."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = SIZES | sizes
    if kind.startswith("GPT2"):
        config = transformers.GPT2Config(vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=2, n_positions=12)
    elif kind.startswith("Albert"):
        config = transformers.AlbertConfig(**sizes, embedding_size=8)
    else:
        config = transformers.BertConfig(**sizes, initializer_range=0.6)
    return getattr(transformers, kind)(config).eval()


def saved(place: Path, kind: str = "BertModel", **sizes) -> Path:
    tokenizer().save_pretrained(place)
    model(kind, **sizes).save_pretrained(place)
    return place
