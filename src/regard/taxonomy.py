"""Every mechanism and its place in the tree: the one list that `regard taxonomy` and the docs are made from.

An entry says where a mechanism stands, what it is called, where its class is and which page is about it. Sentence,
formula and papers are read from the docstring of the class, so that they cannot drift from the code. A score or an
alignment that has a name and no line here stands at the end of its kind, with the page that its class names.
`ALIASES` has what else the field calls a mechanism: `find` answers to it, and pages and docstrings repeat it.
The tree is that of Brauwers and Frasincar 2021 with what is ours (structures, graphs, vision) beside it, and what came
since in its place; `Mechanism.year` says when.
"""

import inspect
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any

from .core.alignments import ALIGNMENTS
from .core.compositions import COMPOSITIONS, runs_on
from .core.name_registry import Names
from .core.scores import SCORES

PAPER = re.compile(r"[A-Z][\w'-]+(?: \d)?(?:,? (?:and|&) [A-Z][\w'-]+)?(?: et al\.)?,? (?:19|20)\d\d")

# place: name, class, page; a page without a folder is one of docs/mechanisms
TREE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Feature-related > Multiplicity": (
        ("singular", "regard.nn.Attend", "queries"),
        ("alternating", "regard.nn.AlternatingCoAttention", "alternating"),
        ("interactive", "regard.nn.InteractiveCoAttention", "interactive"),
        ("parallel", "regard.nn.ParallelCoAttention", "parallel"),
        ("attention_flow", "regard.nn.AttentionFlow", "attention_flow"),
        ("multi_grained", "regard.nn.MultiGrainedCoAttention", "multi_grained"),
        ("rotatory", "regard.nn.RotatoryAttention", "rotatory"),
    ),
    "Feature-related > Levels": (
        ("attention_via_attention", "regard.nn.AttentionViaAttention", "attention_via_attention"),
        ("hierarchical", "regard.nn.HierarchicalAttention", "hierarchical"),
    ),
    "Feature-related > Representations": (
        ("multi_representational", "regard.nn.MultiRepresentationalAttention", "multi_representational"),
    ),
    "General > Scoring": (
        ("dot", "regard.Dot", "dot"),
        ("scaled_dot", "regard.ScaledDot", "dot"),
        ("general", "regard.General", "general"),
        ("biased_general", "regard.BiasedGeneral", "general"),
        ("activated_general", "regard.ActivatedGeneral", "general"),
        ("trilinear", "regard.Trilinear", "general"),
        ("additive", "regard.Additive", "additive"),
        ("concat", "regard.Additive", "additive"),
        ("cosine", "regard.Cosine", "similarity"),
        ("gaussian", "regard.Gaussian", "similarity"),
        ("laplace", "regard.Laplace", "similarity"),
        ("content", "regard.Content", "similarity"),
        ("location", "regard.Location", "location"),
        ("location_aware", "regard.LocationAware", "location_aware"),
        ("query_free", "regard.QueryFree", "query_free"),
        ("learned_query", "regard.LearnedQuery", "query_free"),
        ("linear_kernel", "regard.LinearKernel", "linear_kernel"),
        ("query_key_norm", "regard.Cosine", "similarity"),
        ("cope", "regard.CoPE", "contextual"),
        ("multi_token", "regard.ConvolvedDot", "multi_token"),
        ("gat", "regard.GAT", "graph_scores"),
        ("gatv2", "regard.GATv2", "graph_scores"),
    ),
    "General > Scoring > Modifiers": (
        ("soft_cap", "regard.SoftCap", "modifiers"),
        ("clamp", "regard.Clamp", "modifiers"),
        ("alibi", "regard.ALiBi", "modifiers"),
        ("relative_bias", "regard.RelativeBias", "modifiers"),
        ("t5_bias", "regard.T5Bias", "distance_bias"),
        ("kerple", "regard.Kerple", "distance_bias"),
        ("fire", "regard.FIRE", "distance_bias"),
        ("forgetting_gate", "regard.ForgettingGate", "forgetting"),
        ("pair_bias", "regard.PairBias", "modifiers"),
        ("edge_bias", "regard.EdgeBias", "modifiers"),
        ("sink", "regard.Sink", "modifiers"),
        ("activation", "regard.Activation", "modifiers"),
        ("rotary", "regard.Rotary", "rotary"),
        ("position_interpolation", "regard.Rotary", "rotary"),
        ("ntk_rotary", "regard.Rotary", "rotary"),
        ("yarn", "regard.Rotary", "rotary"),
        ("partial_rotary", "regard.Rotary", "rotary"),
        ("no_positions", "regard.Causal", "rotary"),
        ("grid_rotary", "regard.GridRotary", "rotary"),
    ),
    "General > Alignment": (
        ("softmax", "regard.Softmax", "softmax"),
        ("sparsemax", "regard.Sparsemax", "sparse"),
        ("entmax15", "regard.Entmax", "sparse"),
        ("top_k", "regard.TopK", "top_k"),
        ("hard", "regard.Hard", "hard"),
        ("gumbel", "regard.Gumbel", "hard"),
        ("local", "regard.Local", "local"),
        ("local_predictive", "regard.LocalPredictive", "local"),
        ("reinforced", "regard.Reinforced", "reinforced"),
        ("monotonic", "regard.Monotonic", "monotonic"),
        ("sigmoid", "regard.Sigmoid", "elementwise"),
        ("relu", "regard.ReLU", "elementwise"),
        ("softpick", "regard.Softpick", "softpick"),
        ("stick_breaking", "regard.StickBreaking", "stick_breaking"),
        ("softmax1", "regard.SoftmaxOne", "softmax_one"),
        ("sigmoid_schedule", "regard.Sigmoid", "elementwise"),
        ("uniform", "regard.Uniform", "uniform"),
    ),
    "General > Dimensionality": (
        ("feature_wise", "regard.Additive", "features"),
        ("directional", "regard.nn.DirectionalSelfAttention", "directional"),
        ("disan", "regard.nn.DiSAN", "directional"),
    ),
    "General > Structure": (
        ("full", "regard.Full", "structures"),
        ("causal", "regard.Causal", "structures"),
        ("window", "regard.Window", "structures"),
        ("shifted_windows", "regard.ShiftedWindows", "grids"),
        ("neighbourhood", "regard.Neighbourhood", "grids"),
        ("axial", "regard.Axial", "grids"),
        ("padding", "regard.Padding", "structures"),
        ("mask", "regard.Mask", "structures"),
        ("segments", "regard.Segments", "structures"),
        ("selected", "regard.Selected", "selected"),
        ("past_blocks", "regard.PastBlocks", "native_sparse"),
        ("edges", "regard.Edges", "structures"),
    ),
    "General > Recurrence": (
        ("causal_linear", "regard.nn.CausalLinearAttention", "recurrences"),
        ("retention", "regard.nn.Retention", "recurrences"),
        ("lightning", "regard.nn.LightningAttention", "recurrences"),
        ("gated_linear", "regard.nn.GatedLinearAttention", "recurrences"),
        ("mamba2", "regard.nn.Mamba2", "state_space"),
        ("delta", "regard.nn.GatedDeltaNet", "recurrences"),
        ("gated_delta", "regard.nn.GatedDeltaNet", "recurrences"),
        ("kimi_delta", "regard.nn.KimiDeltaAttention", "recurrences"),
    ),
    "Query-related > Type": (
        ("basic", "regard.nn.Attend", "queries"),
        ("specialised", "regard.nn.Attend", "queries"),
        ("attention_pooling", "regard.nn.AttentionPooling", "queries"),
        ("self_attention", "regard.nn.SelfAttention", "queries"),
        ("structured", "regard.nn.StructuredSelfAttention", "structured"),
        ("reinforced_self_attention", "regard.nn.ReinforcedSelfAttention", "reinforced_self_attention"),
    ),
    "Query-related > Multiplicity": (
        ("multi_head", "regard.nn.Attention", "multi_head"),
        ("grouped_queries", "regard.nn.Attention", "multi_head"),
        ("differential", "regard.nn.DifferentialAttention", "differential"),
        ("gated", "regard.nn.GatedAttention", "gated"),
        ("talking_heads", "regard.nn.TalkingHeadsAttention", "talking_heads"),
        ("latent", "regard.nn.LatentAttention", "latent"),
        ("tensor_product", "regard.nn.TensorProductAttention", "tensor_product"),
        ("cross_layer", "regard.nn.CrossLayerAttention", "cross_layer"),
        ("multi_token_layer", "regard.nn.MultiTokenAttention", "multi_token"),
        ("mixture_of_blocks", "regard.nn.MixtureOfBlockAttention", "selected"),
        ("native_sparse", "regard.nn.NativeSparseAttention", "native_sparse"),
        ("indexed", "regard.nn.IndexedAttention", "indexer"),
        ("indexer", "regard.nn.LightningIndexer", "indexer"),
        ("multi_hop", "regard.nn.MultiHopAttention", "multi_hop"),
        ("capsule", "regard.nn.CapsuleAttention", "capsule"),
    ),
    "Vision > Positions": (
        ("external", "regard.nn.ExternalAttention", "external"),
        ("non_local", "regard.nn.NonLocalBlock", "non_local"),
        ("spatial", "regard.nn.SpatialAttention", "space_and_time"),
        ("temporal", "regard.nn.TemporalAttention", "space_and_time"),
        ("double", "regard.nn.DoubleAttention", "dual"),
        ("attention_free", "regard.nn.AttentionFree", "attention_free"),
    ),
    "Vision > Channels": (
        ("squeeze_excitation", "regard.nn.SqueezeExcitation", "channel_gates"),
        ("efficient_channel", "regard.nn.EfficientChannelAttention", "channel_gates"),
        ("convolutional_block", "regard.nn.ConvolutionalBlockAttention", "channel_gates"),
        ("channel", "regard.nn.ChannelAttention", "dual"),
        ("dual", "regard.nn.DualAttention", "dual"),
    ),
    "Biology > Proteins": (
        ("triangle", "regard.nn.TriangleAttention", "triangle"),
        ("msa_row", "regard.nn.MSARowAttention", "triangle"),
        ("msa_column", "regard.nn.MSAColumnAttention", "triangle"),
    ),
    "Graphs > Layers": (
        ("gat_conv", "regard.nn.GATConv", "graph/gat_conv"),
        ("gatv2_conv", "regard.nn.GATv2Conv", "graph/gatv2_conv"),
        ("transformer_conv", "regard.nn.TransformerConv", "graph/transformer_conv"),
        ("agnn_conv", "regard.nn.AGNNConv", "graph/agnn_conv"),
        ("supergat_conv", "regard.nn.SuperGATConv", "graph/supergat_conv"),
        ("edge_gat_conv", "regard.nn.EdgeGATConv", "graph/edge_gat_conv"),
        ("graph_transformer_conv", "regard.nn.GraphTransformerConv", "graph/graph_transformer_conv"),
        ("graphormer", "regard.nn.GraphormerAttention", "graph/graphormer"),
        ("walk_attention", "regard.nn.WalkAttention", "graph/walk_attention"),
    ),
    "Graphs > Transformers": (
        ("graph_self_attention", "regard.nn.GraphSelfAttention", "graph/graph_self_attention"),
        ("gps_conv", "regard.nn.GPSConv", "graph/gps_conv"),
        ("exphormer_conv", "regard.nn.ExphormerConv", "graph/exphormer_conv"),
        ("sgformer_attention", "regard.nn.SGFormerAttention", "graph/sgformer_attention"),
        ("nodeformer_conv", "regard.nn.NodeFormerConv", "graph/nodeformer_conv"),
        ("polynormer_attention", "regard.nn.PolynormerAttention", "graph/polynormer_attention"),
        ("grit_conv", "regard.nn.GRITConv", "graph/grit_conv"),
        ("graphit_attention", "regard.nn.GraphiTAttention", "graph/graphit_attention"),
        ("set_attention_block", "regard.nn.SetAttentionBlock", "graph/edge_set_attention"),
        ("edge_set_attention", "regard.nn.EdgeSetAttention", "graph/edge_set_attention"),
        ("node_set_attention", "regard.nn.NodeSetAttention", "graph/node_set_attention"),
    ),
    "Graphs > Typed edges": (
        ("rgat_conv", "regard.nn.RGATConv", "graph/rgat_conv"),
        ("hgt_conv", "regard.nn.HGTConv", "graph/hgt_conv"),
        ("han_conv", "regard.nn.HANConv", "graph/han_conv"),
        ("simple_hgn_conv", "regard.nn.SimpleHGNConv", "graph/simple_hgn_conv"),
    ),
    "Graphs > Whole graphs": (
        ("attentional_aggregation", "regard.nn.AttentionalAggregation", "graph/attentional_aggregation"),
        ("gated_readout", "regard.nn.GatedReadout", "graph/gated_readout"),
        ("sag_pooling", "regard.nn.SAGPooling", "graph/sag_pooling"),
        ("global_node", "regard.nn.GlobalNode", "graph/global_node"),
    ),
}

