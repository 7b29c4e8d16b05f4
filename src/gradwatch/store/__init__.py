"""The run's durable, compact, queryable home; README.md in this folder tells how."""
