"""The laboratory of ratiorec: the paper's tables and figures, benchmarks and reports."""
