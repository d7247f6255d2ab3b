"""Kernels: the heavy sums of losses, in three backends (reference, tiled CPU, Triton)."""
