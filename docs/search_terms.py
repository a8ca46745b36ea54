"""What someone of the field types into the search of the site, and the page that must answer.

tests/docs/test_search.py looks for each term on its page; the build of the site looks for it in the search index.
"""

import json
import re
from pathlib import Path

TERMS = {
    # masks, sparsity, layouts
    "sliding window": "structures.md",
    "causal mask": "structures.md",
    "padding mask": "structures.md",
    "block mask": "structures.md",
    "block-sparse": "structures.md",
    "packed sequences": "structures.md",
    "varlen": "structures.md",
    "document mask": "structures.md",
    "jagged": "structures.md",
    "segment": "structures.md",
    # transformers
    "GQA": "mechanisms/multi_head.md",
    "MQA": "mechanisms/multi_head.md",
    "grouped-query attention": "mechanisms/multi_head.md",
    "multi-query attention": "mechanisms/multi_head.md",
    "KV cache": "examples/decoding.md",
    "speculative decoding": "examples/decoding.md",
    "beam search": "examples/decoding.md",
    "RoPE": "mechanisms/rotary.md",
    "ALiBi": "mechanisms/modifiers.md",
    "T5 bias": "mechanisms/distance_bias.md",
    "relative position bias": "mechanisms/modifiers.md",
    "attention sink": "mechanisms/modifiers.md",
    "soft capping": "mechanisms/modifiers.md",
    "score_mod": "mechanisms/modifiers.md",
    "QK-norm": "mechanisms/similarity.md",
    "SDPA": "mechanisms/dot.md",
    "temperature": "mechanisms/dot.md",
    "FlashAttention": "backends.md",
    "FlexAttention": "backends.md",
    "roofline": "backends.md",
    "dropout": "backends.md",
    "log-sum-exp": "maps.md",
    "cross-attention": "mechanisms/queries.md",
    "self-attention": "mechanisms/queries.md",
    "attention pooling": "mechanisms/query_free.md",
    "linear attention": "mechanisms/linear_kernel.md",
    # scores and alignments
    "Bahdanau": "mechanisms/additive.md",
    "Luong": "mechanisms/general.md",
    "bilinear": "mechanisms/general.md",
    "entmax": "mechanisms/sparse.md",
    "sparsemax": "mechanisms/sparse.md",
    "top-k": "mechanisms/top_k.md",
    "Gumbel-softmax": "mechanisms/hard.md",
    "straight-through": "mechanisms/hard.md",
    "REINFORCE": "mechanisms/reinforced.md",
    "hierarchical attention": "mechanisms/hierarchical.md",
    "co-attention": "mechanisms/parallel.md",
    "non-local": "mechanisms/non_local.md",
    "CBAM": "mechanisms/channel_gates.md",
    # graphs
    "GAT": "graph/gat_conv.md",
    "GATv2": "graph/gatv2_conv.md",
    "edge softmax": "graph/gat_conv.md",
    "message passing": "graph/index.md",
    "heterogeneous graph": "graph/hgt_conv.md",
    "HGT": "graph/hgt_conv.md",
    "HAN": "graph/han_conv.md",
    "meta-path": "graph/han_conv.md",
    "relational": "graph/rgat_conv.md",
    "virtual node": "graph/global_node.md",
    "self-loops": "graph/gat_conv.md",
    # interpretability and statistics
    "activation patching": "intervene.md",
    "attention knockout": "intervene.md",
    "head ablation": "intervene.md",
    "rollout": "recording/what_does_this_head_do.md",
    "induction head": "recording/what_does_this_head_do.md",
    "saliency": "judge/weights.md",
    "integrated gradients": "judge/weights.md",
    "faithfulness": "judge/weights.md",
    "sufficiency": "judge/weights.md",
    "comprehensiveness": "judge/weights.md",
    "plausibility": "judge/people.md",
    "rationale": "judge/people.md",
    "alignment error rate": "judge/alignment.md",
    "over-smoothing": "judge/claims.md",
    "output_attentions": "see_inside_my_model.md",
    "BertViz": "benchmarks/viewing.md",
    "power analysis": "studies/statistics.md",
    "hyperparameter tuning": "studies/tuning.md",
    "critical difference": "studies/tuning.md",
    "multiple comparisons": "studies/statistics.md",
    "bootstrap": "judge/statistics.md",
    # why a head looks there
    "residual stream": "why.md",
    "path patching": "why.md",
    "direct logit attribution": "why.md",
    "QK circuit": "why.md",
    "OV circuit": "why.md",
    "attention head": "why.md",
    "name mover": "why.md",
    "sparse autoencoder": "why.md",
    # what Regard does not have, said in the glossary
    "logit lens": "glossary.md",
    "sparse autoencoders": "glossary.md",
    "probing": "glossary.md",
    "SHAP": "glossary.md",
    "LIME": "glossary.md",
    "multi-head latent attention": "glossary.md",
    "PagedAttention": "glossary.md",
    "ring attention": "glossary.md",
    "YaRN": "glossary.md",
    "Weisfeiler": "glossary.md",
}


def has(text: str, term: str) -> bool:
    """Whether a text has a term, whatever the case; spaces and hyphens are alike, and so is a plural."""
    words = r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", term)))
    return re.search(rf"(?<!\w){words}s?(?!\w)", text, re.IGNORECASE) is not None


def missing(site: Path) -> list[str]:
    """The terms that the search index of a built site does not have on their page."""
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    pages: dict[str, str] = {}
    for entry in entries:
        page = entry["location"].partition("#")[0].removesuffix(".html") + ".md"
        pages[page] = f"{pages.get(page, '')} {entry['title']} {entry['text']}"
    return [f"{term}: {page}" for term, page in TERMS.items() if not has(pages.get(page, ""), term)]
