"""The web viewer's server: it shows runs to the person who started it, and to nobody else."""
