"""Agreement of weights with what people marked or looked at."""
