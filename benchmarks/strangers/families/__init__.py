"""One module per family of programs; `catalog.py` says which are for tuning."""
