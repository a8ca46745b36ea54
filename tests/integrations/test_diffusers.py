"""diffusers' models: the backend "regard" and nn.replace give their own outputs, and other alignments run."""

import pytest
import torch

import regard
from regard import nn

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed (make test-integrations)")

BLOCKS = {"block_out_channels": (16, 32), "norm_num_groups": 4, "layers_per_block": 1}


def flux():
    torch.manual_seed(0)
    model = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        num_attention_heads=2,
        attention_head_dim=8,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=[2, 2, 4],
    )
    given = {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 6, 16),
        "pooled_projections": torch.randn(1, 16),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.randn(16, 3),
        "txt_ids": torch.randn(6, 3),
    }
    return model.eval(), given


def unet():
    torch.manual_seed(0)
    model = diffusers.UNet2DConditionModel(
        **BLOCKS,
        sample_size=8,
        cross_attention_dim=16,
        attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    mask = torch.ones(2, 6)
    mask[0, 3:] = 0
    given = {
        "sample": torch.randn(2, 4, 8, 8),
        "timestep": torch.tensor([5, 5]),
        "encoder_hidden_states": torch.randn(2, 6, 16),
        "encoder_attention_mask": mask,
    }
    return model.eval(), given


@pytest.mark.parametrize("make", [flux, unet])
def test_replaced_by_softmax_a_model_gives_its_own_outputs(make):
    model, given = make()
    with torch.no_grad():
        expected = model(**given).sample
        with nn.replace(model) as change:
            torch.testing.assert_close(model(**given).sample, expected)
        with nn.replace(model, align="entmax15"), regard.record(model) as rec:
            other = model(**given).sample
        assert torch.equal(model(**given).sample, expected)
    assert len(rec.maps) == len(change.names) and not torch.allclose(other, expected)


def test_the_backend_is_chosen_by_its_name_and_left_again():
    backends = pytest.importorskip("regard.integrations.diffusers")
    model, given = flux()
    with torch.no_grad():
        expected = model(**given).sample
        try:
            model.set_attention_backend("regard")
            torch.testing.assert_close(model(**given).sample, expected)
            model.set_attention_backend(backends.register("regard:top_k=3"))
            with regard.record(model) as rec:
                assert not torch.allclose(model(**given).sample, expected)
            for amap in rec.maps.values():
                assert int((amap.weights() > 0).sum(-1).amax()) == 3
            model.set_attention_backend("regard:softmax,window=1024")
            torch.testing.assert_close(model(**given).sample, expected)
        finally:
            model.set_attention_backend("native")
        assert torch.equal(model(**given).sample, expected)


def test_the_backend_refuses_what_would_stay_unchanged():
    backends = pytest.importorskip("regard.integrations.diffusers")
    model, _ = unet()
    with pytest.raises(ValueError, match=r"AttnProcessor2_0, which does not call.*regard\.nn\.replace"):
        model.set_attention_backend("regard:entmax15")
    with pytest.raises(ValueError, match="did you mean 'entmax15'"):
        backends.register("regard:entmx15")
    with pytest.raises(ValueError, match="must be one of"):
        flux()[0].set_attention_backend("regard:top_k=17")
    model.set_attn_processor(diffusers.models.attention_processor.AttnProcessor())
    with pytest.raises(ValueError, match="computes attention in its own code"):
        nn.replace(model)
