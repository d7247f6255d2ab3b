"""How fast things are, beside the least they could take, a reference and rivals, in one run.

`targets` names what can be measured. A target is a function of `Conditions` that gives `Measured`.
"""
