"""Every figure can be measured; what comes out is looked at elsewhere, on a machine that does nothing else."""
