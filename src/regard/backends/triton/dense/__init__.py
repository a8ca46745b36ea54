"""Dense attention: forward, backward, sparse alignments, top-k, sampling."""
