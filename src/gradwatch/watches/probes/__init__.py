"""Functions of a tensor's values, computed on the host: what a summary cannot give."""
