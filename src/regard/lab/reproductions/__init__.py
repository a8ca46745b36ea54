"""Published judgements of attention, made again."""
