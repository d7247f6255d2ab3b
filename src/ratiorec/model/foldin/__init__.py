"""Fold-in: users, pairs and items that training has not seen (cold start)."""
