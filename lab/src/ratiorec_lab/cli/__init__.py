"""The laboratory's commands, which join `ratiorec` by entry points."""
