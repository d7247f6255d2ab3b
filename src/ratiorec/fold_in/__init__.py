"""Users who were not there in training: what their histories make of them, items fixed."""
