"""Models that were trained with softmax, run and tuned with other alignments."""

from .other_alignments import ALIGNMENTS, Survival, TuneSetting, survive

__all__ = ["ALIGNMENTS", "Survival", "TuneSetting", "survive"]
