"""Questions to workers, and what is kept of their answers."""
