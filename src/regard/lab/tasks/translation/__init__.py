"""Tasks of translation, with BLEU and word alignments."""
