"""Programs that train badly, and programs that only look as if they did; see README.md."""
