"""Encoders: models in training that turn users and items into vectors."""
