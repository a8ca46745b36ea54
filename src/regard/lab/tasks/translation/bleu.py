"""BLEU, by sacrebleu."""

from collections.abc import Sequence


def bleu(said: Sequence[str], wanted: Sequence[str], lower: bool = False) -> float:
    """Corpus BLEU in percent with sacrebleu's own tokens (13a); where only torchmetrics is installed, by its copy."""
    try:
        from sacrebleu.metrics import BLEU
    except ModuleNotFoundError:
        from torchmetrics.functional.text import sacre_bleu_score

        return 100 * float(sacre_bleu_score(list(said), [[line] for line in wanted], tokenize="13a", lowercase=lower))
    return float(BLEU(lowercase=lower, force=True).corpus_score(list(said), [list(wanted)]).score)
