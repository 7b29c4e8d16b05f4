"""How runs and the like display themselves in notebooks, and their plots."""
