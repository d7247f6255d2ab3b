"""Training: from settings and pairs to a model, with early stopping and checkpoints."""
