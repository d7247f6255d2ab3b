"""Training of one model by several processes: each has a part of the users and of every table."""
