"""Training task models: objectives, trainer, checkpoints, devices."""
