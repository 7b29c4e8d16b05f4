"""Recording a run: the monitor, its session, the run directory."""
