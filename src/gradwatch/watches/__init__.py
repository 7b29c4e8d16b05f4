"""What to measure, where and when: watches, the plan, the budget, probes."""
