"""Runs at a URL: sealed files are copied there, and read from there. See README.md."""