# What else the field calls them: `find` ignores case, punctuation and a closing "attention".
ALIASES: dict[str, tuple[str, ...]] = {
    "interactive": ("IAN", "interactive attention network"),
    "parallel": ("co-attention",),
    "attention_flow": ("BiDAF", "bidirectional attention flow"),
    "multi_grained": ("MGAN",),
    "rotatory": ("LCR-Rot",),
    "hierarchical": ("HAN", "hierarchical attention network"),
    "multi_representational": ("DME", "CDME", "dynamic meta-embeddings"),
    "dot": ("dot-product attention", "inner product"),
    "scaled_dot": ("scaled dot-product attention", "SDPA", "transformer attention"),
    "general": ("Luong attention", "bilinear", "multiplicative"),
    "additive": ("Bahdanau attention", "Luong's concat", "MLP attention"),
    "cosine": ("QK-norm", "query-key normalisation", "cosine similarity"),
    "cope": ("contextual position encoding",),
    "multi_token": ("multi-token attention", "MTA", "key-query convolution", "convolved scores"),
    "gaussian": ("RBF kernel", "Nadaraya-Watson", "kernel regression"),
    "laplace": ("L1 distance", "Laplacian kernel"),
    "content": ("content-based addressing", "neural Turing machine"),
    "location": ("location-based attention",),
    "location_aware": ("location-sensitive attention", "Chorowski attention"),
    "query_free": ("feed-forward attention", "source2token"),
    "learned_query": ("context vector", "seed vector"),
    "linear_kernel": ("linear attention", "kernelised attention", "linear transformer"),
    "gatv2": ("dynamic graph attention",),
    "soft_cap": ("soft capping", "logit soft-capping", "tanh clipping"),
    "clamp": ("logit clipping",),
    "alibi": ("attention with linear biases",),
    "relative_bias": ("relative position bias", "relative positional encoding"),
    "pair_bias": ("attention bias", "additive mask"),
    "sink": ("attention sink", "learned sink logit"),
    "softmax1": ("softmax-off-by-one", "quiet softmax", "off-by-one softmax"),
    "t5_bias": ("T5 bias", "T5 relative attention bias", "bucketed relative position bias"),
    "kerple": ("kernelised relative positional embedding", "logarithmic distance bias"),
    "fire": ("functional interpolation for relative positions",),
    "forgetting_gate": ("forget gate", "FoX", "forgetting transformer", "data-dependent ALiBi"),
    "softpick": ("rectified softmax",),
    "stick_breaking": ("stick-breaking process",),
    "shifted_windows": ("Swin", "shifted window attention", "window partition"),
    "neighbourhood": ("NATTEN", "neighborhood attention"),
    "selected": ("block-sparse attention", "block selection", "top-k blocks"),
    "past_blocks": ("causal mask of compressed blocks",),
    "mixture_of_blocks": ("MoBA", "mixture of block attention"),
    "native_sparse": ("NSA", "natively sparse attention"),
    "indexed": ("DeepSeek sparse attention", "DSA"),
    "indexer": ("lightning indexer", "DeepSeek indexer", "DSA indexer"),
    "tensor_product": ("TPA", "T6"),
    "cross_layer": ("CLA", "cross-layer KV sharing", "YOCO"),
    "multi_token_layer": ("MTA layer",),
    "triangle": ("triangular self-attention", "AlphaFold triangle attention"),
    "msa_row": ("MSA row-wise gated self-attention", "axial attention with pair bias"),
    "msa_column": ("MSA column-wise gated self-attention",),
    "lightning": ("lightning attention", "MiniMax-01", "TransNormer"),
    "mamba2": ("SSD", "state space duality", "structured masked attention"),
    "kimi_delta": ("KDA", "Kimi Linear"),
    "delta": ("delta rule",),
    "axial": ("row attention", "column attention", "criss-cross attention"),
    "differential": ("DIFF transformer", "differential transformer"),
    "gated": ("output gate", "gated attention (Qwen3-Next)"),
    "talking_heads": ("head mixing", "DeepViT re-attention"),
    "latent": ("MLA", "multi-head latent attention", "DeepSeek attention"),
    "retention": ("RetNet", "retentive network", "multi-scale retention"),
    "gated_linear": ("GLA",),
    "gated_delta": ("DeltaNet", "gated delta rule", "GDN", "fast weight programmer"),
    "rotary": ("RoPE", "rotary position embedding"),
    "position_interpolation": ("linear RoPE scaling",),
    "ntk_rotary": ("NTK-aware RoPE", "NTK RoPE"),
    "yarn": ("yet another RoPE extension",),
    "partial_rotary": ("partial RoPE",),
    "no_positions": ("NoPE",),
    "grid_rotary": ("2-D RoPE", "axial RoPE"),
    "softmax": ("soft attention", "global attention"),
    "sparsemax": ("sparse softmax",),
    "entmax15": ("entmax", "alpha-entmax", "1.5-entmax"),
    "top_k": ("top-k softmax", "k-NN attention", "explicit sparse attention"),
    "hard": ("hard attention", "argmax attention"),
    "gumbel": ("Gumbel-softmax", "concrete distribution"),
    "local": ("local-m", "local monotonic attention"),
    "local_predictive": ("local-p",),
    "reinforced": ("REINFORCE", "policy-gradient attention"),
    "monotonic": ("monotonic alignment", "online monotonic attention"),
    "sigmoid": ("sigmoid attention",),
    "relu": ("ReLU attention", "rectified linear attention"),
    "uniform": ("mean pooling", "average attention"),
    "feature_wise": ("multi-dimensional attention", "vector attention"),
    "directional": ("DiSA",),
    "full": ("dense attention", "bidirectional attention", "no mask"),
    "causal": ("causal mask", "autoregressive mask", "look-ahead mask"),
    "window": ("sliding window attention", "SWA", "banded attention"),
    "padding": ("padding mask", "key padding mask"),
    "mask": ("attention mask", "attn_mask", "boolean mask"),
    "segments": ("packed sequences", "varlen", "document mask", "block-diagonal mask"),
    "edges": ("message passing", "edge_index", "sparse adjacency"),
    "basic": ("cross-attention", "encoder-decoder attention"),
    "attention_pooling": ("pooling by a learned query", "PMA", "Set Transformer pooling"),
    "self_attention": ("intra-attention",),
    "structured": ("self-attentive sentence embedding",),
    "reinforced_self_attention": ("ReSA", "ReSAN"),
    "multi_head": ("MHA", "grouped-query attention", "GQA", "multi-query attention", "MQA"),
    "multi_hop": ("memory network", "stacked attention network", "iterative attention"),
    "external": ("EANet", "memory slots"),
    "non_local": ("non-local neural network", "embedded Gaussian"),
    "attention_free": ("AFT",),
    "squeeze_excitation": ("SENet", "SE block"),
    "efficient_channel": ("ECA-Net", "ECA"),
    "convolutional_block": ("CBAM",),
    "dual": ("DANet",),
    "gat_conv": ("graph attention network", "GAT layer"),
    "transformer_conv": ("UniMP",),
    "agnn_conv": ("AGNN",),
    "supergat_conv": ("SuperGAT",),
    "edge_gat_conv": ("EGAT",),
    "graph_transformer_conv": ("graph transformer",),
    "rgat_conv": ("RGAT", "relational graph attention"),
    "hgt_conv": ("HGT", "heterogeneous graph transformer"),
    "han_conv": ("heterogeneous graph attention network",),
    "simple_hgn_conv": ("Simple-HGN",),
    "attentional_aggregation": ("global attention pooling",),
    "sag_pooling": ("SAGPool", "self-attention graph pooling"),
    "global_node": ("virtual node", "master node", "supernode"),
    "graph_self_attention": ("global graph attention", "fully connected attention"),
    "gps_conv": ("GraphGPS", "GPS layer"),
    "exphormer_conv": ("Exphormer", "expander attention"),
    "sgformer_attention": ("SGFormer", "simple global attention"),
    "nodeformer_conv": ("NodeFormer", "kernelised Gumbel-softmax"),
    "polynormer_attention": ("Polynormer",),
    "grit_conv": ("GRIT", "graph inductive bias transformer"),
    "graphit_attention": ("GraphiT", "kernel attention", "positional kernel"),
    "set_attention_block": ("SAB", "MAB", "masked self-attention block"),
    "edge_set_attention": ("ESA", "edge-set attention"),
    "node_set_attention": ("node-set attention",),
}

