"""Benchmarks: how fast things are, beside the least they could take, a reference and rivals.

In the order of reading: `clock` times, `case` holds what was found, `side_by_side` compares ways of
doing the same, `race` lets long runs take turns; `kernels`, `step`, `ranking`, `training` and
`growth` are what is measured, and `targets` names it.
"""
