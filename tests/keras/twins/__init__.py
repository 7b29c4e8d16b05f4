"""Random trainings, each done twice: bare, and under a monitor. Nothing may differ."""
