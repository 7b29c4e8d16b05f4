"""Plots of runs with matplotlib, which is imported when one is asked for."""
