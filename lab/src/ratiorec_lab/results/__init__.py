"""Result tables of the documents, written from the JSON files under `results/` and nothing else."""
