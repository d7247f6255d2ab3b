"""Batches: users with all their positives, or pairs with sampled negatives."""
