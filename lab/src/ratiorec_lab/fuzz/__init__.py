"""Fuzzing of every reader of foreign input, in a child process with a memory limit."""
