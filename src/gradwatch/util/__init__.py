"""Small helpers that know nothing of training: files, threads, messages, text tables."""
