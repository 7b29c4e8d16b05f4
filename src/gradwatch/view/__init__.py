"""What people look at: the web viewer, reports, the terminal, notebooks."""
