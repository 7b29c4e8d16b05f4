"""Several processes or devices: ranks, agreement on steps, heartbeats."""
