"""The glossary: its lines run, its links lead somewhere, and the words of the field lead to the right page."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")
SETUP, *SECTIONS = re.split(r"^### ", TEXT.split("\n## Not here")[0], flags=re.MULTILINE)
ENTRIES = [tuple(section.split("\n", 1)) for section in SECTIONS]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# What someone of the field would type into the search, and the page that must answer.
TERMS = {
    "GQA": "mechanisms/multi_head.md",
    "grouped-query attention": "mechanisms/multi_head.md",
    "MQA": "mechanisms/multi_head.md",
    "multi-query attention": "mechanisms/multi_head.md",
    "multi-head": "mechanisms/multi_head.md",
    "sliding window": "structures.md",
    "causal mask": "structures.md",
    "attention mask": "structures.md",
    "padding mask": "structures.md",
    "varlen": "structures.md",
    "packed sequences": "structures.md",
    "document mask": "structures.md",
    "message passing": "structures.md",
    "KV cache": "examples/decoding.md",
    "speculative decoding": "examples/decoding.md",
    "RoPE": "mechanisms/rotary.md",
    "rotary position embedding": "mechanisms/rotary.md",
    "ALiBi": "mechanisms/modifiers.md",
    "T5 bias": "mechanisms/distance_bias.md",
    "relative position bias": "mechanisms/modifiers.md",
    "attention sink": "mechanisms/modifiers.md",
    "soft capping": "mechanisms/modifiers.md",
    "QK-norm": "mechanisms/similarity.md",
    "Bahdanau": "mechanisms/additive.md",
    "Luong": "mechanisms/general.md",
    "bilinear": "mechanisms/general.md",
    "multiplicative": "mechanisms/general.md",
    "scaled dot-product attention": "mechanisms/dot.md",
    "SDPA": "mechanisms/dot.md",
    "linear attention": "mechanisms/linear_kernel.md",
    "entmax": "mechanisms/sparse.md",
    "Gumbel-softmax": "mechanisms/hard.md",
    "cross-attention": "mechanisms/queries.md",
    "self-attention": "mechanisms/queries.md",
    "Set Transformer": "mechanisms/queries.md",
    "co-attention": "mechanisms/parallel.md",
    "non-local": "mechanisms/non_local.md",
    "graph attention network": "graph/gat_conv.md",
    "virtual node": "graph/global_node.md",
    "FlashAttention": "glossary.md",
    "FlexAttention": "glossary.md",
    "log-sum-exp": "maps.md",
    "activation patching": "intervene.md",
    "head ablation": "intervene.md",
    "attention rollout": "recording/what_does_this_head_do.md",
    "induction": "recording/what_does_this_head_do.md",
    "saliency": "judge/weights.md",
    "faithfulness": "judge/weights.md",
    "plausibility": "judge/people.md",
    "Attention is not Explanation": "judge/sst.md",
    "alignment error rate": "judge/alignment.md",
    "over-smoothing": "judge/claims.md",
}


@pytest.fixture(scope="module")
def names():
    made: dict[str, object] = {"__name__": "glossary"}
    for block in CODE.findall(SETUP):
        exec(compile(block, "glossary", "exec"), made)
    return made


@pytest.mark.parametrize(("term", "entry"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_an_entry_has_a_link_and_one_line_that_runs(term, entry, names):
    assert re.search(r"\]\((?!http)[^)]+\)", entry), f"{term} leads nowhere"
    (block,) = CODE.findall(entry)
    assert len(block.splitlines()) == 1
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, term, "exec"), names)


@pytest.mark.parametrize("term", [term for term, entry in ENTRIES if "torch.allclose" in entry])
def test_an_equality_that_the_glossary_states_holds(term, names):
    (block,) = CODE.findall(dict(ENTRIES)[term])
    assert eval(block, names)


def test_terms_stand_in_order_and_once():
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:3]
    for part in parts:
        terms = re.findall(r"^### (.*)", part, re.MULTILINE)
        assert terms == sorted(terms, key=str.lower)


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([\w/.]+\.md)\)", TEXT))))
def test_a_page_that_the_glossary_names_is_there(page):
    assert (DOCS / page).is_file()


@pytest.mark.parametrize(("term", "page"), TERMS.items())
def test_a_word_of_the_field_leads_to_its_page(term, page):
    def has(text: str) -> bool:
        return re.search(rf"\b{re.escape(term)}", " ".join(text.split()), re.IGNORECASE) is not None

    assert has(TEXT), f"the glossary has no {term}"
    assert has((DOCS / page).read_text(encoding="utf-8")), f"{page} does not say {term}"
