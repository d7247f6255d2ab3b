"""Data: pairs of users and items, where they come from, and how they are split."""
