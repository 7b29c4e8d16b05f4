"""Bridges to other tools: importing event files, checking a training script."""
