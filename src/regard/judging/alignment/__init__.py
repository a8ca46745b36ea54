"""Word alignment: links from attention weights, alignment error rate, forced decoding."""
