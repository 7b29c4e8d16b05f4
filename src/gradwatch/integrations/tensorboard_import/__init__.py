"""Taking over what other tools have logged."""