# What is an option of a class and so has no docstring of its own.
OPTIONS = {
    "basic": """A query that the task gives: a decoder's state, a question.

        c = sum_j align_j(score(q, f_j)) f_j

    Bahdanau et al. 2015.
    """,
    "specialised": """A query built from another input or another attention, as in most compositions.

        c = sum_j align_j(score(q', f_j)) f_j,   q' = mean of another input, or what another attention read

    Brauwers and Frasincar 2021.
    """,
    "query_key_norm": """Queries and keys are normalised before they meet, so that scores are bounded:
    Cosine(sharpness).

        s_ij = sharpness q_i . k_j / (|q_i| |k_j|)

    Henry et al. 2020; Dehghani et al. 2023 (ViT-22B) with a layer norm in place of the length.
    """,
    "position_interpolation": """Positions divided by a factor, so that a longer text has those of training:
    Rotary(d, stretch="linear").

        the angle of pair c at position p is p / factor / base^(2c / d)

    Chen et al. 2023.
    """,
    "ntk_rotary": """The base is raised, so that slow rotations are stretched and fast ones hardly:
    Rotary(d, stretch="ntk").

        the angle of pair c at position p is p / (base factor^(d / (d - 2)))^(2c / d)

    Peng et al. 2024 give it as NTK-aware interpolation.
    """,
    "yarn": """Slow rotations are stretched, fast ones kept, and scores sharpened: Rotary(d, stretch="yarn", trained=).

        the angle of pair c is p (kept_c + (1 - kept_c) / factor) / base^(2c / d); q and k times 0.1 log(factor) + 1

    Peng et al. 2024.
    """,
    "partial_rotary": """A part of the coordinates turns, the rest says what stands where it may: Rotary(d, turned=).

        (x_2c, x_2c+1) at position p is turned by p / base^(2c / turned) for 2c < turned, and kept otherwise

    Black et al. 2022 (GPT-NeoX).
    """,
    "no_positions": """A causal model without any position: the mask alone lets a token know how many stand before it.

        s_ij = q_i . k_j / sqrt(d), over Causal()

    Haviv et al. 2022; Kazemnejad et al. 2023 (NoPE). Without the mask, exchanging keys exchanges their weights.
    """,
    "sigmoid_schedule": """The bias of sigmoid attention follows the number of keys at a rate: Sigmoid(rate=).

        w_ij = 1 / (1 + exp(-s_ij) count_i^rate)

    Ramapuram et al. 2024, where it is 1.
    """,
    "grouped_queries": """Fewer heads of keys and values, each of which serves several heads of queries:
    Attention(kv_heads=).

        head_c = attend(W_q^c x, W_k^g z, W_v^g z), g = floor(c kv_heads / heads); kv_heads = 1 is multi-query

    Shazeer 2019 (multi-query); Ainslie et al. 2023 (grouped).
    """,
    "delta": """A state that is corrected, and forgets nothing else: GatedDeltaNet(gate=False).

        S_t = (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T,   y_t = S_t^T q_t

    Schlag et al. 2021; Yang et al. 2024 (DeltaNet).
    """,
    "feature_wise": """One weight for each feature of the value instead of one for the whole: features= of a score.

        s_ijf = score_f(q_i, k_j),   w_ijf = align over j for each f,   y_if = sum_j w_ijf v_jf

    Shen et al. 2018 (DiSAN).
    """,
}


