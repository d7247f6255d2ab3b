"""From a log of pairs to batches."""
