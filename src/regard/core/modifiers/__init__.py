"""What is joined to a score with |: soft cap, ALiBi, biases, sinks; and rotary position embedding."""
