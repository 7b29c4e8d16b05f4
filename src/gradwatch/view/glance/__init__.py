"""A run at a glance: the few numbers, words and small bars that terminals and pages share."""
