"""The public surface of Triumvir and nothing else."""
