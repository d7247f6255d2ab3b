"""Evaluation: ranking metrics and their intervals."""
