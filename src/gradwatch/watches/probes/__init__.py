"""What cannot be derived from a summary: computed on the host from a tensor's values, rarely."""
