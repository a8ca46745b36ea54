"""A user's own directions as writers: what they do not tell is a writer too, so the parts sum to the score."""

import pytest
import torch

import regard
from regard.core.errors import Refused
from regard.recording import FeatureDictionary

transformers = pytest.importorskip("transformers")
from tests.tiny_transformers import inputs_of, tiny_model  # noqa: E402


@pytest.fixture(scope="module")
def rec():
    torch.manual_seed(0)
    model = tiny_model("llama")
    with torch.no_grad(), regard.record(model) as made:
        model(**inputs_of(model))
    return made


def sparse(rec, at=None, features=40):
    torch.manual_seed(1)
    width = rec._names.model.config.hidden_size
    encoder, decoder = torch.randn(width, features), torch.randn(features, width)
    return FeatureDictionary(decoder, lambda x: torch.relu(x @ encoder), at, torch.randn(width) * 0.1)


@pytest.mark.parametrize("at", [None, "layers.0", "layers.0.mlp", "embed_tokens", "layers.0.self_attn"])
def test_the_parts_sum_to_the_score_whatever_the_dictionary_is_worth(rec, at):
    site = list(rec.maps)[1]
    plain = regard.why(rec, site, 1, 6, 3)
    found = regard.why(rec, site, 1, 6, 3, features=sparse(rec, at))
    assert found.score == pytest.approx(plain.score) and found.exactness < 1e-5
    kinds = {w.kind for w in found.keys}
    assert {"feature", "rest"} <= kinds and ("MLP" in kinds) == (at not in (None, "layers.0", "layers.0.mlp"))
    over = regard.why(rec, site, 1, 6, 3, against="row", features=sparse(rec, at))
    assert over.explained == pytest.approx(over.score, abs=1e-5 * float(over.parts.abs().sum()))


def test_a_feature_of_the_stream_is_cut_as_a_run_of_the_model_says(rec):
    site = list(rec.maps)[1]
    found = regard.why(rec, site, 1, 6, 3, features=sparse(rec))
    best = next(share.writer for share in found.by_writer("key") if share.writer.kind == "feature")
    cut = found.cut(best, "key", run=True)
    assert cut.ran == pytest.approx(cut.weight, abs=1e-5) and cut.before != pytest.approx(cut.weight, abs=1e-4)
    assert found.nonlinear("key", 1)[0].writer == found.by_writer("key", 1)[0].writer


def test_probes_are_projections_and_leave_a_rest_at_right_angles(rec):
    width = rec._names.model.config.hidden_size
    probes = torch.nn.functional.normalize(torch.randn(3, width, generator=torch.Generator().manual_seed(0)), dim=-1)
    one = FeatureDictionary(probes, names=["tense", "number", "gender"])
    alive, parts = one.parts(torch.randn(5, width, dtype=torch.float64))
    assert alive == [0, 1, 2] and parts.shape == (4, 5, width)
    assert float((parts[-1] @ probes.double().mT).abs().max()) < 1e-6
    found = regard.why(rec, list(rec.maps)[1], 1, 6, 3, features=[one])
    assert {"feature tense", "feature number", "feature gender", "rest of the stream"} <= {w.label for w in found.keys}
    assert regard.why(rec, list(rec.maps)[1], 1, features=one).exactness < 1e-5


def test_what_does_not_fit_is_told(rec):
    site, width = list(rec.maps)[1], rec._names.model.config.hidden_size
    with pytest.raises(ValueError, match=r"width 7, and the stream has"):
        regard.why(rec, site, 1, 6, 3, features=FeatureDictionary(torch.randn(2, 7)))
    with pytest.raises(Refused, match=r"no module of that name"):
        regard.why(rec, site, 1, 6, 3, features=FeatureDictionary(torch.randn(2, width), at="nowhere"))
    with pytest.raises(ValueError, match=r"expected \(F, width\)"):
        FeatureDictionary(torch.randn(7))
    with pytest.raises(ValueError, match=r"1 names for 2 directions"):
        FeatureDictionary(torch.randn(2, width), names=["one"])
    with pytest.raises(ValueError, match=r"encode\) gave"):
        regard.why(rec, site, 1, 6, 3, features=FeatureDictionary(torch.randn(2, width), encode=lambda x: x[:, :1]))
