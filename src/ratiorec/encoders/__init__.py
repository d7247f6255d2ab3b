"""From pairs to embeddings: encoders that combine with any risk."""