@dataclass(frozen=True)
class Mechanism:
    """One leaf of the tree. `place` is the way to it, `where` the class, `page` the document from docs/."""

    name: str
    place: tuple[str, ...]
    where: str
    page: str

    @property
    def kind(self) -> type:
        module, name = self.where.rsplit(".", 1)
        found: type = getattr(import_module(module), name)
        return found

    @property
    def says(self) -> str:
        """What it does, in a sentence."""
        return " ".join(self._paragraphs()[0].split())

    @property
    def formula(self) -> str:
        """The first indented block of the docstring."""
        for paragraph in self._paragraphs():
            if paragraph.startswith("    "):
                return inspect.cleandoc(paragraph)
        return ""

    @property
    def short(self) -> str:
        """The formula in one line, without what a remark at its right says."""
        lines = (re.split(r" {5,}", line)[0] for line in self.formula.splitlines())
        return "; ".join(re.sub(r"\s+", " ", line).rstrip(",;") for line in lines)

    @property
    def aliases(self) -> tuple[str, ...]:
        """What else the field calls it."""
        return ALIASES.get(self.name, ())

    @property
    def parts(self) -> str:
        """What it is made of, as a call is written; "" where no composition says."""
        found = COMPOSITIONS.get(self.name)
        return "" if found is None else found.parts

    @property
    def backends(self) -> tuple[str, ...]:
        """Which backends run its parts, whatever the machine; () where no composition says."""
        return runs_on(self.name)

    @property
    def papers(self) -> list[str]:
        return list(dict.fromkeys(PAPER.findall(" ".join(" ".join(self._paragraphs()).split()))))

    @property
    def year(self) -> int | None:
        """Of the first paper that its class names; None where it names none."""
        years = [int(paper[-4:]) for paper in self.papers]
        return min(years) if years else None

    def _paragraphs(self) -> list[str]:
        return inspect.cleandoc(OPTIONS.get(self.name) or self.kind.__doc__ or "").split("\n\n")


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """All of them, in the order of the tree."""
    found = []
    for place, entries in TREE.items():
        for name, where, page in (*entries, *_named(place)):
            folder = "" if "/" in page or page == "structures" else "mechanisms/"
            found.append(Mechanism(name, tuple(place.split(" > ")), where, f"{folder}{page}.md"))
    return tuple(found)


