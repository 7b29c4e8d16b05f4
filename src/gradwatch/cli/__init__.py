"""The command line: `gradwatch`, one file a command."""
