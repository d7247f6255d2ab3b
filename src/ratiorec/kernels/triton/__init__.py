"""Triton kernels for a GPU."""
