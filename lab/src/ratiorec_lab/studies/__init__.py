"""Studies: measurements that answer one question each, as scripts that print one JSON object.

`python -m ratiorec_lab.studies.NAME` runs one; `python -m ratiorec_lab.studies NAME` also keeps
what it printed under `results/`.
"""