def _named(place: str) -> list[tuple[str, str, str]]:
    """Scores and alignments of ours that are known by a name and have no line in the tree."""
    room: dict[str, tuple[str, Names[Any]]] = {
        "General > Scoring": ("scores", SCORES),
        "General > Alignment": ("alignments", ALIGNMENTS),
    }
    if place not in room:
        return []
    module, names = room[place]
    lines = {name for name, _, _ in TREE[place]}
    return [
        (name, f"regard.{module}.{kind.__name__}", names.pages[kind])
        for name, kind in names.built.items()
        if name not in lines and kind.__module__.startswith("regard.core.")
    ]


def also_known_as(page: str) -> str:
    """The line of names that a page from docs/ shows; "" where its mechanisms have no other names."""
    here = [one for one in mechanisms() if one.page == page]
    named = [one for one in here if one.aliases]
    if not named:
        return ""
    alone = len({one.where for one in here}) == 1
    parts = [("" if alone else f"**{one.name.replace('_', ' ')}**: ") + ", ".join(one.aliases) for one in named]
    return f"Also known as: {'; '.join(parts)}."


def find(name: str) -> Mechanism:
    """By its name, its class or what else the field calls it; an unknown name is answered with near ones."""
    every = mechanisms()
    known = [(one.name, one) for one in every] + [(one.where.rsplit(".", 1)[1], one) for one in every]
    known += [(alias, one) for one in every for alias in one.aliases]
    names: dict[str, Mechanism] = {}
    for said, meant in known:
        names.setdefault(_plain(said), meant)
    found = names.get(_plain(name))
    if found is None:
        close = get_close_matches(_plain(name), names, n=3, cutoff=0.6)
        near = list(dict.fromkeys(names[one].name for one in close))
        hint = f"did you mean {', '.join(near)}?" if near else "`regard taxonomy` lists them all."
        raise ValueError(f"there is no mechanism {name!r}: {hint}")
    return found


def _plain(name: str) -> str:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters.removesuffix("attention") or letters
