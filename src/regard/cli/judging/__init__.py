"""What `regard judge` judges beside models."""
