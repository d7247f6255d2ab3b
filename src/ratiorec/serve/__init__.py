"""A model over HTTP: recommendations, similar items, health and metrics, without torch."""
