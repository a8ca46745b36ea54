"""Tasks of studies that compare layers and mechanisms in one network, tuned alike."""
