"""Files that stay whole whatever happens while they are written."""
