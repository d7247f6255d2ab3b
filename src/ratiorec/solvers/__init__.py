"""Solvers: models in closed form or by alternating least squares, without gradients."""
