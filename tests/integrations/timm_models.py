"""Families of timm: nn.replace with softmax beside the model's own attention, or the refusal.

    python tests/integrations/timm_models.py [vit_tiny_patch16_224 ...]

Random weights, one image, evaluation mode. Fails where a replaced model's output is another.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import regard
from loadable_torchvision import declare_missing_operators

NAMES = [
    "vit_tiny_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "vit_relpos_small_patch16_224",
    "vit_medium_patch16_reg4_gap_256",
    "naflexvit_base_patch16_gap",
    "beit_base_patch16_224",
    "eva02_tiny_patch14_224",
    "samvit_base_patch16_224",
    "swin_tiny_patch4_window7_224",
    "twins_svt_small",
    "pvt_v2_b0",
    "maxvit_rmlp_pico_rw_256",
    "coatnet_pico_rw_224",
    "xcit_nano_12_p16_224",
    "hiera_tiny_224",
    "nest_tiny",
    "caformer_s18",
    "visformer_tiny",
    "fastvit_sa12",
    "mobilevit_xxs",
    "tiny_vit_5m_224",
    "nextvit_small",
    "mobilenetv4_hybrid_medium",
    "swinv2_tiny_window8_256",
    "cait_xxs24_224",
    "davit_tiny",
    "levit_128s",
    "volo_d1_224",
    "crossvit_tiny_240",
    "edgenext_xx_small",
    "efficientformer_l1",
    "mobilevitv2_050",
    "botnet26t_256",
    "convit_tiny",
    "coat_tiny",
    "tnt_s_patch16_224",
    "gcvit_xxtiny",
    "mvitv2_tiny",
    "resnet10t",
    "poolformerv2_s12",
]
EXACT = 2e-5  # relative to the largest output, as in architectures.py


def compared(name: str) -> tuple[str, bool]:
    """A sentence, and whether the output was the model's own."""
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name).eval()
    with torch.no_grad():
        for p in model.parameters():
            if not p.any():  # heads and position tables begin at zero
                p.normal_(std=0.02)
    image = torch.randn(1, *model.default_cfg["input_size"])
    try:
        change = regard.nn.replace(model)
    except ValueError as error:
        return f"refused: {str(error).partition('. ')[0]}", True
    with torch.no_grad():
        found = model(image)
        change.undo()
        expected = model(image)
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    return f"{len(change.names)} modules, relative error {error:.0e}", error <= EXACT


def main() -> None:
    warnings.simplefilter("ignore")
    declare_missing_operators()
    wrong = []
    for name in sys.argv[1:] or NAMES:
        said, good = compared(name)
        wrong += [] if good else [name]
        print(f"{name}: {said}", flush=True)
    if wrong:
        sys.exit(f"Another output: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
